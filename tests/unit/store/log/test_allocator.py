"""The allocator: ready ahead of need, full disks, late segments, recycling, deleting."""

import errno
import os
import threading
from functools import partial

import pytest
from store_kit import wait_until

from zenitmq.model.errors import StoreNotWriteable, StorePoisoned
from zenitmq.store.log import allocator as allocator_module
from zenitmq.store.log.allocator import Allocator
from zenitmq.store.log.segment import Disk, Segment, create_allocated, segment_name

SEGMENT = 16_384
DEADLINE_S = 20.0


@pytest.fixture
def start(tmp_path):
    """Starts allocators over one directory and closes what the test took and left."""
    started, taken = [], []

    def start_one(next_base=0, *, keep_spares=True, recycle=2, disk=None, ahead=2) -> Allocator:
        allocator = Allocator(
            str(tmp_path / "commitlog"),
            str(tmp_path / "spare"),
            segment_bytes=SEGMENT,
            ahead=ahead,
            recycle=recycle,
            populate_bytes=SEGMENT,
            disk=disk or Disk(),
        )
        allocator.start(next_base, keep_spares=keep_spares)
        started.append(allocator)
        return allocator

    def take(allocator: Allocator, base: int) -> Segment:
        segment = allocator.take(base)
        taken.append(segment)
        return segment

    start_one.take = take
    yield start_one
    for allocator in started:
        allocator.close()
    for segment in taken:
        segment.close()


def give_up(allocator: Allocator, *segments: Segment) -> None:
    for segment in segments:
        allocator.move_out(segment)
        allocator.retire(segment)


def names(directory) -> list[str]:
    return sorted(os.listdir(directory))


def test_segments_are_there_ahead_of_need(start, tmp_path):
    allocator = start(ahead=2)
    wait_until(lambda: names(tmp_path / "commitlog") == [segment_name(0), segment_name(SEGMENT)])
    assert start.take(allocator, 0).base_offset == 0
    wait_until(lambda: segment_name(2 * SEGMENT) in names(tmp_path / "commitlog"))
    assert start.take(allocator, SEGMENT).base_offset == SEGMENT
    assert os.stat(tmp_path / "commitlog" / segment_name(0)).st_blocks * 512 >= SEGMENT


def test_with_none_ahead_a_segment_is_made_when_it_is_needed(start, tmp_path):
    allocator = start(ahead=0)
    for base in (0, SEGMENT):
        assert start.take(allocator, base).base_offset == base
    allocator.close()
    assert names(tmp_path / "commitlog") == [segment_name(0), segment_name(SEGMENT)]


def test_fresh_segments_are_faulted_in(start):
    allocator = start(ahead=1)
    wait_until(lambda: allocator._ready and allocator._ready[0].populated_bytes == SEGMENT)
    assert not any(start.take(allocator, 0).map)


def test_faulting_in_rests_where_the_segment_is_not_the_next_one(start, monkeypatch):
    """A roll must not take the cores from who sends, on a machine that finds pages slowly."""
    clock = [0]
    monkeypatch.setattr(allocator_module, "POPULATE_STEP_BYTES", SEGMENT // 4)
    monkeypatch.setattr(allocator_module, "monotonic_ns", lambda: clock[0])
    events = []

    def populate(segment, begin, end):
        clock[0] += 2_000_000
        events.append((segment.base_offset, begin))
        return True

    def wait(condition, timeout=None):
        events.append(timeout)
        condition.release()
        condition.acquire()

    monkeypatch.setattr(Segment, "populate", populate)
    allocator = start(ahead=0)
    ready = [start.take(allocator, 0), start.take(allocator, SEGMENT)]
    allocator.close()  # its thread; from here on we are it
    for segment in ready:
        segment.populated_bytes = 0
    allocator._ready.extend(ready)
    allocator._stopping = False
    events.clear()
    monkeypatch.setattr(allocator._changed, "wait", partial(wait, allocator._changed))
    while allocator._populate():
        pass
    allocator._ready.clear()
    steps = range(0, SEGMENT, SEGMENT // 4)
    rested = [event for at in steps for event in ((SEGMENT, at), 0.006)]
    assert events == [*((0, at) for at in steps), *rested]


def test_a_late_segment_is_waited_for(start):
    gate = threading.Event()

    def fallocate(fd, offset, size):
        assert gate.wait(DEADLINE_S)
        os.posix_fallocate(fd, offset, size)

    allocator = start(disk=Disk(fallocate=fallocate))
    timer = threading.Timer(0.05, gate.set)
    timer.start()
    assert start.take(allocator, 0).base_offset == 0
    timer.join()


def test_the_wait_for_a_late_segment_is_bounded(start, monkeypatch):
    monkeypatch.setattr(allocator_module, "TAKE_WAIT_MS", 30)
    gate = threading.Event()

    def fallocate(fd, offset, size):
        assert gate.wait(DEADLINE_S)
        os.posix_fallocate(fd, offset, size)

    allocator = start(disk=Disk(fallocate=fallocate))
    with pytest.raises(StoreNotWriteable, match="30 ms"):
        allocator.take(0)
    gate.set()
    wait_until(lambda: allocator._ready)
    assert start.take(allocator, 0).base_offset == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_full_disk_is_retriable_and_space_that_comes_back_is_found(start, tmp_path, number, monkeypatch):
    monkeypatch.setattr(allocator_module, "RETRY_FIRST_MS", 1)
    monkeypatch.setattr(allocator_module, "RETRY_LAST_MS", 5)
    full = threading.Event()
    full.set()

    def fallocate(fd, offset, size):
        if full.is_set():
            raise OSError(number, os.strerror(number))
        os.posix_fallocate(fd, offset, size)

    allocator = start(disk=Disk(fallocate=fallocate))
    wait_until(lambda: allocator._failure is not None)
    for _ in range(3):
        with pytest.raises(StoreNotWriteable):
            allocator.take(0)
    wait_until(lambda: names(tmp_path / "spare") == names(tmp_path / "commitlog") == [])
    full.clear()
    wait_until(lambda: len(allocator._ready) == 2)
    assert start.take(allocator, 0).base_offset == 0


def test_a_broken_disk_is_final(start):
    def fallocate(fd, offset, size):
        raise OSError(errno.EIO, "Input/output error")

    allocator = start(disk=Disk(fallocate=fallocate))
    with pytest.raises(StorePoisoned, match="Input/output"):
        allocator.take(0)
    with pytest.raises(StorePoisoned):
        allocator.take(0)


def test_a_full_disk_does_not_hinder_the_use_of_spares(start, tmp_path, monkeypatch):
    monkeypatch.setattr(allocator_module, "RETRY_FIRST_MS", 1_000_000)  # nobody waits for the next attempt
    allocator = start(ahead=1)
    old = start.take(allocator, 0)
    os.pwrite(old.fd, b"old" * 4_000, 0)
    allocator.close()

    def fallocate(fd, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in names(tmp_path / "commitlog")[1:]:
        os.unlink(tmp_path / "commitlog" / name)
    allocator = start(SEGMENT, ahead=1, disk=Disk(fallocate=fallocate))
    with pytest.raises(StoreNotWriteable):
        allocator.take(SEGMENT)
    give_up(allocator, old)
    wait_until(lambda: allocator._ready)
    assert start.take(allocator, SEGMENT).base_offset == SEGMENT


def test_a_recycled_segment_keeps_its_bytes_behind_a_zeroed_head(start, tmp_path):
    allocator = start(ahead=1)
    first = start.take(allocator, 0)
    inode = os.fstat(first.fd).st_ino
    os.pwrite(first.fd, b"o" * SEGMENT, 0)
    wait_until(lambda: allocator._ready)
    give_up(allocator, first)
    wait_until(lambda: allocator._spares)
    assert names(tmp_path / "commitlog") == [segment_name(SEGMENT)]
    start.take(allocator, SEGMENT)
    wait_until(lambda: allocator._ready)
    again = start.take(allocator, 2 * SEGMENT)
    assert os.fstat(again.open_fd()).st_ino == inode
    assert bytes(again.map) == bytes(4_096) + b"o" * (SEGMENT - 4_096)


def test_the_spare_that_came_last_is_used_first(start):
    """Its pages are the likeliest to be cached still."""
    allocator = start(ahead=1)
    old, young = start.take(allocator, 0), start.take(allocator, SEGMENT)
    inode = os.fstat(young.fd).st_ino
    wait_until(lambda: allocator._ready)
    give_up(allocator, old, young)
    wait_until(lambda: len(allocator._spares) == 2)
    start.take(allocator, 2 * SEGMENT)
    wait_until(lambda: allocator._ready)
    assert os.fstat(start.take(allocator, 3 * SEGMENT).open_fd()).st_ino == inode


def test_a_pinned_segment_is_neither_recycled_nor_cut(start, tmp_path):
    allocator = start(ahead=1, recycle=1)
    first = start.take(allocator, 0)
    os.pwrite(first.fd, b"o" * SEGMENT, 0)
    view = first.map[:]
    give_up(allocator, first)
    wait_until(lambda: allocator._pinned)
    for base in range(SEGMENT, 4 * SEGMENT, SEGMENT):
        start.take(allocator, base)
        wait_until(lambda: allocator._ready)
    assert bytes(view) == b"o" * SEGMENT
    assert allocator._spares == []
    view.release()
    wait_until(lambda: allocator._spares)


def test_spares_beyond_the_limit_are_deleted_step_by_step(start, tmp_path, monkeypatch):
    monkeypatch.setattr(allocator_module, "SHRINK_STEP_BYTES", SEGMENT // 4)
    steps = []
    truncate = os.truncate
    monkeypatch.setattr(os, "truncate", lambda path, size: (steps.append(size), truncate(path, size)))
    allocator = start(ahead=1, recycle=0)
    first = start.take(allocator, 0)
    give_up(allocator, first)
    wait_until(lambda: names(tmp_path / "spare") == [] and allocator._ready)
    assert steps == [SEGMENT * 3 // 4, SEGMENT // 2, SEGMENT // 4]


def test_what_was_retired_shortly_before_the_end_is_a_spare_at_the_next_start(start, tmp_path, monkeypatch):
    allocator = start(ahead=1)
    first = start.take(allocator, 0)
    inode = os.fstat(first.fd).st_ino
    wait_until(lambda: allocator._ready)
    monkeypatch.setattr(allocator, "_step", lambda: False)  # the thread does not come to it
    give_up(allocator, first)
    allocator.close()
    assert names(tmp_path / "commitlog") == [segment_name(SEGMENT)]
    again = start(2 * SEGMENT, ahead=1)
    assert os.fstat(start.take(again, 2 * SEGMENT).fd).st_ino == inode


def test_a_segment_whose_file_is_gone_does_not_stop_the_thread(start, caplog):
    allocator = start(ahead=1)
    first = start.take(allocator, 0)
    os.unlink(first.path)
    give_up(allocator, first)
    wait_until(lambda: not allocator._retired and allocator._ready and caplog.records)
    assert start.take(allocator, SEGMENT).base_offset == SEGMENT
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_a_killed_process_left_half_made_is_cleared_away(start, tmp_path):
    spare = tmp_path / "spare"
    spare.mkdir()
    create_allocated(str(spare / "preparing"), SEGMENT)
    create_allocated(str(spare / segment_name(3)), SEGMENT)
    create_allocated(str(spare / segment_name(4)), SEGMENT // 2)
    allocator = start(ahead=1)
    wait_until(lambda: names(spare) == [] and len(allocator._ready) == 1)
    assert start.take(allocator, 0).populated_bytes == SEGMENT  # the whole spare was used
    wait_until(lambda: allocator._ready)


def test_spares_of_an_empty_log_are_deleted_because_their_records_could_come_to_lie_where_they_were(start, tmp_path):
    spare = tmp_path / "spare"
    spare.mkdir()
    with open(spare / segment_name(0), "wb") as file:
        file.write(b"r" * SEGMENT)
    allocator = start(keep_spares=False, ahead=1)
    wait_until(lambda: names(spare) == [])
    assert not any(start.take(allocator, 0).map)


def test_a_mistake_in_the_thread_is_told_to_who_waits(start, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(allocator_module, "create_allocated", broken)
    allocator = start()
    with pytest.raises(StorePoisoned, match="a mistake"):
        allocator.take(0)
    assert len(caplog.records) == 1


def test_taking_from_a_closed_allocator_is_refused_at_once(start):
    allocator = start()
    start.take(allocator, 0)
    allocator.close()
    allocator._ready.clear()
    with pytest.raises(StoreNotWriteable, match="closing"):
        allocator.take(SEGMENT)


@pytest.mark.parametrize("recycle", [0, 1])
@pytest.mark.parametrize("found", [False, True])
def test_an_expired_file_has_left_the_log_for_certain_before_its_bytes_change(
    start, tmp_path, monkeypatch, recycle: int, found: bool
) -> None:
    """A power cut would bring it back otherwise: with zeros at its front, or too short to be opened. `found`: the process
    that moved it out was killed before it had synced anything."""
    steps = []
    zero_head, truncate, sync = allocator_module._zero_head, os.truncate, allocator_module.sync_directory
    monkeypatch.setattr(
        allocator_module, "_zero_head", lambda path, disk: (steps.append("changed"), zero_head(path, disk))
    )
    monkeypatch.setattr(
        allocator_module.os, "truncate", lambda path, size: (steps.append("changed"), truncate(path, size))
    )
    monkeypatch.setattr(
        allocator_module, "sync_directory", lambda path: (steps.append(os.path.basename(path)), sync(path))
    )
    monkeypatch.setattr(allocator_module, "SHRINK_STEP_BYTES", SEGMENT // 2)
    if found:
        os.makedirs(tmp_path / "spare")
        create_allocated(str(tmp_path / "spare" / segment_name(0)), SEGMENT)
        allocator = start(SEGMENT, recycle=recycle, ahead=0)
    else:
        allocator = start(SEGMENT, recycle=recycle, ahead=0)
        segment = start.take(allocator, SEGMENT)
        steps.clear()
        give_up(allocator, segment)
    if recycle:
        wait_until(lambda: bool(allocator._spares))
        start.take(allocator, allocator._next_base)
    wait_until(lambda: "changed" in steps)
    before = steps[: steps.index("changed")]
    assert {"spare", "commitlog"} <= set(before)
