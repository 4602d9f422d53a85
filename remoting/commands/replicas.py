"""Requests between the replicas of a group. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .base import JsonReply, Lane, Reply, Request, RequestFor, ServedBy, request
from .rights import Action, on_cluster


@dataclass(frozen=True, slots=True)
class ReplicaQuestion(Request):
    """What every question from one replica to another names, so that only the one that is meant answers.

    `group_id`: of the group's node ("" where a static master is the controller). `epoch`: of the term that the asker knows.
    `store_id`: the asker's store; `asked_store_id`: the store of the replica that is asked. Whoever is not that one, in that
    epoch, of that group refuses: StaleEpoch, OtherReplicaMeant, UnknownReplica; what only a master answers, NotMaster too.
    """

    group_id: str
    epoch: int
    store_id: str
    asked_store_id: str


@request(9006, Lane.ADMIN, served_by=ServedBy.MASTER, needs=(on_cluster(Action.SERVE),))
@dataclass(frozen=True, slots=True)
class GetBeginning(ReplicaQuestion, RequestFor[JsonReply]):
    """What a log that begins at the master's own begin must know (broker/replication/beginning):
    {"begin", "epochs", "snapshots", "queue_minimums"}."""


@dataclass(frozen=True, slots=True)
class LogRangeReply(Reply):
    """Payload: the bytes. `crc`: their CRC-32. `is_whole`: they agree with the checksums of who sends them; else they are
    damaged, though perhaps elsewhere than at the asker."""

    crc: int
    is_whole: bool = True


@request(9008, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.SERVE),))
@dataclass(frozen=True, slots=True)
class GetLogRange(ReplicaQuestion, RequestFor[LogRangeReply]):
    """The bytes [begin, end) of the commit log, which are damaged at the asker: whole appends or records of one file, below the
    confirm offset. The one that is asked holds them to its own checksums first. Refused with CorruptRecordError where its disk
    does not give them, OffsetOutOfRange where they have expired, BrokerBusy where they are not confirmed there yet."""

    begin: int
    end: int
