"""Queues and index in files that expired once, through kills and power cuts: nothing of what a file held before comes back."""

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from store_kit import ALL_TIME, StillClock, kill, make_store, message, put, read_queue

from zenitmq.record.kernel import decode_record
from zenitmq.store.log.allocator import Allocator
from zenitmq.store.log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER, SpareFiles
from zenitmq.store.message_store import MessageStore

QUEUES = 2
SETTINGS = {"retention_bytes": 8192, "index_entries": 40, "recycle_segments": 8}


def numbered(number: int) -> bytes:
    return message("t", b"%05d" % number, keys=f"k{number % 7}", unique=f"{number:032X}")


def write(
    store: MessageStore, clock: StillClock, begin: int, end: int, quiet: AbstractContextManager[object] | None = None
) -> None:
    """One message at a time; retention looks after every eighth. `quiet` is held while files may change."""
    quiet = quiet or nullcontext()
    for number in range(begin, end):
        with quiet:
            put(store, "t", number % QUEUES, numbered(number))
        if number % 8 == 0:
            store.flush_all(20_000)
            for _ in range(2):
                clock.time_ms += 100
                with quiet:
                    store.on_tick(clock.time_ms)
                store._upkeep.run_in_worker(lambda: None).result(20)


def assert_holds(store: MessageStore, end: int) -> None:
    """What is left is without a gap up to `end`; by key it is found once, and nothing else is."""
    found = [[int(m.body) for m in read_queue(store, "t", queue)] for queue in range(QUEUES)]
    numbers = sorted(number for queue in found for number in queue)
    assert all(queue == sorted(queue) for queue in found)
    assert numbers == list(range(numbers[0], end))
    for number in range(end):
        records = store.query("t", f"{number:032X}", max_messages=5, unique=True, **ALL_TIME)
        bodies = [int(decode_record(record).body) for record in records]
        assert bodies == ([number] if number >= numbers[0] else [])
    for key in range(7):
        records = store.query("t", f"k{key}", max_messages=999, unique=False, **ALL_TIME)
        bodies = sorted(int(decode_record(record).body) for record in records)
        assert bodies == [n for n in numbers if n % 7 == key]


def inodes(directory: Path, folder: str) -> set[int]:
    return {path.stat().st_ino for path in (directory / folder).rglob("*") if path.is_file()}


def test_what_is_written_over_expired_files_is_what_was_written(tmp_path) -> None:
    clock, directory = StillClock(), tmp_path / "s"
    seen: dict[str, set[int]] = {"consumequeue": set(), "index": set()}
    again: dict[str, int] = {"consumequeue": 0, "index": 0}
    with make_store(directory, clock, **SETTINGS) as store:
        for begin in range(0, 600, 40):
            spare = {
                "consumequeue": inodes(directory, SPARE_QUEUE_FOLDER),
                "index": inodes(directory, SPARE_INDEX_FOLDER),
            }
            write(store, clock, begin, begin + 40)
            for folder in seen:
                again[folder] += len(inodes(directory, folder) & spare[folder] & seen[folder])
                seen[folder] |= inodes(directory, folder)
            assert_holds(store, begin + 40)
    assert min(again.values()) >= 3  # files came round
    with make_store(directory, clock, **SETTINGS) as store:
        assert_holds(store, 600)


@pytest.mark.parametrize("boot", ["same", "another"])
@pytest.mark.parametrize("begin", range(200, 249, 8))
def test_killed_at_any_time(tmp_path, begin: int, boot: str) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        write(store, clock, 0, begin)
        if boot == "another":
            store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
    if boot == "another":
        (left / "abort").write_text("7\nanother boot\n")
    for written, end in ((begin, begin), (begin, begin + 60)):
        with make_store(left, clock, **SETTINGS) as store:
            write(store, clock, written, end)
            assert_holds(store, end)
            left = kill(left, tmp_path / f"killed{end}")


def test_killed_before_the_allocator_came_to_what_expired(tmp_path, monkeypatch) -> None:
    """The log's files are gone before those that lead into it, so that none of its messages is left half findable."""
    clock = StillClock()
    monkeypatch.setattr(Allocator, "_retire_next", lambda self: False)
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        write(store, clock, 0, 200)
        left = kill(tmp_path / "s", tmp_path / "killed")
    monkeypatch.undo()
    with make_store(left, clock, **SETTINGS) as store:
        assert store.min_offset("t", 0) > 0
        assert_holds(store, 200)


@pytest.mark.parametrize("step", ["renamed", "half blank", "blank"])
def test_killed_while_a_file_is_made_blank(tmp_path, monkeypatch, step: str) -> None:
    """At each step of every file that expires: the store opens, and holds what is left of the log.

    A copy is as of one moment: what the loop does waits for it.
    """
    clock, quiet, lefts = StillClock(), threading.Lock(), []
    make_blank = SpareFiles._make_blank

    def watched(self: SpareFiles, spare: str, from_directory: str) -> None:
        if step == "blank":
            make_blank(self, spare, from_directory)
        elif step == "half blank":
            with open(spare, "r+b") as file:
                file.write(bytes(self._blank_bytes // 2))
        with quiet:
            written = sum(store.max_offset("t", queue) for queue in range(QUEUES))
            lefts.append((kill(tmp_path / "s", tmp_path / f"killed{len(lefts)}"), written))
        if step != "blank":
            make_blank(self, spare, from_directory)

    monkeypatch.setattr(SpareFiles, "_make_blank", watched)
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        for number in range(0, 240, 8):
            write(store, clock, number, number + 1, quiet)
            with quiet:
                for each in range(number + 1, number + 8):
                    put(store, "t", each % QUEUES, numbered(each))
    monkeypatch.undo()
    assert len(lefts) >= 10
    for left, end in lefts:
        with make_store(left, clock, **SETTINGS) as store:
            assert_holds(store, end)
            for each in range(end, end + 60):
                put(store, "t", each % QUEUES, numbered(each))
            assert_holds(store, end + 60)


def test_a_file_whose_new_name_was_lost_is_not_blank(tmp_path) -> None:
    """A power cut may leave a file that was taken among the spares, with units in it: it is not taken again as it is."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        write(store, clock, 0, 200)
        store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
    (left / "abort").write_text("7\nanother boot\n")
    spares = left / SPARE_QUEUE_FOLDER
    queue = left / "consumequeue" / "t" / "0"
    newest = max(queue.iterdir())
    spares.mkdir(exist_ok=True)
    newest.rename(spares / f"{99:020d}")  # its units are in the log: they are made again
    (left / "checkpoint").unlink()
    with make_store(left, clock, **SETTINGS) as store:
        assert os.listdir(spares) == []
        assert_holds(store, 200)
        write(store, clock, 200, 300)
        assert_holds(store, 300)
