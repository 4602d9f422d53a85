"""Every error we raise, in one small tree that tells the caller what to do.

`code` goes on the wire (RocketMQ's number where it has one, ours begin at 9000); one code is one class, both ways.
Arguments are facts, not a sentence: they are attributes, they travel in the reply, and they survive pickling;
`__str__` renders them. The flags say what may help:

- `retriable`: the same request may succeed later, or at another broker;
- `route_stale`: ask the name server again first.
"""

from __future__ import annotations

import contextlib

from .base import ZenitError
from .calls import (
    BrokerBusy,
    BufferFull,
    ClientClosed,
    ConnectionLost,
    LocalProtocolError,
    NoDescriptors,
    NoPermission,
    NoRoute,
    NotMaster,
    RemoteProtocolError,
    RequestTimeout,
    SystemFault,
    UnknownRequest,
    VersionNotSupported,
    WaitsForItself,
    WrongCluster,
    WrongEventLoop,
)
from .consuming import (
    AllocationConflict,
    DuplicateClient,
    GroupNotFound,
    MessageNotFound,
    NoOrigin,
    OffsetFileFailed,
    OffsetFileInUse,
    OffsetOutOfRange,
    QueueNotOwned,
    SqlSyntaxError,
    SubscriptionConflict,
    TraceDamaged,
    WrongAnswer,
)
from .groups import (
    CutRefused,
    ForeignLog,
    ForeignReplica,
    GroupIdUnclear,
    GroupNodeDamaged,
    GroupNodeLost,
    GroupNotLost,
    IncarnationUnknown,
    MasterStillAlive,
    NotElectable,
    NotGroupMaster,
    NotLeadingController,
    OtherReplicaMeant,
    ReplicaGroupNotFound,
    ReplicaNameTaken,
    ReplicaNeeded,
    ReplicaNotAlive,
    SegmentsDiffer,
    SightingsDamaged,
    StaleEpoch,
    StaleGroupVersion,
    StartCounterBehind,
    StaticMasterBehind,
    TooManyEpochs,
    TooManyLostGroups,
    UnknownReplica,
    ZooKeeperUnavailable,
)
from .jobs import (
    ArchiveDamaged,
    ArchiveNotWritable,
    CheckpointLost,
    JobFailed,
    NoArchive,
    QueryFailed,
    ReplayChanged,
    ReplayElsewhere,
    TargetInUse,
)
from .pipeline import (
    BatchOutdated,
    DamagedMessage,
    DataLost,
    HoldNotFound,
    OffsetsBackwards,
    OffsetsIncomplete,
    OptionRefused,
    QueryOffsetsDiffer,
    QueryOffsetsNotFound,
    RangeUnread,
    TooManyHolds,
    TooManyQueries,
    TopicReplaced,
    UnknownOption,
    UnwritableColumn,
)
from .sending import (
    FlushTimeout,
    MessageIllegal,
    MessageTooLarge,
    NotARequest,
    NotEnoughReplicas,
    ReplicaTimeout,
    RequesterGone,
    SendFailed,
    TooManyRequests,
)
from .sequences import OutcomeUnknown, OutOfOrderSequence, SequenceKnownInPart
from .settings import (
    ClusterNotStarted,
    ConfigError,
    HostTooNarrow,
    InvalidName,
    InvalidParameter,
    KernelOutdated,
    NoCluster,
    RequirementMissing,
    TopicExists,
    TopicMadeAnew,
    TopicNotFound,
)
from .storing import (
    CorruptRecordError,
    NotFlushed,
    StoreFormatError,
    StoreInGroup,
    StoreLocked,
    StoreNotEmpty,
    StoreNotWriteable,
    StorePoisoned,
)

__all__ = [
    "AllocationConflict",
    "ArchiveDamaged",
    "ArchiveNotWritable",
    "BatchOutdated",
    "BrokerBusy",
    "BufferFull",
    "CheckpointLost",
    "ClientClosed",
    "ClusterNotStarted",
    "ConfigError",
    "ConnectionLost",
    "CorruptRecordError",
    "CutRefused",
    "DamagedMessage",
    "DataLost",
    "DuplicateClient",
    "FlushTimeout",
    "ForeignLog",
    "ForeignReplica",
    "GroupIdUnclear",
    "GroupNodeDamaged",
    "GroupNodeLost",
    "GroupNotFound",
    "GroupNotLost",
    "HoldNotFound",
    "HostTooNarrow",
    "IncarnationUnknown",
    "InvalidName",
    "InvalidParameter",
    "JobFailed",
    "KernelOutdated",
    "LocalProtocolError",
    "MasterStillAlive",
    "MessageIllegal",
    "MessageNotFound",
    "MessageTooLarge",
    "NoArchive",
    "NoCluster",
    "NoDescriptors",
    "NoOrigin",
    "NoPermission",
    "NoRoute",
    "NotARequest",
    "NotElectable",
    "NotEnoughReplicas",
    "NotFlushed",
    "NotGroupMaster",
    "NotLeadingController",
    "NotMaster",
    "OffsetFileFailed",
    "OffsetFileInUse",
    "OffsetOutOfRange",
    "OffsetsBackwards",
    "OffsetsIncomplete",
    "OptionRefused",
    "OtherReplicaMeant",
    "OutOfOrderSequence",
    "OutcomeUnknown",
    "QueryFailed",
    "QueryOffsetsDiffer",
    "QueryOffsetsNotFound",
    "QueueNotOwned",
    "RangeUnread",
    "RemoteProtocolError",
    "ReplayChanged",
    "ReplayElsewhere",
    "ReplicaGroupNotFound",
    "ReplicaNameTaken",
    "ReplicaNeeded",
    "ReplicaNotAlive",
    "ReplicaTimeout",
    "RequestTimeout",
    "RequesterGone",
    "RequirementMissing",
    "SegmentsDiffer",
    "SendFailed",
    "SequenceKnownInPart",
    "SightingsDamaged",
    "SqlSyntaxError",
    "StaleEpoch",
    "StaleGroupVersion",
    "StartCounterBehind",
    "StaticMasterBehind",
    "StoreFormatError",
    "StoreInGroup",
    "StoreLocked",
    "StoreNotEmpty",
    "StoreNotWriteable",
    "StorePoisoned",
    "SubscriptionConflict",
    "SystemFault",
    "TargetInUse",
    "TooManyEpochs",
    "TooManyHolds",
    "TooManyLostGroups",
    "TooManyQueries",
    "TooManyRequests",
    "TopicExists",
    "TopicMadeAnew",
    "TopicNotFound",
    "TopicReplaced",
    "TraceDamaged",
    "UnknownOption",
    "UnknownReplica",
    "UnknownRequest",
    "UnwritableColumn",
    "VersionNotSupported",
    "WaitsForItself",
    "WrongAnswer",
    "WrongCluster",
    "WrongEventLoop",
    "ZenitError",
    "ZooKeeperUnavailable",
    "error_classes",
    "error_from_wire",
]


def error_classes() -> dict[int, type[ZenitError]]:
    """The table {code: class} of the whole tree, read off the classes themselves."""
    table: dict[int, type[ZenitError]] = {}
    pending: list[type[ZenitError]] = [ZenitError]
    while pending:
        cls = pending.pop()
        table.setdefault(cls.code, cls)
        pending.extend(cls.__subclasses__())
    return table


def error_from_wire(code: int, args: list[object], remark: str) -> ZenitError:
    """The error a reply carries; one of an unknown code or with odd facts becomes a ZenitError with the remark."""
    cls = error_classes().get(code, ZenitError)
    if cls is not ZenitError:
        with contextlib.suppress(TypeError):  # facts of another number, from a newer peer
            return cls(*args)
    return ZenitError(remark or f"error {code}")
