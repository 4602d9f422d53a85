"""Why a replica is not ready, in each role."""

from __future__ import annotations

import pytest

from zenitmq.broker.metrics.replica_status import (
    NO_CONTROLLER,
    NO_MASTER,
    NOT_CONFIRMED,
    NOT_IN_SYNC,
    NOT_MEMBER,
    TOO_FEW,
    ReplicaStatus,
    reasons_not_ready,
)
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup

NODE = KnownGroup(GroupNode(broker_name="broker-a", settings=GroupSettings(), in_sync=("a", "b")), 3)


@pytest.mark.parametrize(
    ("name", "role", "known", "facts", "reasons"),
    [
        ("a", "master", NODE, {}, ()),
        ("a", "master", NODE, {"serves_state": False}, (NOT_CONFIRMED,)),
        ("a", "master", NODE, {"takes_writes": False}, (TOO_FEW,)),
        ("b", "slave", NODE, {"serves_state": False, "takes_writes": False}, ()),
        ("c", "slave", NODE, {}, (NOT_IN_SYNC,)),
        ("b", "candidate", NODE, {}, (NO_MASTER,)),
        ("b", "candidate", None, {"is_linked": False}, (NO_CONTROLLER, NOT_MEMBER)),
        ("b", "slave", NODE, {"halted": "its log is cut"}, ("halted: its log is cut",)),
        ("a", "master", NODE, {"drain": "holding", "takes_writes": False}, ("drains: holding",)),
        ("b", "slave", NODE, {"drain": "drained", "is_linked": False}, (NO_CONTROLLER, "drains: drained")),
    ],
)
def test_each_reason_is_named(
    name: str, role: str, known: KnownGroup | None, facts: dict[str, object], reasons: tuple[str, ...]
) -> None:
    given = {"is_linked": True, "halted": None, "serves_state": True, "takes_writes": True} | facts
    assert reasons_not_ready(name, role, known, **given) == reasons  # type: ignore[arg-type]


def test_only_a_master_leads() -> None:
    assert ReplicaStatus("master", 1).is_master
    assert not ReplicaStatus("slave", 1).is_master
