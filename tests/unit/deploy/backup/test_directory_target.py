"""A directory as a target: what it refuses, each with the remedy, and that nothing half written counts."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.model.errors import BackupConflict, BackupDamaged, BackupTargetFailed


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    target = DirectoryTarget(str(tmp_path / "none"))
    for work in (lambda: target.read("m"), lambda: target.list("log/"), lambda: target.put("log/a", [b"x"])):
        with pytest.raises(BackupTargetFailed, match="make it, or mount what belongs there"):
            work()
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(BackupTargetFailed, match="name a directory"):
        DirectoryTarget(str(tmp_path / "file")).read("m")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free space there"), (errno.EACCES, "the right to write"), (errno.EIO, "that disk")],
)
def test_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str) -> None:
    target = DirectoryTarget(str(tmp_path))
    version = target.replace("m", b"old", None)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("zenitmq.deploy.backup.directory_target.write_fully", refuse)
        with pytest.raises(BackupTargetFailed, match=remedy):
            target.put("log/a", [b"x"])
        with pytest.raises(BackupTargetFailed, match=remedy):
            target.replace("m", b"new", version)
    assert target.list("log/") == []
    assert target.read("m") == (b"old", version)


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError

    target = DirectoryTarget(str(tmp_path))
    with pytest.raises(RuntimeError):
        target.put("log/a", broken())
    assert target.list("log/") == []


def test_the_manifest_has_one_writer(tmp_path: Path) -> None:
    target = DirectoryTarget(str(tmp_path))
    assert target.read("a/m") is None
    first = target.replace("a/m", b"one", None)
    with pytest.raises(BackupConflict):
        target.replace("a/m", b"two", None)
    second = target.replace("a/m", b"two", first)
    with pytest.raises(BackupConflict):
        target.replace("a/m", b"three", first)
    assert target.read("a/m") == (b"two", second)


def test_ranges_and_what_is_missing(tmp_path: Path) -> None:
    target = DirectoryTarget(str(tmp_path))
    target.put("log/a", [b"ab", b"cd"])
    assert target.get("log/a", 1, 3) == b"bc"
    with pytest.raises(BackupDamaged, match="log/a ends at byte 4"):
        target.get("log/a", 1, 9)
    with pytest.raises(BackupDamaged, match="log/b is missing"):
        target.get("log/b", 0, 1)
    target.delete("log/a")
    target.delete("log/a")
    assert target.list("log/") == []
