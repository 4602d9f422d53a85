"""RocketMQ's broker is killed on a store that ours wrote before: what it acknowledged is read, whatever our files say."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.record.kernel import encode_record
from zenitmq.store.config import StoreConfig
from zenitmq.store.offline.hand_over import hand_over_store
from zenitmq.store.offline.offline_log import open_log

SEGMENT = 4096
OURS = 5
THEIRS = 5
CHECKPOINT_HEAD = struct.pack(">5Q", *[1_700_000_000_050] * 3, 0, 0)


def body(number: int) -> bytes:
    return b"%05d" % number + b"b" * 300


def fill_with_ours(directory: Path, count: int = OURS) -> int:
    with make_store(directory) as store:
        for number in range(count):
            put(store, "t", 0, message("t", body(number)))
        store.flush_all(20_000)
        return store.written


def go_on_as_rocketmq(directory: Path, begin: int) -> int:
    """Appends as it does, in the segment at hand; returns where its last record ends."""
    end = begin
    with (
        open(directory / "commitlog" / f"{0:020d}", "r+b") as log,
        open(directory / "consumequeue" / "t" / "0" / f"{0:020d}", "r+b") as queue,
    ):
        for number in range(OURS, OURS + THEIRS):
            record = encode_record(
                topic=b"t",
                body=body(number),
                properties=b"TAGS\x01x\x02",
                queue_id=0,
                queue_offset=number,
                physical_offset=end,
                store_timestamp_ms=1_700_000_000_100 + number,
            )
            log.seek(end)
            log.write(record)
            queue.seek(number * 20)
            queue.write(struct.pack(">QIQ", end, len(record), 0))
            end += len(record)
    assert end < SEGMENT
    return end


def write_checkpoint_as_rocketmq(directory: Path) -> None:
    with open(directory / "checkpoint", "r+b") as file:
        file.write(CHECKPOINT_HEAD)


def check_all_are_read(directory: Path, end: int) -> None:
    with open_log(str(directory), StoreConfig(segment_bytes=SEGMENT)) as seen:
        assert seen.end == end
    with make_store(directory) as store:
        assert store.written == end
        assert [record.body for record in read_queue(store, "t", 0)] == [body(i) for i in range(OURS + THEIRS)]
        assert not store.damage.quarantine.ranges


@pytest.mark.parametrize("mark", ["4711", ""], ids=["pid", "empty"])
@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["its-checkpoint", "our-checkpoint"])
@pytest.mark.parametrize("handed_over", [True, False], ids=["handed-over", "left-cleanly"])
def test_what_it_flushed_behind_our_last_entry_is_there(
    tmp_path: Path, handed_over: bool, has_checkpoint: bool, mark: str
) -> None:
    begin = fill_with_ours(tmp_path)
    if handed_over:
        assert hand_over_store(str(tmp_path))["log_end"] == begin
    end = go_on_as_rocketmq(tmp_path, begin)
    if has_checkpoint:
        write_checkpoint_as_rocketmq(tmp_path)
    (tmp_path / "abort").write_text(mark)
    check_all_are_read(tmp_path, end)


def test_an_older_one_keeps_the_mark_that_ours_left(tmp_path: Path) -> None:
    """Ours was killed; it makes that file only where there is none."""
    begin = fill_with_ours(tmp_path / "s")
    with make_store(tmp_path / "s"):
        left = kill(tmp_path / "s", tmp_path / "left")
    (left / "abort").write_text("7\nanother boot\n")
    end = go_on_as_rocketmq(left, begin)
    write_checkpoint_as_rocketmq(left)
    check_all_are_read(left, end)


def test_a_handed_over_store_says_that_entries_are_missing_until_ours_has_it_again(tmp_path: Path) -> None:
    begin = fill_with_ours(tmp_path)
    path = tmp_path / "checksum" / f"{0:020d}"
    before = path.read_bytes().rstrip(b"\0")
    hand_over_store(str(tmp_path))
    gap = struct.pack(">QII", begin, 0xFFFF_FFFF, 0)
    assert path.read_bytes() == before + gap
    with make_store(tmp_path) as store:
        assert gap not in path.read_bytes()
        put(store, "t", 0, message("t", body(OURS)))
        store.flush_all(20_000)
    entries = list(struct.iter_unpack(">QII", path.read_bytes().rstrip(b"\0")))
    assert [entry[0] for entry in entries[-2:]] == [entries[-2][0], begin]
    assert len(entries) == OURS + 1
