"""ZooKeeper that lost a group or was set back, with an operator who restores it."""

from __future__ import annotations

import pytest

from .one_fault import drilled
from .test_drill_runs import needs_zookeeper, work

__all__ = ["work"]

pytestmark = [needs_zookeeper, pytest.mark.timeout(300), pytest.mark.usefixtures("work")]


def test_a_group_whose_zookeeper_was_emptied_goes_on_and_is_restored() -> None:
    fault = drilled("zookeeper-emptied")
    assert fault["gap_while_held_ms"] < fault["held_ms"], "writes went on while nobody knew the group"


def test_a_group_whose_zookeeper_was_set_back_goes_on_and_is_restored() -> None:
    fault = drilled("zookeeper-set-back")
    assert fault["gap_while_held_ms"] < fault["held_ms"], "writes went on while an old node was there"


def test_a_wiped_replica_that_registers_first_does_not_found_the_group() -> None:
    drilled("wiped-first")
