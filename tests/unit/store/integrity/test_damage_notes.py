"""Damage is written down where there is room; where there is none the store goes on with what this process knows."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from store_kit import make_store, message, put

from zenitmq.store.integrity import damage


def test_a_full_disk_is_no_failed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with make_store(tmp_path / "s") as store:
        placed = put(store, "t", 0, message("t", b"body"))
        store.flush_all(20_000)
        with monkeypatch.context() as full:
            full.setattr(damage, "note_quarantine", refuse)
            store.damage.add(placed.physical_offset, placed.end, "test")
            store._upkeep.run_in_worker(lambda: None).result(20)  # behind the note
        assert not store.is_poisoned
        assert store.damage.quarantine.ranges == ((placed.physical_offset, placed.end),)
        put(store, "t", 0, message("t", b"more"))
