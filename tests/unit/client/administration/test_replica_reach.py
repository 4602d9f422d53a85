"""Whose answer counts as a replica's when its group is asked how far the logs reach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.client.administration.replica_reach import ask_reaches
from zenitmq.model.groups.group import GroupNode, Incarnation, Replica

OWN: dict[str, Any] = {"replica": "broker-a-2", "group_id": "ours", "role": "slave", "halted": None, "hole_at": None}
OWN |= {"newest_epoch": 4, "newest_begin": 10, "written": 50, "confirm": 40}


class Remoting:
    """One broker, that answers at every address."""

    def __init__(self, replication: dict[str, Any] | None) -> None:
        self.replication = replication

    def call(self, _address: str, _request: object, *, timeout_ms: int) -> tuple[None, bytes]:
        assert timeout_ms == 7
        return None, json.dumps({"replication": self.replication} if self.replication else {}).encode()


@pytest.mark.parametrize(
    ("replication", "is_asked_one"),
    [
        (OWN, True),
        (OWN | {"replica": "broker-a-3"}, False),
        (OWN | {"group_id": "theirs"}, False),  # each `zenit up` names its replicas alike
        (OWN | {"group_id": ""}, False),  # a store that was emptied, and is in no group yet
        (None, False),
    ],
)
def test_who_has_a_replicas_address_is_the_replica_only_in_its_group(
    replication: dict[str, Any] | None, is_asked_one: bool
) -> None:
    """Else an operator who forces a master compares another cluster's log, and takes a replica that is down for compared."""
    node = GroupNode(
        broker_name="broker-a", group_id="ours", replicas=(Replica("broker-a-2", "h:1", "h:2", Incarnation("s", 3)),)
    )
    found = ask_reaches(Remoting(replication), node, timeout_ms=7)  # type: ignore[arg-type]
    assert [(name, reach.log.end, reach.role) for name, reach in found.items()] == (
        [("broker-a-2", 50, "slave")] if is_asked_one else []
    )
