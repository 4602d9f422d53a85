"""What a drill leaves behind: nothing, where it could not begin."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from zenitmq.deploy.drills.run import DrillOptions, run
from zenitmq.model.errors import NoCluster


def test_a_drill_at_no_cluster_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    with pytest.raises(NoCluster):
        run(DrillOptions(drill="kill-master", directory=str(tmp_path / "nix")), lambda _: None)
    assert not list(work.iterdir())
