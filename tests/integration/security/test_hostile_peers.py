"""Hostile input at every port of a secured group: `hostile_peers` in small. The figures are of its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.cli.bench.hostile_peers import run


def test_nothing_gives_way_and_nothing_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ZENIT_KEY", raising=False)
    found = run(str(tmp_path), 4000, 7)
    assert sum(found["connections"].values()) == 2000
    assert set(found["connections"]) == {"random", "commands", "handshake"}
    assert found["answered"] > 0, "frames reached the servers"
