"""Numbers of the classic remoting protocol: requests, how they end, languages, releases. Pure."""

from __future__ import annotations

import enum
from typing import Final

from ...model.errors import (
    AccessDenied,
    AuthenticationFailed,
    BrokerBusy,
    BufferFull,
    ConnectionLost,
    FlushTimeout,
    GroupConsumedOtherwise,
    GroupNotFound,
    HandleRefused,
    InvalidName,
    InvalidParameter,
    LeaseExpired,
    LiteQuotaExceeded,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    NoPermission,
    NoRoute,
    NotEnoughReplicas,
    NotMaster,
    OffsetOutOfRange,
    OutcomeUnknown,
    RemoteProtocolError,
    ReplicaTimeout,
    RequesterGone,
    RequestTimeout,
    SqlSyntaxError,
    StoreNotWriteable,
    SubscriptionConflict,
    TopicExists,
    TopicNotFound,
    TransactionDecided,
    TransactionNotFound,
    UnknownRequest,
    VersionNotSupported,
    ZenitError,
)

OUR_VERSION: Final = 513
"""What clients take for their broker's release: RocketMQ 5.5.0."""
READS_LZ4: Final = 401
"""4.9.4: from this release on Java's clients unpack LZ4 and Zstandard."""
READS_LONG_TOPICS: Final = 413
"""5.0.0: from this release on Java's clients read records of topics longer than 127 bytes."""

LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)


class ClassicCode(enum.IntEnum):
    """Request codes, by RocketMQ's names."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    CHECK_CLIENT_CONFIG = 46
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    RESET_CONSUMER_CLIENT_OFFSET = 220
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    GET_TOPICS_BY_CLUSTER = 224
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    GET_CONSUMER_RUNNING_INFO = 307
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326
    QUERY_TOPICS_BY_CONSUMER = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTIONGROUP_CONFIG = 352
    LITE_PULL_MESSAGE = 361
    RECALL_MESSAGE = 370
    QUERY_ASSIGNMENT = 400
    POP_MESSAGE = 200050
    ACK_MESSAGE = 200051
    CHANGE_MESSAGE_INVISIBLETIME = 200053


INSTEAD: Final[dict[int, str]] = {
    18: "zenit topic create",
    22: "zenit topic list",
    25: "zenit config and the broker's settings file",
    27: "zenit broker stats: a broker deletes expired files by itself",
    100: "zenit topic update",
    102: "zenit topic update",
    204: "zenit broker stats",
    205: "zenit topic update",
    223: "zenit group describe",
    225: "zenit group create",
    303: "zenit group describe",
    306: "zenit broker stats: a broker deletes expired files by itself",
    314: "zenit group clone-offsets",
    315: "zenit top",
    316: "zenit topic delete",
    317: "zenit group describe",
    318: "zenit config and the name server's settings file",
    319: "zenit config",
    321: "zenit message",
    323: "zenit transaction",
    327: "zenit topic update",
    328: "zenit broker stats",
    329: "zenit broker stats: a broker deletes expired files by itself",
    353: "zenit group update",
    401: "a client that pops by itself, such as a SimpleConsumer: push consumers pull here",
    513: "zenit topic create",
    907: "zenit status",
    1002: "zenit broker promote",
    1005: "zenit controller",
    1006: "zenit status",
    1007: "zenit status",
    1009: "zenit config and the controller's settings file",
    1010: "zenit config",
    1011: "zenit controller",
    3001: "zenit user create",
    3002: "zenit user",
    3003: "zenit user delete",
    3004: "zenit user show",
    3005: "zenit user list",
    3006: "zenit policy allow",
    3007: "zenit policy",
    3008: "zenit policy remove",
    3009: "zenit policy list",
    3010: "zenit policy list",
}
"""{a request of RocketMQ's tools that is not served: what does that here}."""


class ClassicStatus(enum.IntEnum):
    """Codes of replies, by RocketMQ's names."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    GO_AWAY = 1500


STATUSES: Final[tuple[tuple[type[ZenitError], ClassicStatus], ...]] = (
    (AuthenticationFailed, ClassicStatus.NO_PERMISSION),
    (AccessDenied, ClassicStatus.NO_PERMISSION),
    (NoPermission, ClassicStatus.NO_PERMISSION),
    (BrokerBusy, ClassicStatus.SYSTEM_BUSY),
    (BufferFull, ClassicStatus.SYSTEM_BUSY),
    (LiteQuotaExceeded, ClassicStatus.SYSTEM_BUSY),
    (UnknownRequest, ClassicStatus.REQUEST_CODE_NOT_SUPPORTED),
    (VersionNotSupported, ClassicStatus.VERSION_NOT_SUPPORTED),
    (TopicNotFound, ClassicStatus.TOPIC_NOT_EXIST),
    (TopicExists, ClassicStatus.TOPIC_EXIST_ALREADY),
    (GroupNotFound, ClassicStatus.SUBSCRIPTION_GROUP_NOT_EXIST),
    (GroupConsumedOtherwise, ClassicStatus.NO_PERMISSION),
    (SubscriptionConflict, ClassicStatus.SUBSCRIPTION_NOT_LATEST),
    (SqlSyntaxError, ClassicStatus.SUBSCRIPTION_PARSE_FAILED),
    (MessageIllegal, ClassicStatus.MESSAGE_ILLEGAL),
    (MessageTooLarge, ClassicStatus.MESSAGE_ILLEGAL),
    (MessageNotFound, ClassicStatus.QUERY_NOT_FOUND),
    (OffsetOutOfRange, ClassicStatus.INVALID_PARAMETER),
    (InvalidName, ClassicStatus.INVALID_PARAMETER),
    (InvalidParameter, ClassicStatus.INVALID_PARAMETER),
    (RemoteProtocolError, ClassicStatus.INVALID_PARAMETER),
    (HandleRefused, ClassicStatus.INVALID_PARAMETER),
    (LeaseExpired, ClassicStatus.NO_MESSAGE),
    (FlushTimeout, ClassicStatus.SYSTEM_ERROR),
    (ReplicaTimeout, ClassicStatus.SYSTEM_ERROR),
    (OutcomeUnknown, ClassicStatus.SYSTEM_ERROR),
    (NotEnoughReplicas, ClassicStatus.SERVICE_NOT_AVAILABLE),
    (NotMaster, ClassicStatus.SERVICE_NOT_AVAILABLE),
    (StoreNotWriteable, ClassicStatus.SERVICE_NOT_AVAILABLE),
    (NoRoute, ClassicStatus.SERVICE_NOT_AVAILABLE),
    (RequestTimeout, ClassicStatus.SYSTEM_ERROR),
    (ConnectionLost, ClassicStatus.SERVICE_NOT_AVAILABLE),
    (TransactionNotFound, ClassicStatus.SYSTEM_ERROR),
    (TransactionDecided, ClassicStatus.SYSTEM_ERROR),
    (RequesterGone, ClassicStatus.SYSTEM_ERROR),
)
"""How an error of ours is told. A client takes 10 to 12 for "stored", so a send whose outcome is not known is none of these."""


def not_served(code: int) -> str:
    """Why a request is not served, and what to do."""
    instead = INSTEAD.get(code, "")
    return f"a proxy of ZenitMQ does not serve RocketMQ's request {code}" + (f"; use {instead}" if instead else "")


def status_of(error: ZenitError) -> ClassicStatus:
    """The status that tells a client of an error."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return status
    return ClassicStatus.SYSTEM_ERROR
