"""Bits that rot in the log of one replica of a running group."""

from __future__ import annotations

import pytest

from zenitmq.deploy.drills.faults.bit_rot import RECORDS

from .one_fault import drilled_run
from .test_drill_runs import needs_zookeeper, work

__all__ = ["work"]

pytestmark = [needs_zookeeper, pytest.mark.timeout(300), pytest.mark.usefixtures("work")]


def test_bits_that_rot_at_one_replica_are_found_and_mended() -> None:
    run, fault = drilled_run("bit-rot")
    assert run["bits_turned"] == RECORDS
    assert 0 < run["ranges_found"] <= RECORDS
    assert 0 < run["ranges_mended"] <= RECORDS, "an append is fetched once, however many of its records are rotten"
    assert fault["gap_while_held_ms"] < fault["held_ms"], "writes went on while bits were rotten"
