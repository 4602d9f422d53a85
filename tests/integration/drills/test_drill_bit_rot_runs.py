"""Bits that rot in the log of one replica of a running group."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.deploy.drills.run import DrillOptions, run

from .test_drill_runs import needs_zookeeper, work

__all__ = ["work"]

pytestmark = [needs_zookeeper, pytest.mark.timeout(300), pytest.mark.usefixtures("work")]


def drilled(name: str) -> dict[str, Any]:
    """The one fault of the drill, after everything held."""
    document = run(DrillOptions(drill=name, rate=400.0, seconds=4, replicas=3, controllers=1))
    assert document["passed"], document
    (only,) = document["runs"]
    assert only["acknowledged"] > 1_000
    (fault,) = only["faults"]
    assert isinstance(fault, dict)
    return fault


def test_bits_that_rot_at_one_replica_are_found_and_mended() -> None:
    fault = drilled("bit-rot")
    assert fault["gap_while_held_ms"] < 2_000
