"""A short drill of one fault at a group of three, which must hold all that it promises."""

from __future__ import annotations

from typing import Any

from zenitmq.deploy.drills.run import DrillOptions, run


def drilled(name: str) -> dict[str, Any]:
    """The one fault of the drill, after everything held."""
    return drilled_run(name)[1]


def drilled_run(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one run of the drill and its one fault, after everything held."""
    document = run(DrillOptions(drill=name, rate=400.0, seconds=4, replicas=3, controllers=1))
    assert document["passed"], document
    (only,) = document["runs"]
    assert only["acknowledged"] > 1_000
    (fault,) = only["faults"]
    assert isinstance(fault, dict)
    return only, fault
