"""A drill waits for replicas as long as they come nearer, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.drills.drilled_cluster import DrilledCluster
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import RequestTimeout


def replica(name: str, role: str, written: int) -> dict[str, Any]:
    return {"name": name, "role": role, "written_offset": written, "confirm_offset": written}


class Watched(DrilledCluster):
    """Two replicas, of which one lacks `lag(milliseconds since the start)` bytes."""

    def __init__(self, directory: Path, lag: Callable[[int], int]) -> None:
        super().__init__(str(directory), replicas=2)
        self._lag = lag
        self._begin_ms = monotonic_ms()

    def all_groups(self) -> list[dict[str, Any]]:
        lag = self._lag(monotonic_ms() - self._begin_ms)
        group = {
            "broker_name": "a",
            "master": "a-1",
            "in_sync": ["a-1"] if lag else ["a-1", "a-2"],
            "replicas": [replica("a-1", "master", 10_000), replica("a-2", "slave", 10_000 - lag)],
        }
        return [group]


def test_one_that_comes_nearer_is_waited_for(tmp_path: Path) -> None:
    Watched(tmp_path, lambda since_ms: max(0, 10_000 - 5 * since_ms)).wait_healthy(timeout_ms=700)


@pytest.mark.parametrize("lag", [5_000, 1])
def test_one_that_does_not_is_not(tmp_path: Path, lag: int) -> None:
    with pytest.raises(RequestTimeout, match="every replica is in sync"):
        Watched(tmp_path, lambda _: lag).wait_healthy(timeout_ms=300)
