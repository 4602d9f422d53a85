"""Who is asked and is not meant refuses, whatever address the question came by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zenitmq.broker.group.replica_question import check_question, question_stamp
from zenitmq.model.errors import OtherReplicaMeant, StaleEpoch, UnknownReplica, ZenitError
from zenitmq.model.groups.group import GroupNode, Incarnation, Replica
from zenitmq.remoting.commands import GetBeginning

MASTER, SLAVE = "store-m", "store-s"
NODE = GroupNode(
    broker_name="g",
    group_id="id-1",
    epoch=4,
    master="m",
    master_incarnation=Incarnation(MASTER, 2),
    in_sync=("m",),
    replicas=(
        Replica("m", "m:1", "m:2", Incarnation(MASTER, 2)),
        Replica("s", "s:1", "s:2", Incarnation(SLAVE, 7)),
    ),
)
QUESTION = GetBeginning(*question_stamp(NODE, SLAVE))


def test_a_question_names_both_stores_the_group_and_the_epoch() -> None:
    assert GetBeginning(group_id="id-1", epoch=4, store_id=SLAVE, asked_store_id=MASTER) == QUESTION
    check_question(QUESTION, NODE, MASTER)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"group_id": "id-2"}, OtherReplicaMeant),
        ({"group_id": ""}, OtherReplicaMeant),
        ({"asked_store_id": "store-x"}, OtherReplicaMeant),
        ({"epoch": 3}, StaleEpoch),
        ({"epoch": 5}, StaleEpoch),
        ({"store_id": "store-x"}, UnknownReplica),
    ],
)
def test_who_is_not_meant_refuses(changed: dict[str, Any], error: type[ZenitError]) -> None:
    with pytest.raises(error):
        check_question(replace(QUESTION, **changed), NODE, MASTER)


def test_a_node_that_has_no_master_is_nobodys_question() -> None:
    stamp = question_stamp(replace(NODE, master=None, master_incarnation=None), SLAVE)
    assert stamp.asked_store_id == ""
    with pytest.raises(OtherReplicaMeant):
        check_question(GetBeginning(*stamp), NODE, MASTER)
