"""Files that are read through a map: names, sizes, views that pin, wiping."""

import errno
import os
import sys
import tracemalloc

import pytest

from zenitmq.model.errors import StoreFormatError, StoreNotWriteable, StorePoisoned
from zenitmq.store.log.segment import (
    Disk,
    MappedFile,
    Segment,
    create_allocated,
    create_sparse,
    disk_error,
    list_segments,
    page_in,
    private_memory,
    segment_name,
    wipe_range,
)

SIZE = 16_384


def make(directory, base: int, content: bytes = b"") -> Segment:
    path = os.path.join(directory, segment_name(base))
    create_allocated(path, SIZE)
    segment = Segment(str(directory), base, SIZE)
    if content:
        os.pwrite(segment.open_fd(), content, 0)
    return segment


def test_a_segment_is_named_by_the_twenty_digits_of_its_first_byte():
    assert segment_name(1_073_741_824) == "00000000001073741824"


def test_segments_are_listed_in_order_and_an_empty_last_file_is_skipped(tmp_path):
    for base in (SIZE, 0, 2 * SIZE):
        create_sparse(str(tmp_path / segment_name(base)), SIZE)
    (tmp_path / segment_name(3 * SIZE)).touch()
    assert list_segments(str(tmp_path), SIZE) == [0, SIZE, 2 * SIZE]
    assert list_segments(str(tmp_path / "absent"), SIZE) == []


@pytest.mark.parametrize(
    ("files", "culprit"),
    [
        ({0: SIZE, SIZE: SIZE - 1}, SIZE),
        ({0: 0, SIZE: SIZE}, 0),
        ({0: SIZE, 2 * SIZE: SIZE}, 2 * SIZE),
        ({100: SIZE}, 100),
    ],
    ids=["wrong size", "empty but not last", "gap", "not at a multiple"],
)
def test_a_directory_that_is_no_log_is_refused_by_the_name_of_the_file(tmp_path, files, culprit):
    for base, size in files.items():
        create_sparse(str(tmp_path / segment_name(base)), size)
    with pytest.raises(StoreFormatError) as caught:
        list_segments(str(tmp_path), SIZE)
    assert caught.value.path == str(tmp_path / segment_name(culprit))


@pytest.mark.parametrize("name", ["0", "0000000000000000000x", "00000000000000000000.bak", "\u0660" * 20])
def test_a_foreign_name_is_refused(tmp_path, name):
    create_sparse(str(tmp_path / name), SIZE)
    with pytest.raises(StoreFormatError):
        list_segments(str(tmp_path), SIZE)


def test_what_is_written_shows_in_the_map(tmp_path):
    segment = make(tmp_path, 0, b"hello")
    assert bytes(segment.map[:6]) == b"hello\0"
    assert segment.close()


def test_a_map_of_another_size_is_refused(tmp_path):
    create_sparse(str(tmp_path / "file"), SIZE)
    with pytest.raises(StoreFormatError):
        MappedFile(str(tmp_path / "file"), 2 * SIZE)


def test_a_view_pins_the_map_and_new_readers_find_nothing(tmp_path):
    segment = make(tmp_path, 0, b"kept")
    view = segment.map[:4]
    assert not segment.close()
    assert len(segment.map) == 0
    assert bytes(view) == b"kept"
    assert not segment.unmap()
    view.release()
    assert segment.unmap()
    assert segment.unmap()


def test_a_writable_map_reaches_the_file(tmp_path):
    path = str(tmp_path / "index")
    create_allocated(path, SIZE)
    file = MappedFile(path, SIZE, writable=True)
    file.populate(0, SIZE, writing=True)
    file.map[100:103] = b"abc"
    os.fdatasync(file.open_fd())
    assert file.close()
    with open(path, "rb") as plain:
        assert plain.read()[100:103] == b"abc"


def test_populating_changes_no_byte(tmp_path):
    segment = make(tmp_path, 0, b"x" * SIZE)
    segment.populate(0, SIZE)
    assert bytes(segment.map) == b"x" * SIZE
    segment.close()


@pytest.mark.skipif(sys.platform != "linux", reason="what a platform does with a lost page is its own")
def test_pages_that_are_not_to_be_had_are_told_and_not_touched(tmp_path):
    """The nearest thing to an unreadable sector: the file was cut short under its map, and a touch behind its end is SIGBUS."""
    segment = make(tmp_path, 0, b"x" * SIZE)
    os.truncate(segment.path, 4096)
    assert page_in(segment.map[100:4096])
    assert page_in(segment.map[:0])
    for begin, end in ((0, 4097), (4096, 4097), (5000, SIZE)):
        assert not page_in(segment.map[begin:end])
    assert bytes(segment.map[:4096]) == b"x" * 4096
    segment.close()


def test_an_allocation_that_fails_leaves_no_file_behind(tmp_path):
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError):
        create_allocated(str(tmp_path / "file"), SIZE, Disk(fallocate=full))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreNotWriteable),
        (errno.EDQUOT, StoreNotWriteable),
        (errno.EMFILE, StoreNotWriteable),
        (errno.EIO, StorePoisoned),
        (errno.EROFS, StorePoisoned),
    ],
)
def test_what_a_failed_allocation_means(number, expected):
    assert type(disk_error(OSError(number, os.strerror(number)), "allocating")) is expected


def test_a_full_disk_is_told_with_what_did_not_fit():
    error = disk_error(OSError(errno.ENOSPC, "No space"), "allocating /s/commitlog/0, 65536 bytes")
    assert "disk full: free space, then writes go on by themselves (allocating /s/commitlog/0, 65536 bytes)" in str(
        error
    )


@pytest.mark.parametrize(("begin", "end"), [(0, SIZE), (1, SIZE), (5000, 9000), (4096, 8192), (7, 7), (SIZE - 1, SIZE)])
def test_wiping_zeroes_exactly_its_range(tmp_path, begin, end):
    segment = make(tmp_path, 0, b"x" * SIZE)
    segment.wipe(begin, end)
    assert bytes(segment.map) == b"x" * begin + bytes(end - begin) + b"x" * (SIZE - end)
    segment.close()


def test_wiping_writes_nothing_where_there_are_zeros_already(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("zenitmq.store.log.segment.write_fully", lambda fd, data, at: written.append((at, len(data))))
    segment = make(tmp_path, 0)
    segment.wipe(0, SIZE)
    os.pwrite(segment.fd, b"x", 100)
    segment.wipe(101, SIZE)
    assert written == []
    segment.wipe(100, SIZE)
    assert [at for at, _ in written] == [100]
    segment.close()


def test_what_cannot_be_read_is_wiped_by_writing_over_it(tmp_path, monkeypatch):
    def unreadable(fd: int, size: int, at: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    segment = make(tmp_path, 0, b"x" * SIZE)
    monkeypatch.setattr(os, "pread", unreadable)
    segment.wipe(100, SIZE)
    monkeypatch.undo()
    assert bytes(segment.map) == b"x" * 100 + bytes(SIZE - 100)
    segment.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_private_memory_is_taken_page_by_page_and_goes_back_with_its_last_view():
    def anonymous_kib() -> int:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

    size = 64 << 20
    before = anonymous_kib()
    memory = private_memory(size)
    assert anonymous_kib() - before < size >> 11
    assert bytes(memory[-8:]) == bytes(8)
    memory[:] = b"x" * size
    assert anonymous_kib() - before > size >> 11
    part = memory[:1]
    del memory
    assert bytes(part) == b"x"
    del part
    assert anonymous_kib() - before < size >> 11


@pytest.mark.parametrize("content", [b"x", bytes(1)], ids=["written", "blank"])
def test_a_range_is_wiped_in_little_memory(tmp_path, content):
    """A broker's heap keeps what its opening needed once."""
    path, size = tmp_path / "file", 16 << 20
    path.write_bytes(content * size)
    fd = os.open(path, os.O_RDWR)
    tracemalloc.start()
    try:
        wipe_range(fd, 5, size - 5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
        os.close(fd)
    assert path.read_bytes() == content * 5 + bytes(size - 10) + content * 5
