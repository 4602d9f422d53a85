"""Checks that a request between replicas has reached the replica that it names (design rule R14).

A replica sends requests to the address in the group's node. Another broker may have that address by now: one of another
cluster, or another store of the same name. So each request names the group's id, the epoch, and both stores, and a
broker refuses requests for others. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from ...model.errors import OtherReplicaMeant, StaleEpoch, UnknownReplica
from ...model.groups.group import GroupNode, Incarnation
from ...remoting.commands import ReplicaQuestion


class QuestionStamp(NamedTuple):
    """The first fields of every `ReplicaQuestion`, in their order: `GetBeginning(*stamp)`."""

    group_id: str
    epoch: int
    store_id: str
    asked_store_id: str


def question_stamp(node: GroupNode, store_id: str) -> QuestionStamp:
    """For a request of the replica with this store to the master that `node` names."""
    return question_stamp_for(node.master_incarnation, node, store_id)


def question_stamp_for(asked: Incarnation | None, node: GroupNode, store_id: str) -> QuestionStamp:
    """For a request to the replica with this incarnation."""
    return QuestionStamp(node.group_id, node.epoch, store_id, "" if asked is None else asked.store_id)


def check_question(question: ReplicaQuestion, node: GroupNode, store_id: str) -> None:
    """Checks a request to a broker of the group `node`, with this store. Raises OtherReplicaMeant, StaleEpoch,
    UnknownReplica."""
    if (question.group_id, question.asked_store_id) != (node.group_id, store_id):
        raise OtherReplicaMeant(
            node.broker_name, question.group_id[:64], question.asked_store_id[:64], node.group_id, store_id
        )
    if question.epoch != node.epoch:
        raise StaleEpoch(node.broker_name, question.epoch, node.epoch)
    if all(replica.incarnation.store_id != question.store_id for replica in node.replicas):
        raise UnknownReplica(node.broker_name, question.store_id[:64])
