"""The commit log: placing, appending, rolling, viewing, flushing, truncating, giving up segments."""

import ctypes
import errno
import mmap
import os
import tempfile
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from store_kit import wait_until

from zenitmq.model.errors import (
    FlushTimeout,
    MessageTooLarge,
    OffsetOutOfRange,
    StoreFormatError,
    StoreNotWriteable,
    StorePoisoned,
)
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.store.log.segment import Disk, segment_name

LIBC = ctypes.CDLL(None)
SEGMENT = 8_192
DEADLINE_MS = 20_000


@pytest.fixture
def open_log(tmp_path):
    """Opens logs over one directory and closes whatever the test leaves open."""
    opened = []

    def open_one(*, start=True, directory=tmp_path, segment_bytes=SEGMENT, **options) -> CommitLog:
        log = CommitLog(str(directory), segment_bytes=segment_bytes, **options)
        opened.append(log)
        if start:
            log.start()
        return log

    yield open_one
    for log in opened:
        log.close()


def add(log: CommitLog, data: bytes) -> int:
    at = log.place(len(data))
    assert log.append([data]) == at
    return at


def file_bytes(log: CommitLog, base: int) -> bytes:
    with open(os.path.join(log.directory, segment_name(base)), "rb") as file:
        return file.read()


def test_what_is_appended_is_viewed(open_log):
    log = open_log()
    assert add(log, b"one") == 0
    assert log.append([b"tw", memoryview(b"xox")[1:2]]) == 3
    assert (log.begin, log.written) == (0, 6)
    assert bytes(log.view(0, 6)) == b"onetwo"
    assert bytes(log.view(2, 2)) == b""


def test_an_append_ends_with_eight_zero_bytes_that_the_next_one_overwrites(open_log):
    log = open_log()
    add(log, b"a")
    fd = log.segments()[-1].open_fd()
    os.pwrite(fd, b"\xff" * 100, 1)
    add(log, b"b")
    assert file_bytes(log, 0)[:12] == b"ab" + bytes(8) + b"\xff" * 2


def test_no_append_writes_a_part_of_a_block_that_none_has_written_yet(open_log):
    """The kernel would read the rest of it from the disk first: of a recycled segment whose pages are long forgotten."""
    writes = []

    def pwritev(fd, views, at):
        writes.append((at, at + sum(map(len, views))))
        return os.pwritev(fd, views, at)

    log = open_log(segment_bytes=10_000, disk=Disk(pwritev=pwritev))
    # within a block, up to its last 8 bytes, to its end, over its end, into the file's last
    for size in (100, 3_980, 8, 256, 4_000):
        add(log, b"x" * size)
    assert writes == [
        (0, 4_096),
        (100, 4_088),
        (4_080, 4_096),
        (4_096, 8_192),
        (4_088, 4_096),
        (8_192, 10_000),
        (4_344, 8_192),
    ]
    assert file_bytes(log, 0) == b"x" * 8_344 + bytes(10_000 - 8_344)


def test_an_append_over_forgotten_pages_asks_nothing_of_the_disk(open_log, tmp_path):
    log = open_log(segment_bytes=1 << 20)
    add(log, os.urandom(1 << 19))
    log.close()
    with open(os.path.join(log.directory, segment_name(0)), "r+b") as file:
        file.write(os.urandom(1 << 20))  # as a recycled segment: every block was written once
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    log = open_log(segment_bytes=1 << 20, start=False)
    log.truncate(0, wipe_bytes=0)
    log.start()
    before = disk_reads()
    for size in (100, 50_000, 4_096, 70_001):
        add(log, b"y" * size)
    assert disk_reads() == before
    assert bytes(log.view(0, log.written)) == b"y" * log.written


def disk_reads() -> int:
    """Bytes that this thread has had read from a disk."""
    with open(f"/proc/self/task/{threading.get_native_id()}/io") as file:
        return int(next(line for line in file if line.startswith("read_bytes")).split()[1])


@pytest.mark.parametrize("first", [SEGMENT - 8, SEGMENT - 9, SEGMENT - 108, SEGMENT - 109])
def test_a_record_needs_its_size_and_eight_bytes_or_the_log_rolls(open_log, first):
    """RocketMQ's rule: length + 8 <= remaining, else a blank record and the next file."""
    log = open_log()
    add(log, b"x" * first)
    remaining = SEGMENT - first
    at = add(log, b"y" * 100)
    if remaining >= 100 + 8:
        assert at == first
        return
    assert at == SEGMENT
    assert file_bytes(log, 0)[first : first + 8] == remaining.to_bytes(4, "big") + bytes.fromhex("cbd43194")
    assert log.room_bytes == SEGMENT - 100 - 8
    assert [segment.base_offset for segment in log.segments()] == [0, SEGMENT]


def test_an_append_larger_than_a_segment_is_refused_and_nothing_is_written(open_log):
    log = open_log()
    add(log, b"x")
    with pytest.raises(MessageTooLarge) as caught:
        log.place(SEGMENT - 7)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (SEGMENT - 7, SEGMENT - 8)
    assert log.written == 1
    assert log.place(SEGMENT - 8) == SEGMENT


@pytest.mark.parametrize("views", [[b"x" * SEGMENT], [], [b""]])
def test_an_append_that_was_not_placed_is_our_own_mistake(open_log, views):
    log = open_log()
    log.place(10)
    with pytest.raises(ValueError, match="not placed"):
        log.append(views)
    assert log.written == 0


def test_a_short_write_is_continued(open_log):
    sizes = iter([3, 1, 2])

    def pwritev(fd, views, at):
        return os.pwrite(fd, b"".join(views)[: next(sizes, None)], at)

    log = open_log(disk=Disk(pwritev=pwritev))
    add(log, b"hello world")
    assert bytes(log.view(0, 11)) == b"hello world"
    assert [(e.offset, e.length, e.crc) for e in read_checksums(log)] == [(0, 11, zlib.crc32(b"hello world"))]


def read_checksums(log: CommitLog):
    log.checksums.write_out()
    return list(log.checksums.entries(0, log.written))


def test_every_append_and_every_blank_has_its_checksum_entry(open_log):
    log = open_log()
    add(log, b"x" * 5_000)
    add(log, b"y" * 5_000)
    log.append([b"1", b"2"])
    entries = read_checksums(log)
    assert [(e.offset, e.length) for e in entries] == [(0, 5_000), (5_000, 8), (SEGMENT, 5_000), (SEGMENT + 5_000, 2)]
    for entry in entries:
        assert zlib.crc32(log.view(entry.offset, entry.end)) == entry.crc


@pytest.mark.parametrize(("begin", "end"), [(-1, 1), (0, 101), (50, 40), (101, 101), (90, SEGMENT + 1)])
def test_views_outside_what_is_written_are_refused(open_log, begin, end):
    log = open_log()
    add(log, b"x" * 100)
    with pytest.raises(OffsetOutOfRange):
        log.view(begin, end)


def test_a_view_across_two_segments_is_refused(open_log):
    log = open_log()
    for _ in range(2):
        add(log, b"x" * 5_000)
    with pytest.raises(OffsetOutOfRange):
        log.view(0, SEGMENT + 10)
    log.close()
    with pytest.raises(OffsetOutOfRange):
        open_log(start=False).view(9 * SEGMENT, 9 * SEGMENT)


def test_a_log_that_is_not_started_takes_no_writes_but_reads(open_log):
    log = open_log()
    add(log, b"kept")
    log.close()
    reader = open_log(start=False)
    assert bytes(reader.view(0, 4)) == b"kept"
    with pytest.raises(StoreNotWriteable):
        reader.place(1)


@pytest.mark.parametrize("wipe_bytes", [0, 100, None])
def test_truncating_and_going_on(open_log, wipe_bytes):
    log = open_log()
    for letter in b"abcd":
        add(log, bytes([letter]) * 3_000)
    log.close()
    log = open_log(start=False)
    assert log.written >= 4 * 3_000
    log.truncate(3_000, wipe_bytes=wipe_bytes)
    assert log.written == 3_000
    left = file_bytes(log, 0)[3_000:]
    assert left[:8] == bytes(8)
    if wipe_bytes is None:
        assert not any(left)
        assert [segment.base_offset for segment in log.segments()] == [0]
        assert sorted(os.listdir(log.directory)) == [segment_name(0)]
    else:
        assert left[max(8, wipe_bytes) :][:10] == b"b" * 10
    log.start()
    assert add(log, b"e" * 3_000) == 3_000
    assert add(log, b"f" * 3_000) == SEGMENT
    assert bytes(log.view(SEGMENT, SEGMENT + 3)) == b"fff"
    assert [entry.offset for entry in read_checksums(log)] == [0, 3_000, 6_000, SEGMENT]


@pytest.mark.parametrize("end", [0, SEGMENT])
def test_truncating_to_where_a_segment_begins(open_log, end):
    log = open_log()
    for _ in range(3):
        add(log, b"x" * 5_000)
    log.close()
    log = open_log(start=False)
    log.truncate(end)
    log.start()
    assert add(log, b"y" * 10) == end


def test_an_end_outside_the_log_is_refused(open_log):
    log = open_log(start=False)
    with pytest.raises(OffsetOutOfRange):
        log.truncate(1)


def test_a_log_that_ends_with_a_full_segment_goes_on_in_a_new_one(open_log):
    log = open_log()
    add(log, b"x" * (SEGMENT - 8))
    log.close()
    log = open_log(start=False)
    for segment in log.segments()[1:]:
        os.unlink(segment.path)
    log.close()
    log = open_log(start=False)
    log.truncate(SEGMENT)
    log.start()
    log.wait_flushed(SEGMENT, DEADLINE_MS)
    assert log.remove_before(SEGMENT) == []  # the last one stays: the log would forget where it is
    assert add(log, b"y") == SEGMENT


def test_an_empty_log_uses_no_spare_of_an_earlier_one(open_log, tmp_path):
    """Its records could come to lie where they once were, and would count again."""
    (tmp_path / "spare").mkdir()
    (tmp_path / "spare" / segment_name(0)).write_bytes(b"r" * SEGMENT)
    log = open_log()
    add(log, b"x")
    assert not any(file_bytes(log, 0)[1:])


def test_a_sparse_last_segment_is_filled_before_it_is_written(open_log, tmp_path):
    """RocketMQ's files have holes; writing one on a full disk must not fail halfway."""
    os.makedirs(tmp_path / "commitlog")
    with open(tmp_path / "commitlog" / segment_name(0), "wb") as file:
        file.truncate(SEGMENT)
    log = open_log(start=False)
    log.truncate(0)
    log.start()
    add(log, b"x")
    assert os.stat(log.segments()[0].path).st_blocks * 512 >= SEGMENT


def test_an_empty_last_file_is_where_the_next_segment_belongs(open_log, tmp_path):
    log = open_log()
    add(log, b"x")
    log.close()
    for name in sorted(os.listdir(tmp_path / "commitlog"))[1:]:
        os.unlink(tmp_path / "commitlog" / name)
    (tmp_path / "commitlog" / segment_name(SEGMENT)).touch()
    log = open_log(start=False)
    log.truncate(1)
    log.start()
    assert add(log, b"y" * (SEGMENT - 8)) == SEGMENT


def test_another_segment_size_is_refused_by_the_name_of_the_file(open_log):
    log = open_log()
    add(log, b"x")
    log.close()
    with pytest.raises(StoreFormatError, match="8192 bytes where the configuration says 16384"):
        open_log(start=False, segment_bytes=2 * SEGMENT)


def cached_pages(view: memoryview | mmap.mmap, *positions: int) -> list[bool]:
    """Which of these bytes are in the page cache. mincore(2) only looks: a read that may not wait starts a read-ahead."""
    at = np.frombuffer(view, dtype=np.uint8).ctypes.data
    told = ctypes.c_ubyte()
    cached = []
    for position in positions:
        page = at + position // mmap.PAGESIZE * mmap.PAGESIZE
        assert LIBC.mincore(ctypes.c_void_p(page), ctypes.c_size_t(1), ctypes.byref(told)) == 0
        cached.append(bool(told.value & 1))
    return cached


def forgets_pages(path: Path) -> bool:
    """Whether this file system drops the pages of a file that is on the disk, when told to."""
    with open(path, "wb+") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return cached_pages(view, 0) == [False]


@pytest.fixture
def disk_path():
    """A directory on a disk: other tests may have theirs in memory, which keeps its pages."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


def test_dropped_pages_are_read_from_the_disk_again(open_log, disk_path):
    """After a failed sync pages look clean that never reached the disk; recovery must not believe them."""
    log = open_log(directory=disk_path, segment_bytes=1 << 20)
    for _ in range(3):
        add(log, b"x" * 1_000_000)
    log.wait_flushed(log.written, DEADLINE_MS)
    if [cached_pages(segment.map, 0, 900_000) for segment in log.segments()] != 3 * [[True, True]]:
        pytest.skip("this machine drops pages by itself")
    if not forgets_pages(disk_path / "other"):
        pytest.skip("this file system keeps its pages")
    begin = (1 << 20) + 500_000

    def left() -> list[list[bool]]:  # what the kernel is just writing, or has in hand elsewhere, goes once that is done
        log.drop_cached_pages(begin)
        return [cached_pages(segment.map, 0, 900_000) for segment in log.segments()]

    wait_until(lambda: left() == [[True, True], [True, False], [False, False]])
    assert bytes(log.view(2 << 20, (2 << 20) + 3)) == b"xxx"


# ---------------------------------------------------------------------------------------------------- flushing


def test_nothing_counts_as_flushed_after_a_start_until_this_process_has_synced(open_log):
    log = open_log()
    add(log, b"x" * 5_000)
    add(log, b"y" * 5_000)
    end = log.written
    log.close()
    synced: list[str] = []
    log = open_log(
        start=False,
        flush_interval_ms=DEADLINE_MS,
        disk=Disk(fdatasync=lambda fd: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))),
    )
    log.truncate(end, wipe_bytes=0)
    assert log.flushed == 0
    log.start()
    log.wait_flushed(end, DEADLINE_MS)
    assert log.flushed == end
    assert synced[:2] == [segment_name(0), segment_name(SEGMENT)]


def test_waiting_returns_once_the_bytes_are_synced_and_tells_the_callback(open_log):
    told = threading.Event()
    log = open_log(flush_interval_ms=DEADLINE_MS, on_flushed=told.set)
    add(log, b"x")
    log.wait_flushed(1, DEADLINE_MS)
    assert log.flushed == 1
    assert told.wait(DEADLINE_MS / 1000)


def test_a_request_for_what_is_flushed_wakes_nobody(open_log):
    log = open_log(start=False)
    log.request_flush(0)
    assert not log._flusher._wake.is_set()


def test_a_flush_that_takes_too_long_times_out_and_succeeds_later(open_log):
    slow = threading.Event()
    log = open_log(disk=Disk(fdatasync=lambda fd: slow.wait(DEADLINE_MS / 1000) and None))
    add(log, b"x")
    with pytest.raises(FlushTimeout):
        log.wait_flushed(1, 20)
    slow.set()
    log.wait_flushed(1, DEADLINE_MS)


def test_one_sync_answers_everybody_who_wrote_while_the_last_one_ran(open_log):
    gate, entered, syncs = threading.Event(), threading.Event(), []

    def fdatasync(fd):
        name = os.readlink(f"/proc/self/fd/{fd}")
        if "commitlog" in name:
            syncs.append(name)
            entered.set()
            assert gate.wait(DEADLINE_MS / 1000)

    log = open_log(flush_interval_ms=DEADLINE_MS, disk=Disk(fdatasync=fdatasync))
    add(log, b"x")
    log.request_flush(log.written)
    assert entered.wait(DEADLINE_MS / 1000)
    for _ in range(50):
        add(log, b"x")
        log.request_flush(log.written)
    gate.set()
    log.wait_flushed(log.written, DEADLINE_MS)
    assert len(syncs) == 2


def test_a_failed_sync_is_final(open_log):
    """No flushed position after it, no second try, no append, and it is told once."""
    syncs, told = [], []

    def fdatasync(fd):
        if "commitlog" in os.readlink(f"/proc/self/fd/{fd}"):
            syncs.append(fd)
            raise OSError(errno.EIO, "Input/output error")

    log = open_log(flush_interval_ms=DEADLINE_MS, on_poisoned=told.append, disk=Disk(fdatasync=fdatasync))
    add(log, b"x")
    for _ in range(3):
        with pytest.raises(StorePoisoned, match="Input/output error"):
            log.wait_flushed(1, DEADLINE_MS)
    with pytest.raises(StorePoisoned):
        log.append([b"y"])
    with pytest.raises(StorePoisoned):
        log.place(1)
    assert bytes(log.view(0, 1)) == b"x"
    log.close()
    assert (log.flushed, log.written, len(syncs)) == (0, 1, 1)
    assert [type(error) for error in told] == [StorePoisoned]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_append_is_final_and_publishes_nothing(open_log, number):
    told, failing = [], []

    def pwritev(fd, views, at):
        if failing:
            raise OSError(number, os.strerror(number))
        return os.pwritev(fd, views, at)

    log = open_log(on_poisoned=told.append, disk=Disk(pwritev=pwritev))
    add(log, b"x")
    failing.append(True)
    for _ in range(2):
        with pytest.raises(StorePoisoned):
            log.append([b"y"])
    failing.clear()
    with pytest.raises(StorePoisoned):
        log.append([b"y"])
    assert (log.written, len(told)) == (1, 1)


def test_a_flush_that_fails_during_an_append_stops_the_next_one(open_log):
    told = []

    def pwritev(fd, views, at):
        if told == ["go"]:
            log.poison("the flush failed meanwhile")
            log.poison("and again")
        return os.pwritev(fd, views, at)

    log = open_log(flush_interval_ms=DEADLINE_MS, on_poisoned=told.append, disk=Disk(pwritev=pwritev))
    log.place(2)
    told.append("go")
    log.append([b"x"])
    with pytest.raises(StorePoisoned, match="meanwhile"):
        log.append([b"y"])
    assert [str(error) for error in told[1:]] == [str(StorePoisoned("the flush failed meanwhile"))]


def test_rolled_segments_give_their_descriptor_back_once_they_are_flushed(open_log):
    log = open_log()
    for _ in range(3):
        add(log, b"x" * 8_000)
    log.wait_flushed(log.written, DEADLINE_MS)
    assert [segment.fd >= 0 for segment in log.segments()] == [False, False, True]


# ------------------------------------------------------------------------------------------- giving up segments


def test_only_whole_flushed_segments_that_are_not_the_current_one_are_given_up(open_log):
    log = open_log(flush_interval_ms=DEADLINE_MS)
    for _ in range(3):
        add(log, b"x" * 8_000)
    assert log.remove_before(log.written) == []
    log.wait_flushed(log.written, DEADLINE_MS)
    assert log.remove_before(SEGMENT - 1) == []
    assert [segment.base_offset for segment in log.remove_before(SEGMENT)] == [0]
    assert (log.begin, log.segments()[0].base_offset) == (SEGMENT, SEGMENT)
    with pytest.raises(OffsetOutOfRange):
        log.view(0, 1)
    assert [segment.base_offset for segment in log.remove_before(10 * SEGMENT)] == [SEGMENT]
    assert log.checksums.bases() == [2 * SEGMENT]


def test_a_segment_whose_file_cannot_leave_stays_in_the_log(open_log, monkeypatch):
    log = open_log(flush_interval_ms=DEADLINE_MS)
    for _ in range(3):
        add(log, b"x" * 8_000)
    log.wait_flushed(log.written, DEADLINE_MS)
    rename = os.rename

    def refuse(path, target):
        if path.endswith(segment_name(SEGMENT)):
            raise OSError(errno.EROFS, "Read-only file system")
        rename(path, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="Read-only"):
        log.remove_before(log.written)
    assert [segment.base_offset for segment in log.segments()] == [log.begin, 2 * SEGMENT] == [SEGMENT, 2 * SEGMENT]
    assert bytes(log.view(SEGMENT, SEGMENT + 8_000)) == b"x" * 8_000
    monkeypatch.undo()
    assert [segment.base_offset for segment in log.remove_before(log.written)] == [SEGMENT]


def test_a_view_of_a_segment_that_was_given_up_stays_readable(open_log):
    log = open_log(preallocate_segments=1)
    add(log, b"v" * 8_000)
    view = log.view(0, 8_000)
    for _ in range(12):
        add(log, b"x" * 8_000)
        log.wait_flushed(log.written, DEADLINE_MS)
        log.remove_before(log.written)
    assert bytes(view) == b"v" * 8_000
    view.release()


def test_closing_with_a_view_alive_leaves_the_view_alone(open_log):
    log = open_log()
    add(log, b"kept")
    view = log.view(0, 4)
    log.close()
    assert bytes(view) == b"kept"
    with pytest.raises(StoreNotWriteable):
        log.place(1)


def test_a_log_lacks_room_from_the_refusal_of_an_append_until_a_segment_can_be_made(open_log, monkeypatch):
    monkeypatch.setattr("zenitmq.store.log.allocator.RETRY_FIRST_MS", 1)
    monkeypatch.setattr("zenitmq.store.log.allocator.RETRY_LAST_MS", 1)
    full = threading.Event()

    def fallocate(fd, offset, size):
        if full.is_set():
            raise OSError(errno.ENOSPC, "no space")
        os.posix_fallocate(fd, offset, size)

    log = open_log(preallocate_segments=0, disk=Disk(fallocate=fallocate))
    add(log, b"x" * 8_000)
    full.set()
    assert not log.lacks_room
    with pytest.raises(StoreNotWriteable):
        log.place(8_000)
    assert log.lacks_room
    full.clear()
    wait_until(lambda: not log.lacks_room)
    add(log, b"x" * 8_000)
    assert not log.lacks_room


def test_an_empty_log_that_gets_no_segment_says_so_before_its_first_append(open_log):
    def fallocate(_fd, _offset, _size):
        raise OSError(errno.ENOSPC, "no space")

    log = open_log(preallocate_segments=1, disk=Disk(fallocate=fallocate))
    wait_until(lambda: log.refusal is not None)
    assert "disk full: free space" in log.refusal
    assert "0" * 20 + f", {SEGMENT} bytes; store.preallocate_segments keeps 1 such files ready" in log.refusal


def test_a_log_that_still_has_room_takes_writes_though_no_other_segment_can_be_made(open_log, monkeypatch):
    monkeypatch.setattr("zenitmq.store.log.allocator.RETRY_FIRST_MS", 1)
    full = threading.Event()

    def fallocate(fd, offset, size):
        if full.is_set():
            raise OSError(errno.ENOSPC, "no space")
        os.posix_fallocate(fd, offset, size)

    log = open_log(preallocate_segments=0, disk=Disk(fallocate=fallocate))
    add(log, b"x" * 100)
    full.set()
    assert log.refusal is None
    with pytest.raises(StoreNotWriteable):
        log.place(8_100)
    assert "free space" in log.refusal
