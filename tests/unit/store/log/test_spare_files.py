"""Expired files that are kept blank: in which order the disk hears of it, how many, and what an earlier process left."""

import errno
import os

import pytest

from zenitmq.store.log import spare_files
from zenitmq.store.log.spare_files import SpareFiles

SIZE = 600_000


def open_spares(tmp_path, **options) -> SpareFiles:
    return SpareFiles(
        str(tmp_path / "spare"), **{"size_bytes": SIZE, "blank_bytes": SIZE, "bytes_max": 2 * SIZE, **options}
    )


def expired(tmp_path, name: str = "old") -> str:
    path = tmp_path / "queue" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\xff" * SIZE)
    return str(path)


@pytest.mark.parametrize("blank", [40, 262_144, 500_000, SIZE])
def test_a_file_comes_back_blank_at_its_front(tmp_path, blank: int) -> None:
    spares = open_spares(tmp_path, blank_bytes=blank)
    old = expired(tmp_path)
    inode = os.stat(old).st_ino
    spares.keep(old)
    assert not os.path.exists(old)
    assert len(spares) == 1
    new = tmp_path / "new"
    assert spares.take(str(new))
    assert new.stat().st_ino == inode
    assert new.read_bytes() == bytes(blank) + b"\xff" * (SIZE - blank)
    assert not spares.take(str(tmp_path / "another"))
    assert os.listdir(tmp_path / "spare") == []


def test_it_can_be_taken_only_once_it_is_blank_for_certain(tmp_path, monkeypatch) -> None:
    """Its old name is gone for certain before its first zero, and its last zero is on the disk before it is ready."""
    told = []
    spares = open_spares(tmp_path)
    monkeypatch.setattr(spare_files, "sync_directory", lambda path: told.append(("directory", os.path.basename(path))))
    write_fully, fdatasync = spare_files.write_fully, os.fdatasync

    def write(fd: int, data: memoryview, at: int) -> None:
        told.append(("zeros", at))
        write_fully(fd, data, at)

    def sync(fd: int) -> None:
        told.append(("sync", len(spares)))
        fdatasync(fd)

    monkeypatch.setattr(spare_files, "write_fully", write)
    monkeypatch.setattr(os, "fdatasync", sync)
    work = []
    spares.run_soon = work.append
    spares.keep(expired(tmp_path))
    assert not told  # the loop's part is a rename
    assert not spares.take(str(tmp_path / "new"))
    work.pop()()
    assert told == [("directory", "queue"), ("zeros", 0), ("zeros", 262_144), ("zeros", 524_288), ("sync", 0)]
    assert spares.take(str(tmp_path / "new"))


@pytest.mark.parametrize(("bytes_max", "kept"), [(0, 0), (1, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2)])
def test_what_is_too_many_is_deleted(tmp_path, bytes_max: int, kept: int) -> None:
    spares = open_spares(tmp_path, bytes_max=bytes_max)
    for number in range(4):
        spares.keep(expired(tmp_path, str(number)))
    assert len(spares) == len(os.listdir(tmp_path / "spare")) == kept
    assert os.listdir(tmp_path / "queue") == []


def test_one_whose_old_directory_went_meanwhile_is_deleted(tmp_path) -> None:
    """Its topic was set aside, and may come back: the file must not be found there with units of another queue."""
    spares = open_spares(tmp_path)
    work = []
    spares.run_soon = work.append
    spares.keep(expired(tmp_path))
    (tmp_path / "queue").rename(tmp_path / "aside")
    work.pop()()
    assert not spares.take(str(tmp_path / "new"))
    assert os.listdir(tmp_path / "spare") == []


def test_what_an_earlier_process_kept_is_deleted(tmp_path) -> None:
    """It may be one that was taken, and written to, and whose new name a power cut took."""
    open_spares(tmp_path).keep(expired(tmp_path))
    assert len(open_spares(tmp_path)) == 0
    assert os.listdir(tmp_path / "spare") == []


def test_a_disk_without_room_for_zeros_costs_the_file_and_a_broken_one_is_told(tmp_path, monkeypatch) -> None:
    def refuse(code: int):
        def write(fd: int, data: memoryview, at: int) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(spare_files, "write_fully", write)

    spares = open_spares(tmp_path)
    refuse(errno.ENOSPC)
    spares.keep(expired(tmp_path))
    assert os.listdir(tmp_path / "spare") == []
    refuse(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        spares.keep(expired(tmp_path))
    assert not spares.take(str(tmp_path / "new"))
