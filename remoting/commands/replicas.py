"""Requests between the replicas of a group. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import as_replica
from .base import JsonReply, Lane, Reply, Request, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class ReplicaQuestion(Request):
    """The common fields of every question from one replica to another, so that only the intended one answers.

    `group_id`: of the group's node ("" if a static master is the controller). `epoch`: of the term that the sender knows.
    `store_id`: the sender's store; `asked_store_id`: the receiver's store. A replica that does not match refuses:
    StaleEpoch, OtherReplicaMeant, UnknownReplica; for questions that only a master answers, NotMaster too.
    """

    group_id: str
    epoch: int
    store_id: str
    asked_store_id: str


@request(9006, Lane.ADMIN, served_by=ServedBy.MASTER, needs=(as_replica(""),))
@dataclass(frozen=True, slots=True)
class GetBeginning(ReplicaQuestion, RequestFor[JsonReply]):
    """What a slave needs to begin its log at the master's own begin (broker/replication/beginning): {"begin", "epochs",
    "snapshots", "queue_minimums"}.
    """


@dataclass(frozen=True, slots=True)
class LogRangeReply(Reply):
    """Payload: the bytes.

    `crc`: their CRC-32. `is_whole`: they match the sender's checksums; if not they are damaged there too, though perhaps in
    other places.
    """

    crc: int
    is_whole: bool = True


@request(9149, Lane.ADMIN, served_by=ServedBy.MASTER, needs=(as_replica(""),))
@dataclass(frozen=True, slots=True)
class GetCompactedFiles(ReplicaQuestion, RequestFor[JsonReply]):
    """What of compacted topics the master's log may no longer have, for a slave that begins anew: {"queues": [[topic, queue id,
    manifest as in its file], ...]}."""


@request(9150, Lane.QUERY, served_by=ServedBy.MASTER, needs=(as_replica(""),))
@dataclass(frozen=True, slots=True)
class GetCompactedRange(ReplicaQuestion, RequestFor[LogRangeReply]):
    """Up to a MiB of compacted file `number` of a queue, from byte `begin` on. MessageNotFound if it has been merged since."""

    topic: str
    queue_id: int
    number: int
    begin: int


@request(9152, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(as_replica(""),))
@dataclass(frozen=True, slots=True)
class GetCompactedRecord(ReplicaQuestion, RequestFor[LogRangeReply]):
    """The record at a queue offset of a compacted topic, which has rotted in the sender's compacted files: from the receiver's
    files, or from the place in the log where it was, if that is still there. MessageNotFound if neither has it."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int


@request(9008, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(as_replica(""),))
@dataclass(frozen=True, slots=True)
class GetLogRange(ReplicaQuestion, RequestFor[LogRangeReply]):
    """The bytes [begin, end) of the commit log, which are damaged at the sender of this request: whole appends or records
    of one file, below the confirm offset. The receiver checks them against its own checksums first. It refuses with
    CorruptRecordError if its disk cannot read them, OffsetOutOfRange if they have expired, BrokerBusy if they are not
    confirmed there yet.
    """

    begin: int
    end: int
