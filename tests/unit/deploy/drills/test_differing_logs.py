"""Logs that are compared while their master may append."""

from __future__ import annotations

import pytest

from zenitmq.deploy.drills import drilled_cluster
from zenitmq.deploy.drills.drilled_cluster import DrilledCluster


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([[]], []),
        ([["a and b differ from 7 on"], []], []),
        ([["a and b differ from 7 on"], ["a and b differ from 9 on"]], []),
        ([["a and b differ from 7 on"], ["a and b differ from 7 on"]], ["a and b differ from 7 on"]),
    ],
    ids=["level", "read one after the other", "appended again", "a difference"],
)
def test_a_difference_is_one_that_stays(
    monkeypatch: pytest.MonkeyPatch, looks: list[list[str]], told: list[str]
) -> None:
    monkeypatch.setattr(drilled_cluster, "LOOK_AGAIN_MS", 1)
    cluster = DrilledCluster.__new__(DrilledCluster)
    left = iter(looks)
    monkeypatch.setattr(cluster, "_differences", lambda: next(left), raising=True)
    assert cluster.differing_logs() == told
    assert list(left) == []
