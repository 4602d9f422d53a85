"""One queue's files: units at their place, filler where it begins late, the end found again whatever lies behind it."""

import errno
import os

import pytest

from zenitmq.model.errors import StoreFormatError
from zenitmq.record.layout import UNIT
from zenitmq.store.log.spare_files import SpareFiles
from zenitmq.store.queues.consume_queue import ConsumeQueue, OpenFiles
from zenitmq.store.queues.queue_places import FILLER_SIZE, UNIT_BYTES

UNITS = 16


@pytest.fixture
def files():
    opened = OpenFiles(2)
    yield opened
    opened.close()


def open_queue(directory, files, log_end=1 << 40, **options) -> ConsumeQueue:
    return ConsumeQueue(
        "t", 3, directory=str(directory), files=files, file_bytes=UNITS * UNIT_BYTES, log_end=log_end, **options
    )


def units(begin: int, end: int) -> bytes:
    """Message n is 100 bytes at 100 n, with tags code n."""
    return b"".join(UNIT.pack(100 * n, 100, n) for n in range(begin, end))


@pytest.mark.parametrize("step", [1, 5, 16, 50])
def test_units_lie_where_their_offset_says(tmp_path, files, step: int) -> None:
    queue = open_queue(tmp_path / "q", files)
    for begin in range(0, 50, step):
        queue.append(begin, units(begin, min(50, begin + step)))
    again = open_queue(tmp_path / "q", files)
    for reader in (queue, again):
        assert reader.next_offset == 50
        assert b"".join(reader.read(base, 99) for base in (0, 16, 32, 48)) == units(0, 50)
        assert reader.read(10, 99) == units(10, 16)
        assert reader.read(50, 1) == b""
    assert len(files) <= 2
    assert sorted(os.listdir(tmp_path / "q")) == [f"{base:020d}" for base in (0, 320, 640, 960)]


@pytest.mark.parametrize("step", [1, 700, 4_000])
def test_a_busy_queue_has_room_behind_its_end_and_nothing_in_it(tmp_path, files, step: int) -> None:
    """Whatever an append covers of a room of 64 KiB: two files of 9,000 units, and a cut back to where that began."""
    whole = units(0, 12_000)
    directory = tmp_path / "q"

    def open_busy() -> ConsumeQueue:
        return ConsumeQueue("t", 3, directory=str(directory), files=files, file_bytes=180_000, log_end=1 << 40)

    def bytes_of_all() -> bytes:
        return b"".join((directory / name).read_bytes() for name in sorted(os.listdir(directory)))

    queue = open_busy()
    for begin in range(0, 12_000, step):
        queue.append(begin, whole[begin * UNIT_BYTES : (begin + step) * UNIT_BYTES])
    assert bytes_of_all() == whole + bytes(360_000 - len(whole))
    assert open_busy().next_offset == 12_000
    queue.cut(3_300)
    queue.append(3_300, whole[3_300 * UNIT_BYTES : 3_400 * UNIT_BYTES])
    assert bytes_of_all() == whole[: 3_400 * UNIT_BYTES] + bytes(180_000 - 3_400 * UNIT_BYTES)


def test_a_busy_queue_finds_its_pages_together(tmp_path, files) -> None:
    queue = ConsumeQueue("t", 3, directory=str(tmp_path / "q"), files=files, file_bytes=6_000_000, log_end=1 << 40)
    queue.append(0, units(0, 3_300))
    assert os.stat(queue.tail_path).st_blocks * 512 < 100_000
    queue.append(3_300, units(3_300, 3_301))
    assert os.stat(queue.tail_path).st_blocks * 512 >= 128 * 1024


def test_a_queue_of_few_messages_takes_few_pages(tmp_path, files) -> None:
    queue = ConsumeQueue("t", 3, directory=str(tmp_path / "q"), files=files, file_bytes=6_000_000, log_end=1 << 40)
    for n in range(100):
        queue.append(n, units(n, n + 1))
    assert os.stat(queue.tail_path).st_blocks * 512 <= 8192


def test_a_disk_without_room_refuses_the_units_not_the_room(tmp_path, files, monkeypatch) -> None:
    queue = ConsumeQueue("t", 3, directory=str(tmp_path / "q"), files=files, file_bytes=6_000_000, log_end=1 << 40)
    queue.append(0, units(0, 4_000))
    real = os.pwrite
    full = OSError(errno.ENOSPC, "no space")

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if at + len(data) > 5_000 * UNIT_BYTES:
            raise full
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    queue.append(4_000, units(4_000, 5_000))
    with pytest.raises(OSError, match="no space"):
        queue.append(5_000, units(5_000, 5_001))
    assert (queue.next_offset, queue.read(4_999, 9)) == (5_000, units(4_999, 5_000))


@pytest.mark.parametrize("begin", [1, 15, 16, 17, 100])
def test_a_queue_that_begins_late_is_filled_from_its_file_s_start(tmp_path, files, begin: int) -> None:
    queue = open_queue(tmp_path / "q", files)
    queue.append(begin, units(begin, begin + 3))
    first = begin // UNITS * UNITS
    (name, *_) = sorted(os.listdir(tmp_path / "q"))
    assert name == f"{first * UNIT_BYTES:020d}"
    data = (tmp_path / "q" / name).read_bytes()
    assert data[: (begin - first) * UNIT_BYTES] == UNIT.pack(0, FILLER_SIZE, 0) * (begin - first)
    again = open_queue(tmp_path / "q", files)
    assert (again.min_offset(0), again.next_offset) == (begin, begin + 3)


def test_a_gap_is_filled_and_a_replay_changes_nothing(tmp_path, files) -> None:
    queue = open_queue(tmp_path / "q", files)
    queue.append(0, units(0, 5))
    queue.append(20, units(20, 22))
    assert queue.read(16, 9) == UNIT.pack(2000, FILLER_SIZE, 0) * 4 + units(20, 22)
    assert queue.min_offset(600) == 5
    before = queue.read(0, 99)
    queue.append(2, units(2, 4))
    assert (queue.read(0, 99), queue.next_offset) == (before, 22)


@pytest.mark.parametrize("end", [0, 1, 7, 16, 20, 32, 39, 40])
def test_the_end_is_behind_the_last_unit_of_a_whole_record(tmp_path, files, end: int) -> None:
    """Whatever the file holds behind: units of records that were cut, or zeros where a page was lost."""
    open_queue(tmp_path / "q", files).append(0, units(0, 40))
    reader = open_queue(tmp_path / "q", files, log_end=100 * end + 99, writable=False)
    assert reader.next_offset == end
    assert len(os.listdir(tmp_path / "q")) == 3
    queue = open_queue(tmp_path / "q", files, log_end=100 * end + 99, scrub=True)
    assert queue.next_offset == end
    queue.append(end, units(end, end + 1))
    assert open_queue(tmp_path / "q", files).next_offset == end + 1


def test_the_first_message_kept(tmp_path, files) -> None:
    queue = open_queue(tmp_path / "q", files)
    queue.append(0, units(0, 40))
    assert [queue.min_offset(begin) for begin in (0, 1, 100, 101, 3999, 4000)] == [0, 1, 1, 2, 40, 40]
    assert queue.remove_before(3300) == 2
    assert (queue.min_offset(3300), queue.next_offset, queue.read(31, 1)) == (33, 40, b"")
    assert queue.resume_offset(17) == 32
    with pytest.raises(IndexError):
        queue.unit(40)
    queue.remove()
    assert not (tmp_path / "q").exists()


def test_a_queue_goes_on_in_expired_files(tmp_path, files) -> None:
    """As in fresh ones; a queue's first file is its own, since most queues hold little."""
    spares = SpareFiles(str(tmp_path / "spare"), size_bytes=320, blank_bytes=320, bytes_max=640)
    queue = open_queue(tmp_path / "q", files, spares=spares)
    queue.append(0, units(0, 40))
    inodes = [os.stat(tmp_path / "q" / f"{base:020d}").st_ino for base in (0, 320)]
    assert queue.remove_before(3300) == 2
    assert len(spares) == 2
    other = open_queue(tmp_path / "r", files, spares=spares)
    other.append(0, units(0, 10))
    assert len(spares) == 2
    queue.append(40, units(40, 90))
    assert len(spares) == 0
    assert [os.stat(tmp_path / "q" / f"{base:020d}").st_ino for base in (1280, 960)] == inodes
    for reader in (queue, open_queue(tmp_path / "q", files, log_end=9000, scrub=True)):
        assert (reader.first_offset, reader.next_offset) == (32, 90)
        assert b"".join(reader.read(base, 99) for base in range(32, 90, 16)) == units(32, 90)


@pytest.mark.parametrize("end", [50, 53, 64, 70])
def test_the_end_is_found_in_a_file_written_over(tmp_path, files, end: int) -> None:
    spares = SpareFiles(str(tmp_path / "spare"), size_bytes=320, blank_bytes=320, bytes_max=640)
    queue = open_queue(tmp_path / "q", files, spares=spares)
    queue.append(0, units(0, 48))
    assert queue.remove_before(3300) == 2
    queue.append(48, units(48, end))
    assert open_queue(tmp_path / "q", files, writable=False).next_offset == end
    again = open_queue(tmp_path / "q", files, log_end=100 * end - 1, scrub=True)  # the last record was cut
    assert again.next_offset == end - 1
    again.append(end - 1, units(end - 1, end + 30))
    assert b"".join(again.read(at, 99) for at in range(32, end + 30, 16)) == units(32, end + 30)


@pytest.mark.parametrize(
    ("name", "size"),
    [("x", 320), ("0" * 20, 319), ("0" * 19 + "7", 320), (f"{640:020d}", 320)],
    ids=["name", "size", "position", "hole"],
)
def test_strange_files_are_refused_by_name(tmp_path, files, name: str, size: int) -> None:
    open_queue(tmp_path, files).append(0, units(0, 1))
    (tmp_path / name).write_bytes(bytes(size))
    with pytest.raises(StoreFormatError, match=name):
        open_queue(tmp_path, files)


def test_an_empty_last_file_is_a_start_cut_short(tmp_path, files) -> None:
    open_queue(tmp_path, files).append(0, units(0, 16))
    (tmp_path / f"{320:020d}").touch()
    assert open_queue(tmp_path, files).next_offset == 16
    assert len(os.listdir(tmp_path)) == 1


def test_a_private_copy_reads_on_while_the_queue_grows(tmp_path, files) -> None:
    queue = open_queue(tmp_path / "q", files)
    queue.append(0, units(0, 10))
    own = OpenFiles(1)
    copy = queue.private(own)
    queue.append(10, units(10, 40))
    assert (copy.next_offset, copy.read(0, 99)) == (10, units(0, 10))
    own.close()


@pytest.mark.parametrize("kept", [0, 1, 7, 204, 205, 4000])
def test_what_lies_behind_the_end_is_found_wherever_it_is(tmp_path, files, kept: int) -> None:
    """After a power cut any page behind the end may hold units of records that are gone: alone behind a hole, or many."""
    directory = tmp_path / "q"

    def open_large(**options) -> ConsumeQueue:
        return ConsumeQueue(
            "t", 3, directory=str(directory), files=files, file_bytes=200_000, log_end=100 * kept, **options
        )

    queue = open_large()
    queue.append(0, units(0, kept + 1))
    (path,) = directory.iterdir()
    clean = units(0, kept) + bytes(200_000 - 20 * kept)
    for strange in ([kept], [9_999], [kept + 300, 9_000], list(range(kept, 9_999))):
        with open(path, "r+b") as file:
            for number in strange:
                file.seek(20 * number)
                file.write(UNIT.pack(100 * number + 1, 100, 0))
        files.close()
        assert open_large(scrub=True).next_offset == kept
        assert path.read_bytes() == clean
    files.close()
    blocks = os.stat(path).st_blocks
    assert open_large(scrub=True).next_offset == kept
    assert os.stat(path).st_blocks == blocks


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_the_end_of_a_file_without_holes_is_found_too(tmp_path, files, end: str) -> None:
    """Of one that was recycled, or copied by somebody who knows no holes."""
    queue = open_queue(tmp_path / "q", files)
    queue.append(0, units(0, 20))
    for path in (tmp_path / "q").iterdir():
        path.write_bytes(path.read_bytes())
    assert open_queue(tmp_path / "q", files, log_end=1_900, scrub=end == "killed").next_offset == 19
