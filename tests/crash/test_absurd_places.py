"""A record whose queue cannot be true, and nothing vouches for it: the store opens, and nothing is written for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.record.layout import UNIT
from zenitmq.store.queues.consume_queue import ConsumeQueue, OpenFiles

SETTINGS = {"segment_bytes": 65_536, "index_enabled": False}
QUEUE_ID_AT, QUEUE_OFFSET_AT = 12, 20


def rebuilt_with(tmp_path: Path, at: int, value: bytes) -> list[bytes]:
    """Ten messages, of one of which some header bytes are others; queues and checksum entries are gone."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        for number in range(10):
            put(store, "topic", 0, message("topic", b"%05d" % number))
        begin = store.position_of("topic", 0, 5)
        left = kill(tmp_path / "s", tmp_path / "killed")
    shutil.rmtree(left / "consumequeue")
    shutil.rmtree(left / "checksum", ignore_errors=True)
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(begin + at)
        log.write(value)
    for _ in range(2):  # what the first start leaves must open as well
        with make_store(left, **SETTINGS) as store:
            found = [bytes(record.body) for record in read_queue(store, "topic", 0)]
            assert store.max_offset("topic", 0) == 10
    assert sum(path.stat().st_blocks for path in (left / "consumequeue").rglob("*") if path.is_file()) * 512 < 1 << 20
    return found


@pytest.mark.parametrize("offset", [-1, -(1 << 63), 1 << 20, 1 << 40, (1 << 63) - 1])
def test_an_absurd_queue_offset(tmp_path: Path, offset: int) -> None:
    found = rebuilt_with(tmp_path, QUEUE_OFFSET_AT, offset.to_bytes(8, "big", signed=True))
    assert found == [b"%05d" % number for number in range(10) if number != 5]


def test_a_negative_queue_id(tmp_path: Path) -> None:
    found = rebuilt_with(tmp_path, QUEUE_ID_AT, (-5).to_bytes(4, "big", signed=True))
    assert found == [b"%05d" % number for number in range(10) if number != 5]


def test_a_topic_that_is_no_name(tmp_path: Path) -> None:
    """Its second letter has become a slash: the folder of it would be one inside another topic's."""
    topic_at = len(message("topic", b"00005")) - len("topic") - 2
    found = rebuilt_with(tmp_path, topic_at + 1, b"/")
    assert found == [b"%05d" % number for number in range(10) if number != 5]


@pytest.mark.parametrize(("missing", "is_possible"), [(0, True), (10, True), (11, False), (1 << 50, False)])
def test_a_gap_is_no_longer_than_the_log_between_its_ends(tmp_path: Path, missing: int, is_possible: bool) -> None:
    """A record has 91 bytes at least."""
    files = OpenFiles(4)
    queue = ConsumeQueue("t", 0, directory=str(tmp_path / "t" / "0"), files=files, file_bytes=2000, log_end=0)
    queue.append(0, UNIT.pack(5_000, 200, 0))
    queue.append(1 + missing, UNIT.pack(5_000 + 10 * 91, 200, 0))
    assert queue.next_offset == (2 + missing if is_possible else 1)
    files.close()
