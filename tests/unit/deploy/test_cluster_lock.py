"""Who waits for another `up` or `down` does so with a deadline."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from zenitmq.deploy import local_cluster
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.model.errors import ClusterNotStarted


@pytest.mark.timeout(20)
def test_a_lock_that_is_never_given_back_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "LOCK_WAIT_MS", 50, raising=False)
    with (tmp_path / "cluster.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ClusterNotStarted, match=r"cluster\.lock"):
            ProcessCluster(str(tmp_path)).up()
