"""Small text files of a cluster."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zenitmq.deploy.text_file import write_text


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cluster.json"
    write_text(str(path), "one")
    write_text(str(path), "two")
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["cluster.json"]


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.json"
    write_text(str(path), "one")

    def replace(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as a write says it, without a name

    monkeypatch.setattr("os.replace", replace)
    with pytest.raises(OSError, match="No space") as full:
        write_text(str(path), "two")
    assert (full.value.filename, os.listdir(tmp_path)) == (str(path), ["cluster.json"])
    assert path.read_text() == "one"


def test_a_file_of_the_present_directory_is_named_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `zenit key rotate namesrv-1.key --trusted trusted.toml` does."""
    monkeypatch.chdir(tmp_path)
    write_text("trusted.toml", "x")
    assert (tmp_path / "trusted.toml").read_text() == "x"
