"""Replica groups: a replica asks the master that it follows."""

from __future__ import annotations

from dataclasses import dataclass

from .base import JsonReply, Lane, Request, request


@dataclass(frozen=True, slots=True)
class ReplicaQuestion(Request):
    """What every question from one replica to another names, so that only the one that is meant answers.

    `group_id`: of the group's node ("" where a static master is the controller). `epoch`: of the reign that the asker knows.
    `store_id`: the asker's store; `master_store_id`: the store of the master that is asked. Whoever is not that master, in
    that epoch, of that group refuses: NotMaster, StaleEpoch, OtherReplicaMeant, UnknownReplica.
    """

    group_id: str
    epoch: int
    store_id: str
    master_store_id: str


@request(9006, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetBeginning(ReplicaQuestion):
    """What a log that begins at the master's own begin must know (broker/replication/beginning):
    {"begin", "epochs", "snapshots", "queue_minimums"}."""
