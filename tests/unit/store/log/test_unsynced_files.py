"""Making queue files durable in parts: a few files a call, folders for new names only, nothing said before it holds."""

import os
import random
import threading
from pathlib import Path

import pytest
from store_kit import StillClock, make_store, message, put, wait_until

from zenitmq.record.layout import UNIT
from zenitmq.store.log import unsynced_files
from zenitmq.store.log.unsynced_files import UnsyncedFiles, folders_to_sync
from zenitmq.store.queues.queue_table import QueueTable


class Syncs:
    """What was made durable: the bytes of each file at its last sync, the names in each folder at its."""

    def __init__(self, monkeypatch) -> None:
        self.files: dict[str, bytes] = {}
        self.names: dict[str, set[str]] = {}
        self.order: list[str] = []
        monkeypatch.setattr(os, "fdatasync", self.sync_file)
        monkeypatch.setattr(unsynced_files, "sync_directory", self.sync_folder)

    def sync_file(self, fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        self.files[path] = Path(path).read_bytes()
        self.order.append(path)

    def sync_folder(self, folder: str) -> None:
        self.names[folder] = set(os.listdir(folder))
        self.order.append(folder)

    def is_there(self, path: str, root: str) -> bool:
        """Whether a power cut now would leave the file in its place."""
        while path != root:
            folder, name = os.path.split(path)
            if name not in self.names.get(folder, ()):
                return False
            path = folder
        return True


@pytest.fixture
def syncs(monkeypatch) -> Syncs:
    return Syncs(monkeypatch)


def made(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_a_call_makes_so_many_durable_and_folders_come_last(tmp_path, syncs: Syncs) -> None:
    unsynced = UnsyncedFiles()
    paths = made(tmp_path, *"abcde")
    unsynced.note(paths)
    unsynced.note(paths)  # once more
    unsynced.note_names([str(tmp_path)])
    assert unsynced.sync_some(2) is None
    assert syncs.order == paths[:2]
    assert unsynced.sync_some(2) is None
    unsynced.note(paths[:1])  # written to again
    assert unsynced.sync_some(2) is True
    assert syncs.order == [*paths, str(tmp_path)]
    assert unsynced.sync_some(2) is True
    assert syncs.order[6:] == paths[:1], "a folder without a new name is left alone"
    assert unsynced.sync_some(2) is True
    assert len(syncs.order) == 7


def test_files_that_are_gone_make_a_round_say_nothing(tmp_path) -> None:
    unsynced = UnsyncedFiles()
    (tmp_path / "q").mkdir()
    first, second, third = made(tmp_path / "q", *"abc")
    unsynced.note([first, second, third])
    assert unsynced.sync_some(1) is None
    os.unlink(second)
    assert unsynced.sync_some(9) is False
    unsynced.note([first])
    assert unsynced.sync_some(9) is True
    unsynced.note([first])
    unsynced.note_names([str(tmp_path / "q")])
    unsynced.forget(str(tmp_path / "q"))
    os.unlink(first)
    os.unlink(third)
    os.rmdir(tmp_path / "q")
    assert unsynced.sync_some(9) is True


def test_which_folders_get_a_name(tmp_path) -> None:
    store = str(tmp_path)
    assert folders_to_sync(f"{store}/queues/t/0") == [
        f"{store}/queues/t/0", f"{store}/queues/t", f"{store}/queues", store,
    ]  # fmt: skip
    os.makedirs(f"{store}/queues/t")
    assert folders_to_sync(f"{store}/queues/t/1") == [f"{store}/queues/t/1", f"{store}/queues/t"]
    os.makedirs(f"{store}/queues/t/1")
    assert folders_to_sync(f"{store}/queues/t/1") == [f"{store}/queues/t/1"]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_between_two_calls_finds_all_that_is_reflected(tmp_path, syncs: Syncs, seed: int) -> None:
    chosen = random.Random(seed)
    table = QueueTable(str(tmp_path), file_units=4, open_max=8, delays_ms=())
    table.begin(log_end=0, reflected=0, unclean=False)
    held: list[tuple[str, int, int]] = []  # (path, place in it, physical offset) of the n-th record
    for _ in range(100):
        for _ in range(chosen.choice((0, 0, 1, 6))):
            queue = table.get_or_create(chosen.choice("tuv"), chosen.randrange(4))
            at = queue.next_offset
            table.put(queue, at, UNIT.pack(len(held), 1, 0), 0)
            held.append((queue.tail_path, at % 4 * 20, len(held)))
            table.advance(len(held))
        before = len(syncs.order)
        is_left = table.persist_some(3)
        files = [path for path in syncs.order[before:] if os.path.isfile(path)]
        assert len(files) <= 3, f"seed={seed}"
        assert not is_left or len(files) == 3, f"seed={seed}"
        for path, place, offset in held[: table.reflected()]:
            assert syncs.is_there(path, str(tmp_path)), f"seed={seed} {path}"
            assert syncs.files[path][place : place + 20] == UNIT.pack(offset, 1, 0), f"seed={seed}"
    table.persist()
    assert table.persist() == len(held) > 50
    table.close()


def test_what_the_worker_is_asked_meanwhile_does_not_wait_for_all_queues(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zenitmq.store.upkeep.FILES_PER_SLICE", 4)
    clock = StillClock()
    told: list[str] = []
    with make_store(tmp_path / "s", clock) as store:
        for queue_id in range(40):
            put(store, "t", queue_id, message("t", b"x"))
        persist_some = store._queues.persist_some
        asked = threading.Event()

        def slowly(files_max: int) -> bool:
            assert asked.wait(20)
            told.append("slice")
            return persist_some(files_max)

        monkeypatch.setattr(store._queues, "persist_some", slowly)
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        done = [store._upkeep.run_in_worker(lambda n=n: told.append(f"work {n}")) for n in range(3)]
        clock.time_ms += 100
        store.on_tick(clock.time_ms)  # a round is under way: no other one begins
        asked.set()
        for future in done:
            future.result(20)
        assert told == ["slice", "work 0", "slice", "work 1", "slice", "work 2", *["slice"] * 7]
        wait_until(lambda: not store._upkeep._is_persisting)
        assert store.statistics().dispatched_offset == store.written
