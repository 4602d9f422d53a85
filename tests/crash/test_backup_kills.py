"""A backup is killed at each call to its target: what the manifest says is true all the same, and the next run goes on."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from backup_kit import GROUP, FailingTarget, Killed, back_up, backup_of, bodies_of, grow, restored

from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.manifest import MANIFEST
from zenitmq.deploy.backup.verify import find_damage, read_manifest_of
from zenitmq.model.errors import BackupTargetFailed

OFTEN = {"point_ms": 0, "keep_bytes": 2 * 4096}


def is_true(target: DirectoryTarget) -> bool:
    """What the manifest says, if there is one, is there."""
    if target.read(f"{GROUP}/{MANIFEST}") is None:
        return True
    return not find_damage(target, f"{GROUP}/", read_manifest_of(target, GROUP))


@pytest.fixture(autouse=True)
def no_power_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only processes die here: nothing needs to reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda _fd: None)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_each_call(tmp_path: Path, after: bool) -> None:
    """The second run: it replaces a tail, closes segments, uploads state and forgets what is too old."""
    store, base = tmp_path / "store", tmp_path / "base"
    base.mkdir()
    grow(store, 14)
    back_up(store, base, **OFTEN)
    bodies = grow(store, 20, first=14)
    for at in count():
        place = tmp_path / f"target-{at}"
        shutil.copytree(base, place)
        target = DirectoryTarget(str(place))
        failing = FailingTarget(target, Killed, at, after=after)
        try:
            backup_of(store, failing, **OFTEN).run(with_tail=True)
        except Killed:
            assert is_true(target), f"call {at}, {failing.calls[-1]}"
        else:
            break
        assert back_up(store, target, **OFTEN).lag_bytes == 0
        assert is_true(target), f"the run after call {at}"
    assert {"put", "replace", "delete", "read", "list", "get"} <= set(failing.calls)
    restored(place, tmp_path / "made")
    found = bodies_of(tmp_path / "made")
    assert 0 < len(found) < len(bodies)
    assert found == bodies[-len(found) :]


def test_one_backup_goes_on_after_each_failed_call(tmp_path: Path) -> None:
    """The same process, as with --follow: it reads the manifest again, and loses no count."""
    store, place = tmp_path / "store", tmp_path / "target"
    place.mkdir()
    bodies = grow(store, 40)
    target = FailingTarget(DirectoryTarget(str(place)), lambda: BackupTargetFailed("target", "no route"))
    backup = backup_of(store, target)
    failed = 0
    while True:
        target.at, target.calls = failed, []
        try:
            backup.run(with_tail=True)
            break
        except BackupTargetFailed:
            failed += 1
    assert failed > 1
    restored(place, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies
