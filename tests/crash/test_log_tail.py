"""The end of the commit log after a kill: torn at every byte, on fresh and on recycled files, at append and at roll.

What recovery relies on is shown here with a small search for the end: a record counts where it is whole, its physical
offset is its position, its properties hold no zero byte, and what follows may follow an append that came to its end.
"""

import errno
import os
import signal
import subprocess
import sys
import zlib

import pytest

from zenitmq.model.errors import StoreNotWriteable, StorePoisoned
from zenitmq.record.codes import RUN_BLANK
from zenitmq.record.kernel import RunKernel, encode_record
from zenitmq.store.log import commit_log
from zenitmq.store.log.commit_log import CommitLog, may_follow_append
from zenitmq.store.log.segment import Disk

SEGMENT = 2_048
BLOCK = 64  # with one of 4096 the zeros behind an append would leave nothing old in so small a segment
PROPERTIES_BYTES = 17  # of each record here
DEADLINE_MS = 20_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(commit_log, "BLOCK_BYTES", BLOCK)


def record(at: int, number: int) -> bytes:
    return encode_record(
        topic=b"T",
        body=b"body %3d " % number * 3,
        properties=b"KEYS\x01k%03d\x02TAGS\x01t\x02" % number,
        queue_offset=number,
        physical_offset=at,
        store_timestamp_ms=number,
    )


def add(log: CommitLog, number: int) -> bytes:
    size = len(record(0, number))
    data = record(log.place(size), number)
    log.append([data])
    return data


def find_end(log: CommitLog, kernel: RunKernel) -> tuple[int, list[int]]:
    """Where the log ends, and the queue offsets of the records before it."""
    numbers: list[int] = []
    end = log.begin
    for segment in log.segments():
        if end != segment.base_offset:
            break
        at, view = 0, segment.map
        begins: list[int] = []
        while kernel.scan(view, at, len(view), segment.base_offset + at, check_body_crc=True, count_max=1):
            begins.append(at)
            numbers.append(kernel.queue_offset)
            at = kernel.end
        kernel.clear()
        if begins and (
            not may_follow_append(view, at, segment.base_offset + at) or 0 in view[at - PROPERTIES_BYTES : at]
        ):
            at = begins[-1]
            numbers.pop()
        end = segment.end_offset if kernel.status == RUN_BLANK else segment.base_offset + at
    return min(end, log.written), numbers


@pytest.fixture
def kernel():
    return RunKernel(record_max=1 << 20, body_max=1 << 20)


def old_bytes(kind: str) -> bytes:
    """What a recycled file holds behind its zeroed head: whole records, each naming another position; or long bodies."""
    if kind == "records":
        old = b"".join(record(7_000_000 + 97 * number, 500 + number) for number in range(40))[29:]
    else:
        old = b"once upon a time " * SEGMENT
    return bytes(64) + old[64:SEGMENT]


@pytest.mark.parametrize("recycled", ["", "records", "bodies"])
def test_torn_at_every_byte_of_the_last_append(tmp_path, kernel, recycled):
    """Cut anywhere, the log ends at the last whole append; it goes on from there and nothing of the torn one returns."""
    directory = str(tmp_path)
    log = CommitLog(directory, segment_bytes=SEGMENT)
    log.start()
    log.place(1)
    path = log.segments()[0].path
    if recycled:
        with open(path, "r+b") as file:
            file.write(old_bytes(recycled))
    for number in range(4):
        add(log, number)
    log.close()
    with open(path, "rb") as file:
        before = file.read()
    begin = sum(len(record(0, number)) for number in range(4))
    sizes = [len(record(0, number)) for number in (4, 5)]
    zeros = bytes(8 + -(begin + sum(sizes) + 8) % BLOCK)
    batch = record(begin, 4) + record(begin + sizes[0], 5) + zeros
    ends = set()
    for cut in range(len(batch) + 1):
        with open(path, "r+b") as file:
            file.write(before)
            file.seek(begin)
            file.write(batch[:cut])
        log = CommitLog(directory, segment_bytes=SEGMENT)
        end, numbers = find_end(log, kernel)
        assert numbers == list(range(len(numbers))), cut
        assert end == sum(len(record(0, number)) for number in numbers), cut
        if cut < sizes[0]:
            assert end == begin, cut
        if cut == len(batch):
            assert end == begin + sum(sizes)
        ends.add(end)
        log.truncate(end, wipe_bytes=len(batch) if cut % 2 else None)
        if cut % 10 == 0:
            log.start()
            add(log, len(numbers))
        log.close()
        log = CommitLog(directory, segment_bytes=SEGMENT)
        assert find_end(log, kernel)[1] == list(range(len(numbers) + (cut % 10 == 0))), cut
        log.close()
    assert ends == {begin, begin + sizes[0], begin + sum(sizes)}


class DyingDisk:
    """Takes `budget` bytes in order, then nothing more: a process that is killed in the middle of a write."""

    def __init__(self, budget: int) -> None:
        self.left = budget

    def pwritev(self, fd, views, at):
        data = b"".join(views)
        taken, self.left = data[: self.left], self.left - len(data)
        if taken:
            os.pwrite(fd, taken, at)
        if self.left < 0:
            self.left = 0
            raise OSError(errno.EIO, "killed")
        return len(data)

    def fdatasync(self, fd):
        if self.left <= 0:
            raise OSError(errno.EIO, "killed")

    def disk(self) -> Disk:
        return Disk(pwritev=self.pwritev, fdatasync=self.fdatasync)


def roll_budgets() -> range:
    """How many bytes the disk takes: from two records before the first roll to two records behind it."""
    size = len(record(0, 0))
    at = zeroed = full = 0
    while at + size + 8 <= SEGMENT:
        at += size
        full += size + 8
        if at + 8 > zeroed:
            full += -(at + 8) % BLOCK
            zeroed = at + 8 + -(at + 8) % BLOCK
    return range(full - 2 * size, full + 2 * (size + 8 + BLOCK))


def test_killed_at_every_byte_around_a_roll(tmp_path, kernel):
    """Every append that returned is there, at its place, and the log goes on behind it."""
    ended = set()
    for budget in roll_budgets():
        directory = str(tmp_path / str(budget))
        log = CommitLog(directory, segment_bytes=SEGMENT, flush_interval_ms=DEADLINE_MS, disk=DyingDisk(budget).disk())
        log.start()
        done = 0
        try:
            while True:
                add(log, done)
                done += 1
        except StorePoisoned:
            written = log.written
        log.close()
        log = CommitLog(directory, segment_bytes=SEGMENT)
        end, numbers = find_end(log, kernel)
        assert numbers in (list(range(done)), list(range(done + 1))), budget
        assert end >= written, budget
        log.truncate(end)
        log.start()
        add(log, len(numbers))
        assert find_end(log, kernel)[1] == list(range(len(numbers) + 1)), budget
        ended.add(end >= SEGMENT)
        log.close()
    assert ended == {False, True}


def test_every_flipped_bit_before_the_tail_is_told_by_the_checksum_log(tmp_path):
    """Headers and properties too, which no CRC of RocketMQ's covers."""
    log = CommitLog(str(tmp_path), segment_bytes=SEGMENT)
    log.start()
    for number in range(3):
        add(log, number)
    log.wait_flushed(log.written, DEADLINE_MS)
    entries = list(log.checksums.entries(0, log.written))
    assert [entry.end for entry in entries][-1] == log.written
    fd = log.segments()[0].open_fd()
    for entry in entries:
        for position in range(entry.offset, entry.end):
            byte = log.view(position, position + 1)[0]
            for bit in range(8):
                os.pwrite(fd, bytes([byte ^ 1 << bit]), position)
                wrong = [e.offset for e in entries if zlib.crc32(log.view(e.offset, e.end)) != e.crc]
                assert wrong == [entry.offset], (position, bit)
            os.pwrite(fd, bytes([byte]), position)
    log.close()


def test_old_records_in_a_recycled_segment_never_count(tmp_path, kernel):
    """Segments go round three times; after each append the log ends right behind it."""
    log = CommitLog(str(tmp_path), segment_bytes=SEGMENT, preallocate_segments=1, recycle_segments=3)
    log.start()
    inodes = set()
    for number in range(120):
        add(log, number)
        inodes.add(os.stat(log.segments()[-1].path).st_ino)
        log.wait_flushed(log.written, DEADLINE_MS)
        log.remove_before(log.written)
        end, numbers = find_end(log, kernel)
        assert (end, numbers[-1]) == (log.written, number)
    assert len(inodes) < log.segments()[-1].base_offset // SEGMENT, "no segment was recycled"
    log.close()


def test_a_disk_that_is_full_at_the_roll_refuses_reads_on_and_resumes(tmp_path):
    full = [False]

    def fallocate(fd, offset, size):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.posix_fallocate(fd, offset, size)

    log = CommitLog(str(tmp_path), segment_bytes=SEGMENT, preallocate_segments=1, disk=Disk(fallocate=fallocate))
    log.start()
    first = add(log, 0)
    log.append([b"a little more, so that records do not fill the segment"])
    full[0] = True
    refused = 0
    while not refused:
        try:
            add(log, 1)
        except StoreNotWriteable:
            refused = log.written
    for _ in range(3):
        with pytest.raises(StoreNotWriteable, match="disk full"):
            add(log, 1)
    assert log.written == refused
    assert bytes(log.view(0, len(first))) == first
    if log.room_bytes >= 4:  # a segment that was ready already may have been filled to its last byte
        log.append([b"fits"])  # what fits is still taken
    full[0] = False
    while log.written // SEGMENT == refused // SEGMENT:
        try:
            add(log, 2)
        except StoreNotWriteable:
            log.wait_flushed(log.written, DEADLINE_MS)
    log.wait_flushed(log.written, DEADLINE_MS)
    log.close()


APPENDER = """
import sys
from zenitmq.store.log import commit_log
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.record.kernel import encode_record
from test_log_tail import BLOCK, record
commit_log.BLOCK_BYTES = BLOCK
log = CommitLog(sys.argv[1], segment_bytes=int(sys.argv[2]), preallocate_segments=1)
log.truncate(int(sys.argv[3]))
log.start()
number = int(sys.argv[4])
while True:
    for _ in range(20):
        log.append([record(log.place(len(record(0, number))), number)])
        number += 1
    log.wait_flushed(log.written, 20_000)
    log.remove_before(log.written - 4 * log.segment_bytes)
    print(log.flushed, number, flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path, kernel):
    """kill -9 in the middle of appending, rolling and recycling, four times over one directory."""
    end = number = 0
    for turn in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path), str(SEGMENT), str(end), str(number)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        )
        with child:
            for _ in range(10 + 7 * turn):
                line = child.stdout.readline()
                assert line, "the child ended by itself"
            child.send_signal(signal.SIGKILL)
            lines = child.stdout.read().splitlines(keepends=True)
        flushed, acknowledged = (
            int(word) for word in next(s for s in [*lines[::-1], line] if s.endswith(b"\n")).split()
        )
        log = CommitLog(str(tmp_path), segment_bytes=SEGMENT)
        end, numbers = find_end(log, kernel)
        assert end >= flushed
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        number = numbers[-1] + 1
        assert number >= acknowledged
        assert log.begin > 0
        assert all(zlib.crc32(log.view(e.offset, e.end)) == e.crc for e in log.checksums.entries(log.begin, flushed))
        log.close()
