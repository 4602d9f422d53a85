"""A drill waits for replicas as long as they come nearer, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.drills.drilled_cluster import DrilledCluster
from zenitmq.deploy.drills.process_servers import ProcessServers
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import RequestTimeout


def replica(name: str, role: str, written: int) -> dict[str, Any]:
    return {"name": name, "role": role, "written_offset": written, "confirm_offset": written}


class Watched(DrilledCluster):
    """Two replicas, of which one lacks `lag(milliseconds since the start)` bytes."""

    def __init__(self, directory: Path, lag: Callable[[int], int]) -> None:
        super().__init__(ProcessServers(str(directory), replicas=2), replicas=2)
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


class OfNoController(Watched):
    """The same, until 200 ms have passed without a leading controller: who is in sync is not known."""

    def all_groups(self) -> list[dict[str, Any]]:
        (group,) = super().all_groups()
        unknown = monotonic_ms() - self._begin_ms < 200
        return [{**group, "in_sync": None}] if unknown else [group]


def test_replicas_are_waited_for_while_no_controller_leads(tmp_path: Path) -> None:
    OfNoController(tmp_path, lambda since_ms: 1 if since_ms < 200 else 0).wait_healthy(timeout_ms=5_000)


def test_a_wait_without_a_leading_controller_says_so(tmp_path: Path) -> None:
    with pytest.raises(RequestTimeout, match="in sync not known"):
        OfNoController(tmp_path, lambda _: 1).wait_healthy(timeout_ms=100)
