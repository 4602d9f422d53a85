"""A short drill of one fault at a group of three, which must hold all that it promises."""

from __future__ import annotations

import os
from typing import Any, Final

from zenitmq.deploy.drills.run import DrillOptions, run
from zenitmq.testing.local_cluster import SECURE_ENVIRONMENT

SECURE: Final = bool(os.environ.get(SECURE_ENVIRONMENT))
"""Whether the drills of this run have secured clusters."""


def drilled(name: str) -> dict[str, Any]:
    """The one fault of the drill, after everything held."""
    return drilled_run(name)[1]


def drilled_run(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one run of the drill and its one fault, after everything held."""
    document = run(DrillOptions(drill=name, rate=400.0, batch=8, seconds=4, replicas=3, controllers=1, secure=SECURE))
    assert document["passed"], document
    (only,) = document["runs"]
    assert only["acknowledged"] > 1_000
    (fault,) = only["faults"]
    assert isinstance(fault, dict)
    return only, fault
