"""What the replica asks of its store and of its directory, asked of the real ones and of those that the simulation uses.

Real records are of one size here, as the simulation's are, so that positions are told in records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from sim.disk import Disk
from sim.records import RECORD, SimulatedRecord
from sim.schedule import Host, Schedule
from sim.small_files import SimulatedDirectory
from sim.store import SimulatedStore
from store_kit import SMALL, kill, make_store, message, put, wait_until

from zenitmq.broker.group.store_directory import DirectoryOnDisk, StoreDirectory
from zenitmq.model.errors import OffsetOutOfRange
from zenitmq.store.config import StoreConfig
from zenitmq.store.opening.small_file import SYSTEM_FILES

BOOT = "7\nanother boot\n"


class Machine(Protocol):
    """One disk, and the store that a process has open on it."""

    record_bytes: int
    store: Any
    directory: StoreDirectory
    flushes: list[None]

    def open(self) -> Any:
        """The next life; its store."""

    def close(self) -> None:
        """Cleanly."""

    def kill(self) -> None:
        """kill -9: the page cache stays."""

    def lose_power(self, *, keep: int, hole: int | None = None) -> None:
        """So many records are on the platter; one of them is lost all the same."""

    def append(self, count: int = 1) -> None:
        """A producer's, to queue 0."""

    def wait(self, condition: Callable[[], bool]) -> None:
        """For the disk."""


class RealMachine:
    """Files of this machine; its process is killed by taking a copy of them."""

    def __init__(self, path: Path) -> None:
        self._lives = 0
        self._path = path
        self._open: ExitStack | None = None
        self.flushes: list[None] = []
        self.record_bytes = 0
        self._use(path / "0")
        self.open()
        self.append()
        self.record_bytes = self.store.written
        self._open.close()
        self._use(path / "fresh")

    def _use(self, path: Path) -> None:
        self._here = path
        self.directory = DirectoryOnDisk(str(path), StoreConfig(**{**SMALL, "segment_bytes": 65536}))

    def open(self) -> Any:
        os.makedirs(self._here, exist_ok=True)
        self._open = ExitStack()
        store = make_store(self._here, segment_bytes=65536)
        store._on_flushed = lambda: self.flushes.append(None)
        self.store = self._open.enter_context(store)
        self.store.is_sync = False
        self.store.confirm(0)
        return self.store

    def close(self) -> None:
        self._open.close()

    def kill(self) -> None:
        self._lives += 1
        left = kill(self._here, self._path / f"life-{self._lives}")
        self._open.close()
        self._use(left)

    def lose_power(self, *, keep: int, hole: int | None = None) -> None:
        end = self.store.written
        self.kill()
        (self._here / "abort").write_text(BOOT)
        self._wipe(keep * self.record_bytes, end)
        if hole is not None:
            self._wipe(hole * self.record_bytes, (hole + 1) * self.record_bytes)

    def _wipe(self, begin: int, end: int) -> None:
        with open(self._here / "commitlog" / f"{0:020d}", "r+b") as log:
            log.seek(begin)
            log.write(bytes(end - begin))

    def append(self, count: int = 1) -> None:
        for number in range(count):
            put(self.store, "t", 0, message("t", b"%05d" % number))

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_until(condition)


class SimulatedMachine:
    """A simulated disk whose fsyncs take no time."""

    record_bytes = RECORD

    def __init__(self, _: Path) -> None:
        self._disk = Disk("a", "store-a")
        self.directory = SimulatedDirectory(self._disk, bool)
        self.flushes: list[None] = []
        self._count = 0

    def open(self) -> Any:
        self.store = SimulatedStore(
            self._disk,
            Host(Schedule(0), "a"),
            latency_ms=0.0,
            on_flushed=lambda: self.flushes.append(None),
            on_poisoned=bool,
            on_confirmed=bool,
        )
        self.store.confirm(0)
        return self.store

    def close(self) -> None:
        self.store.close()

    def kill(self) -> None:
        pass

    def lose_power(self, *, keep: int, hole: int | None = None) -> None:
        self._disk.truncate(max(self._disk.durable, keep * RECORD))
        if hole is not None:
            self._disk.lose_page(hole)
        self._disk.forget_cache()

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self._count += 1
            offset = self._disk.queue_ends(len(self._disk.log)).get(0, 0)
            self.store.append(SimulatedRecord(self._count, 1, 0, 0, self._count, offset).encode())

    def wait(self, condition: Callable[[], bool]) -> None:
        assert condition()


@pytest.fixture(params=[RealMachine, SimulatedMachine])
def new_machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Machine]]:
    made: list[Any] = []

    def new() -> Machine:
        made.append(request.param(tmp_path / f"machine-{len(made)}"))
        return made[-1]

    yield new
    for machine in made:
        if isinstance(machine, RealMachine):
            machine.close()


@pytest.fixture
def machine(new_machine: Callable[[], Machine]) -> Machine:
    return new_machine()


def flush(machine: Machine) -> None:
    written = machine.store.written
    machine.store.request_flush()
    machine.wait(lambda: machine.store.flushed >= written)


def test_a_new_store_has_nothing(machine: Machine) -> None:
    store = machine.open()
    assert (store.begin, store.written, store.flushed, store.remembered_confirm) == (0, 0, 0, 0)
    assert (store.lacks_room, store.sync_pending_ms, store.queue_minimums(0)) == (False, 0, {})
    assert store.damage.quarantine.first_hole is None
    assert store.damage.take_holes() is None
    assert store.damage.unsendable == ()


def test_what_is_written_is_flushed_when_it_is_asked_for(machine: Machine) -> None:
    store = machine.open()
    machine.append(3)
    assert (store.written, store.flushed) == (3 * machine.record_bytes, 0)
    flush(machine)
    machine.wait(lambda: bool(machine.flushes))
    assert store.flushed == store.written


def test_under_sync_each_append_asks_for_the_disk(machine: Machine) -> None:
    store = machine.open()
    store.is_sync = True
    machine.append()
    machine.wait(lambda: store.flushed == store.written)


def test_a_killed_process_has_flushed_nothing_for_the_next(machine: Machine) -> None:
    machine.open()
    machine.append(3)
    flush(machine)
    machine.kill()
    store = machine.open()
    assert (store.written, store.flushed) == (3 * machine.record_bytes, 0)


def test_a_process_that_stopped_cleanly_has(machine: Machine) -> None:
    machine.open()
    machine.append(3)
    machine.close()
    store = machine.open()
    assert (store.written, store.flushed) == (3 * machine.record_bytes, 3 * machine.record_bytes)


def test_a_loss_of_power_takes_what_was_not_flushed(machine: Machine) -> None:
    machine.open()
    machine.append(2)
    flush(machine)
    machine.append(3)
    machine.lose_power(keep=4)
    store = machine.open()
    assert store.written in {
        count * machine.record_bytes for count in (2, 3, 4)
    }  # of the rest as much as it vouches for
    assert store.flushed == 0
    assert store.damage.quarantine.first_hole is None


def test_a_hole_is_kept_with_what_lies_behind_it_until_it_is_taken(machine: Machine) -> None:
    store = machine.open()
    machine.append(40)
    if isinstance(machine, RealMachine):
        store.flush_all(20_000)  # entries vouch for what lies behind
    machine.lose_power(keep=40, hole=20)
    for _ in range(2):
        store = machine.open()
        assert store.damage.quarantine.first_hole == 20 * machine.record_bytes
        assert store.written == 40 * machine.record_bytes
        machine.kill()
    machine.open()
    machine.close()
    store = machine.open()
    assert store.damage.quarantine.first_hole == 20 * machine.record_bytes
    noted = store.damage.take_holes()
    assert noted is not None
    noted.result()
    for _ in range(2):
        size = machine.record_bytes
        assert store.damage.quarantine.first_hole is None
        assert store.written == 40 * size
        assert [begin <= 20 * size and 21 * size <= end for begin, end in store.damage.unsendable] == [True]
        machine.kill()
        store = machine.open()


def test_chunks_go_from_log_to_log(new_machine: Callable[[], Machine]) -> None:
    one, other = new_machine(), new_machine()
    source, target, size = one.open(), other.open(), one.record_bytes
    one.append(3)
    assert source.chunk_end(0, 2 * size + size // 2) == 2 * size
    assert source.chunk_end(0, size // 2) == size
    for begin, end in ((0, 2 * size), (2 * size, 3 * size)):
        data = source.chunk(begin, end - begin, limit=end).data
        target.append_chunk(data, begin, end)
        assert bytes(target.chunk(begin, end - begin, limit=end).data) == bytes(data)
        with pytest.raises(OffsetOutOfRange):
            target.append_chunk(data, begin, end)
        data.release()
    assert (target.written, target.flushed) == (3 * size, 0)
    with pytest.raises(OffsetOutOfRange):
        source.chunk(4 * size, size, limit=5 * size)


def test_the_checkpoint_remembers_what_was_confirmed_until_somebody_was_told(machine: Machine) -> None:
    size = machine.record_bytes
    store = machine.open()
    machine.append(3)
    store.confirm(2 * size)
    machine.close()
    store = machine.open()
    assert store.remembered_confirm == 2 * size
    machine.close()
    store = machine.open()
    assert store.remembered_confirm == 2 * size  # nobody was told
    store.forget_remembered_confirm()
    assert store.remembered_confirm == 0
    store.confirm(size)
    machine.close()
    assert machine.open().remembered_confirm == size


def test_a_confirm_offset_above_what_is_left_is_forgotten_at_once(machine: Machine) -> None:
    store = machine.open()
    machine.append(3)
    store.confirm(3 * machine.record_bytes)
    machine.close()
    machine.open().forget_remembered_confirm()
    machine.kill()
    assert machine.open().remembered_confirm == 0


def test_a_cut_log_never_held_more(machine: Machine) -> None:
    size = machine.record_bytes
    store = machine.open()
    machine.append(4)
    store.confirm(3 * size)
    machine.close()
    machine.directory.truncate(5 * size)  # it ends lower already
    machine.directory.truncate(2 * size)
    store = machine.open()
    assert store.written == 2 * size
    assert store.flushed <= 2 * size
    assert store.remembered_confirm <= 2 * size
    machine.append()
    machine.lose_power(keep=2)
    assert machine.open().written == 2 * size


def test_a_store_begins_anew_where_another_begins(new_machine: Callable[[], Machine]) -> None:
    one, other = new_machine(), new_machine()
    source = one.open()
    segment_bytes = 65536 if isinstance(one, RealMachine) else 16 * RECORD
    while source.written <= segment_bytes:
        one.append()
    minimums = source.queue_minimums(segment_bytes)
    (before,) = minimums.values()
    other.open()
    other.append(2)
    other.close()
    other.directory.begin_anew(
        segment_bytes,
        segment_bytes=source.segment_bytes,
        snapshots=one.directory.state_files(),
        queue_minimums=minimums,
    )
    target = other.open()
    assert (target.begin, target.written, target.flushed) == (segment_bytes, segment_bytes, segment_bytes)
    assert target.remembered_confirm == 0
    assert target.queue_minimums(segment_bytes) == minimums
    end = source.written
    data = source.chunk(segment_bytes, end - segment_bytes, limit=end).data
    target.append_chunk(data, segment_bytes, end)
    data.release()
    other.append()
    assert next(iter(target.queue_minimums(end).values())) == before + 1
    with pytest.raises(OffsetOutOfRange):
        target.chunk(0, one.record_bytes, limit=one.record_bytes)
    other.close()
    with pytest.raises(OffsetOutOfRange):
        other.directory.truncate(0)


def test_small_files_are_replaced_whole(machine: Machine, tmp_path: Path) -> None:
    files = SYSTEM_FILES if isinstance(machine, RealMachine) else machine.directory.small_files
    path = str(tmp_path / "f")
    files.make_directory(str(tmp_path))
    assert files.read(path, 10) is None
    files.replace(path, b"first")
    files.replace(path, b"second one")
    assert files.read(path, 100) == b"second one"
    assert files.read(path, 6) == b"second"
    files.remove(path)
    assert files.read(path, 10) is None
    assert files.boot_id() == files.boot_id()
