"""A small file holds the old content or the new one, never a part, whatever ends the replacing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zenitmq.store.opening import small_file
from zenitmq.store.opening.small_file import SYSTEM_FILES


def test_what_was_replaced_is_read_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert SYSTEM_FILES.read(path, 10) is None
    SYSTEM_FILES.replace(path, b"first")
    SYSTEM_FILES.replace(path, b"second one")
    assert SYSTEM_FILES.read(path, 100) == b"second one"
    assert SYSTEM_FILES.read(path, 6) == b"second"
    SYSTEM_FILES.remove(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = str(tmp_path / "f")
    SYSTEM_FILES.replace(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space"):
        SYSTEM_FILES.replace(path, b"new")
    assert SYSTEM_FILES.read(path, 10) == b"old"


def test_the_directory_is_synced_once_the_name_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "f")
    seen: list[bytes | None] = []
    monkeypatch.setattr(small_file, "sync_directory", lambda _: seen.append(SYSTEM_FILES.read(path, 10)))
    SYSTEM_FILES.replace(path, b"new")
    SYSTEM_FILES.remove(path)
    assert seen == [b"new", None]
