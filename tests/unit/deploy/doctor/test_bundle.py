"""The archive of `zenit debug bundle`, without a cluster: what stays readable, and what is no log."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from zenitmq.deploy.doctor import bundle
from zenitmq.deploy.doctor.bundle import Bundle, write_bundle
from zenitmq.model.errors import InvalidParameter

NOBODY = "127.0.0.1:9"


def written(path: Path, logs: Path | None) -> dict[str, str]:
    write_bundle(str(path), NOBODY, [], log_directory=None if logs is None else str(logs), told=lambda _: None)
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def _without_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_add_cluster", lambda *_: None)


def test_a_masked_document_is_still_one(tmp_path: Path) -> None:
    document = {
        "password": "x",
        "token_count": 5,
        "limits": [{"tokens": ["a"], "secret": {"of": "b"}}],
        "text": "pwd=c d",
    }
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        Bundle(archive, "a", lambda _: None).add_document("it.json", lambda: document)
    with tarfile.open(path) as archive:
        file = archive.extractfile("a/it.json")
        assert file is not None
        assert json.loads(file.read()) == {
            "password": "***",
            "token_count": 5,
            "limits": [{"tokens": ["***"], "secret": {"of": "***"}}],
            "text": "pwd=*** d",
        }


def test_of_logs_it_has_whole_lines_of_files_that_are_logs(tmp_path: Path) -> None:
    logs = tmp_path / "log"
    logs.mkdir()
    (logs / "long.log").write_text("password=" + "x" * 20 + "hunter2\n" + "a line\n" * (bundle.LOG_BYTES_MAX // 7 - 1))
    (tmp_path / "private").write_text("none of theirs")
    (logs / "link.log").symlink_to(tmp_path / "private")
    os.mkfifo(logs / "pipe.log")
    (logs / "folder").mkdir()
    parts = written(tmp_path / "b.tar.gz", logs)
    assert [name for name in parts if "/logs/" in name] == ["b/logs/long.log"]
    assert "hunter2" not in parts["b/logs/long.log"]
    assert parts["b/logs/long.log"].startswith("a line\n")


def test_what_an_earlier_one_left_behind_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.tar.gz.tmp").touch()
    with pytest.raises(InvalidParameter, match=r"c\.tar\.gz\.tmp"):
        written(tmp_path / "c.tar.gz", None)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """Without a directory of logs the archive had none, and nothing said so."""
    told: list[str] = []
    path, logs = tmp_path / "c.tar.gz", tmp_path / "nowhere"
    write_bundle(str(path), NOBODY, [], log_directory=str(logs), told=told.append)
    why = f"there is no directory {logs}"
    assert f"logs is missing: {why}" in told
    with tarfile.open(path) as archive:
        failed = archive.extractfile("c/failed.json")
        assert failed is not None
        assert json.loads(failed.read()) == {"logs": why}


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as raised:
        written(tmp_path / "missing" / "d.tar.gz", None)
    assert ".tmp" not in str(raised.value)
