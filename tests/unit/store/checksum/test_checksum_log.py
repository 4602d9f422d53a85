"""The checksum side log: one file a segment, torn ends, what a full disk costs."""

import errno
import os

import pytest

from zenitmq.store.checksum.checksum_entry import ENTRY, ChecksumEntry, pack_gap
from zenitmq.store.checksum.checksum_log import AHEAD_BYTES, PENDING_MAX, ChecksumLog
from zenitmq.store.log.segment import Disk, segment_name

SEGMENT = 1_000


def filled(directory, *entries: tuple[int, int, int], disk: Disk | None = None) -> ChecksumLog:
    log = ChecksumLog(str(directory), segment_bytes=SEGMENT, disk=disk or Disk())
    for entry in entries:
        log.append(*entry)
    log.close()
    return log


def offsets(log: ChecksumLog, begin: int = 0, end: int = 10 * SEGMENT) -> list[int]:
    return [entry.offset for entry in log.entries(begin, end)]


def test_entries_are_sixteen_bytes_big_endian_in_the_file_of_their_segment(tmp_path):
    filled(tmp_path, (0, 10, 0xDEADBEEF), (10, 5, 1), (SEGMENT, 7, 2))
    first, second = ((tmp_path / segment_name(base)).read_bytes() for base in (0, SEGMENT))
    assert first == bytes.fromhex("0000000000000000 0000000a deadbeef 000000000000000a 00000005 00000001").ljust(
        AHEAD_BYTES, b"\0"
    )
    assert second == bytes.fromhex("00000000000003e8 00000007 00000002").ljust(AHEAD_BYTES, b"\0")


def test_a_range_is_read_across_files(tmp_path):
    log = filled(tmp_path, (0, 10, 1), (10, 5, 2), (SEGMENT, 7, 3), (3 * SEGMENT + 1, 7, 4))
    assert offsets(log) == [0, 10, SEGMENT, 3 * SEGMENT + 1]
    assert list(log.entries(1, SEGMENT)) == [ChecksumEntry(10, 5, 2)]
    assert offsets(log, SEGMENT, 3 * SEGMENT) == [SEGMENT]


def test_entries_wait_until_they_are_written_and_the_bound_writes_them(tmp_path):
    log = ChecksumLog(str(tmp_path), segment_bytes=1 << 30)
    for offset in range(PENDING_MAX - 1):
        log.append(offset, 1, 0)
    assert offsets(log) == []
    log.append(PENDING_MAX - 1, 1, 0)
    assert len(list(log.entries(0, PENDING_MAX))) == PENDING_MAX
    log.close()


def test_a_second_opening_goes_on_behind_the_first(tmp_path):
    filled(tmp_path, (0, 10, 1))
    assert offsets(filled(tmp_path, (10, 5, 2))) == [0, 10]


@pytest.mark.parametrize("cut", range(3 * ENTRY.size + 1))
def test_a_file_torn_at_any_byte_gives_its_whole_entries_and_takes_more(tmp_path, cut):
    filled(tmp_path, (0, 10, 1), (10, 5, 2), (15, 5, 3))
    os.truncate(tmp_path / segment_name(0), cut)
    whole = [0, 10, 15][: cut // ENTRY.size]
    assert offsets(ChecksumLog(str(tmp_path), segment_bytes=SEGMENT)) == whole
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT)
    log.truncate(20)
    log.append(20, 1, 4)
    log.close()
    assert offsets(log) == [*whole, 20]


@pytest.mark.parametrize("junk", [bytes(16), bytes(160), b"\xff" * 16, ENTRY.pack(5, 10, 0), ENTRY.pack(990, 11, 0)])
def test_an_implausible_entry_ends_the_file_until_it_is_cut_away(tmp_path, junk):
    filled(tmp_path, (0, 10, 1))
    with open(tmp_path / segment_name(0), "ab") as file:
        file.write(junk)
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT)
    assert offsets(log) == [0]
    log.truncate(500)
    log.append(500, 1, 1)
    log.close()
    assert offsets(log) == [0, 500]


@pytest.mark.parametrize(
    ("end", "kept"),
    [(0, []), (9, []), (10, [0]), (14, [0]), (15, [0, 10]), (SEGMENT, [0, 10]), (SEGMENT + 7, [0, 10, SEGMENT])],
)
def test_truncating_forgets_what_reaches_past_the_end(tmp_path, end, kept):
    log = filled(tmp_path, (0, 10, 1), (10, 5, 2), (SEGMENT, 7, 3), (2 * SEGMENT, 1, 4))
    log.truncate(end)
    assert offsets(log) == kept
    assert all(base <= end for base in log.bases())


def test_a_dropped_file_is_gone_and_dropping_none_is_no_error(tmp_path):
    log = filled(tmp_path, (0, 10, 1), (SEGMENT, 7, 3))
    log.drop(0)
    log.drop(0)
    assert log.bases() == [SEGMENT]


class SmallDisk:
    """Takes what lies below `size_bytes` of a file; nothing behind it finds room."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def pwritev(self, fd, views, at):
        data = b"".join(views)[: max(0, self.size_bytes - at)]
        if not data:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(fd, data, at)


def test_a_full_disk_costs_entries_but_raises_nothing(tmp_path, caplog):
    room = SmallDisk(3 * ENTRY.size + 3)
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT, disk=Disk(pwritev=room.pwritev))
    for at in range(3):
        log.append(at, 1, 0)
    log.write_out()
    assert log.has_gap(0)
    log.append(3, 1, 0)
    log.write_out()
    assert log.entries_lost == 1 + 1
    assert (tmp_path / segment_name(0)).read_bytes()[2 * ENTRY.size : 3 * ENTRY.size] == pack_gap(3)
    room.size_bytes = 1_000_000
    log.append(4, 1, 0)
    log.close()
    assert offsets(log) == [0, 1, 4]
    assert not log.has_gap(0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_where_no_file_can_be_begun_the_one_before_says_so(tmp_path):
    room = SmallDisk(AHEAD_BYTES)
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT, disk=Disk(pwritev=room.pwritev))
    log.append(0, SEGMENT, 0)
    log.write_out()
    real, room.pwritev = room.pwritev, None

    def pwritev(fd, views, at):
        if os.fstat(fd).st_size == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, views, at)

    log._disk = Disk(pwritev=pwritev)
    log.append(SEGMENT, 1, 0)
    log.write_out()
    assert (log.has_gap(0), log.has_gap(SEGMENT), log.entries_lost) == (True, False, 1)
    log._disk = Disk()
    log.append(SEGMENT + 1, 1, 0)
    log.close()
    assert offsets(log) == [0, SEGMENT + 1]


@pytest.mark.parametrize(("end", "gap"), [(15, False), (16, True), (SEGMENT, True), (3 * SEGMENT, True)])
def test_truncating_says_where_entries_are_missing(tmp_path, end, gap):
    log = filled(tmp_path, (0, 10, 1), (10, 5, 2))
    log.truncate(end)
    assert (offsets(log), log.has_gap(0)) == ([0, 10], gap)
    log.append(end, 5, 3)
    log.close()
    assert offsets(log) == [0, 10, end]


def test_entries_behind_a_blank_are_missing_from_the_next_segment_on(tmp_path):
    log = filled(tmp_path, (0, 10, 1), (10, 8, 2))
    log.truncate(SEGMENT)
    assert not log.has_gap(0)
    log.truncate(SEGMENT + 1)
    assert log.has_gap(0)


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_failing_disk_is_raised(tmp_path, call):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT, disk=Disk(**{call: fail}))
    log.append(0, 1, 0)
    with pytest.raises(OSError, match="Input/output"):
        log.close()
    log.abandon()


def test_syncing_happens_once_for_what_was_written(tmp_path):
    synced = []
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT, disk=Disk(fdatasync=synced.append))
    log.sync()
    log.append(0, 1, 0)
    log.write_out()
    log.sync()
    log.sync()
    assert len(synced) == 1
    log.close()
