"""A store that is handed over to RocketMQ has zeros behind its end and no spare files, and opens here as before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.model.errors import StoreFormatError, StoreLocked
from zenitmq.store.offline.hand_over import hand_over_store

SEGMENT = 65536
SETTINGS = {"segment_bytes": SEGMENT, "recycle_segments": 3}


def write(directory: Path, count: int, *, first: int = 0) -> int:
    with make_store(directory, **SETTINGS) as store:
        for number in range(first, first + count):
            put(store, "t", 0, message("t", b"%05d" % number + b"b" * 700))
        store.flush_all(20_000)
        return store.written


def numbers(directory: Path) -> list[int]:
    with make_store(directory, **SETTINGS) as store:
        return [int(record.body[:5]) for record in read_queue(store, "t", 0)]


def litter(directory: Path, end: int) -> None:
    """As in a recycled segment: old bytes behind the end's terminator; and a segment and files for later."""
    log = directory / "commitlog"
    path = log / f"{end // SEGMENT * SEGMENT:020d}"
    with open(path, "r+b") as file:
        file.seek(end % SEGMENT + 64)
        file.write(b"\xda\xa3 \xa7" * ((SEGMENT - end % SEGMENT - 64) // 4))
    (log / f"{(end // SEGMENT + 1) * SEGMENT:020d}").write_bytes(b"x" * SEGMENT)
    for folder in ("spare", "sparequeue", "spareindex"):
        (directory / folder).mkdir(exist_ok=True)
        (directory / folder / f"{0:020d}").write_bytes(b"old")


def behind(directory: Path, end: int) -> bytes:
    """All that the log has behind `end`."""
    found = bytearray()
    for path in sorted((directory / "commitlog").iterdir()):
        base = int(path.name)
        found += path.read_bytes()[max(0, end - base) :] if base + SEGMENT > end else b""
    return bytes(found)


def spares(directory: Path) -> list[str]:
    return [name for folder in directory.glob("spare*") for name in os.listdir(folder)]


@pytest.mark.parametrize("count", [1, 3, 200])
def test_behind_the_end_there_are_zeros_and_nothing_else(tmp_path: Path, count: int) -> None:
    end = write(tmp_path, count)
    litter(tmp_path, end)
    assert behind(tmp_path, end).strip(b"\x00")
    handed = hand_over_store(str(tmp_path))
    assert (handed["log_end"], handed["segment_bytes"]) == (end, SEGMENT)
    assert handed["spare_files"] >= 3
    assert not behind(tmp_path, end).strip(b"\x00")
    assert len(behind(tmp_path, end)) <= SEGMENT
    assert spares(tmp_path) == []
    assert hand_over_store(str(tmp_path)) == {"log_end": end, "segment_bytes": SEGMENT, "spare_files": 0}
    assert numbers(tmp_path) == list(range(count))
    write(tmp_path, 100, first=count)
    assert numbers(tmp_path) == list(range(count + 100))


def test_what_is_open_killed_or_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with pytest.raises(StoreFormatError, match="no commit log"):
        hand_over_store(str(tmp_path))
    with make_store(directory, **SETTINGS) as store:
        put(store, "t", 0, message("t", b"00000"))
        store.flush_all(20_000)
        with pytest.raises(StoreLocked):
            hand_over_store(str(directory))
        killed = kill(directory, tmp_path / "killed")
    with pytest.raises(StoreFormatError, match="not stopped cleanly"):
        hand_over_store(str(killed))


def test_what_was_on_the_disk_and_has_rotted_is_not_taken_for_the_end(tmp_path: Path) -> None:
    """A replica may have it whole."""
    end = write(tmp_path, 3)
    path = tmp_path / "commitlog" / f"{0:020d}"
    held = bytearray(path.read_bytes())
    held[end - 400 : end] = bytes(400)
    held[end : end + 64] = b"x" * 64  # nothing begins there: the end must be looked for
    path.write_bytes(held)
    assert hand_over_store(str(tmp_path))["log_end"] == end
    assert path.read_bytes()[:end] == bytes(held[:end])
    assert not behind(tmp_path, end).strip(b"\x00")
