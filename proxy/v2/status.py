"""The protocol's codes, and which of them tells each of our errors. Pure."""

from __future__ import annotations

import enum
from typing import Final

from ...model.errors import (
    AccessDenied,
    AuthenticationFailed,
    BrokerBusy,
    BufferFull,
    ClientClosed,
    CorruptRecordError,
    DuplicateClient,
    FlushTimeout,
    GroupConsumedOtherwise,
    GroupNotFound,
    HandleRefused,
    InvalidName,
    InvalidParameter,
    LeaseExpired,
    LiteQuotaExceeded,
    LiteTopicMissing,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLiteParent,
    OffsetOutOfRange,
    OutcomeUnknown,
    RemoteProtocolError,
    ReplicaTimeout,
    RequestTimeout,
    SqlSyntaxError,
    StoreNotWriteable,
    TooManyLightQueues,
    TopicExists,
    TopicNotFound,
    TransactionDecided,
    TransactionNotFound,
    UnknownRequest,
    ZenitError,
)


class Code(enum.IntEnum):
    """What is answered; the numbers are those of definition.proto (a test compares them)."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402


class CallRefused(Exception):
    """A request is refused with a code of the protocol, and a sentence that says what to do."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


CODES: Final[dict[type[ZenitError], Code]] = {
    AccessDenied: Code.FORBIDDEN,
    AuthenticationFailed: Code.UNAUTHORIZED,
    BrokerBusy: Code.TOO_MANY_REQUESTS,
    BufferFull: Code.TOO_MANY_REQUESTS,
    ClientClosed: Code.INTERNAL_SERVER_ERROR,
    CorruptRecordError: Code.MESSAGE_CORRUPTED,
    DuplicateClient: Code.PRECONDITION_FAILED,
    FlushTimeout: Code.MASTER_PERSISTENCE_TIMEOUT,
    GroupConsumedOtherwise: Code.PRECONDITION_FAILED,
    GroupNotFound: Code.CONSUMER_GROUP_NOT_FOUND,
    HandleRefused: Code.INVALID_RECEIPT_HANDLE,
    InvalidName: Code.BAD_REQUEST,
    InvalidParameter: Code.BAD_REQUEST,
    LeaseExpired: Code.INVALID_RECEIPT_HANDLE,
    LiteQuotaExceeded: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
    LiteTopicMissing: Code.ILLEGAL_LITE_TOPIC,
    MessageIllegal: Code.BAD_REQUEST,
    MessageNotFound: Code.MESSAGE_NOT_FOUND,
    MessageTooLarge: Code.PAYLOAD_TOO_LARGE,
    NotEnoughReplicas: Code.HA_NOT_AVAILABLE,
    NotLiteParent: Code.ILLEGAL_LITE_TOPIC,
    OffsetOutOfRange: Code.ILLEGAL_OFFSET,
    OutcomeUnknown: Code.PROXY_TIMEOUT,
    RemoteProtocolError: Code.INTERNAL_SERVER_ERROR,
    ReplicaTimeout: Code.SLAVE_PERSISTENCE_TIMEOUT,
    RequestTimeout: Code.PROXY_TIMEOUT,
    SqlSyntaxError: Code.ILLEGAL_FILTER_EXPRESSION,
    StoreNotWriteable: Code.HA_NOT_AVAILABLE,
    TooManyLightQueues: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    TopicExists: Code.BAD_REQUEST,
    TopicNotFound: Code.TOPIC_NOT_FOUND,
    TransactionDecided: Code.INVALID_TRANSACTION_ID,
    TransactionNotFound: Code.INVALID_TRANSACTION_ID,
    UnknownRequest: Code.NOT_IMPLEMENTED,
}
"""Of each class of error, or of the nearest one above it."""


def code_of(error: ZenitError | CallRefused) -> Code:
    """What tells a client of an error: what may pass is told so that it tries again."""
    if isinstance(error, CallRefused):
        return error.code
    for cls in type(error).__mro__:
        code = CODES.get(cls)
        if code is not None:
            return code
    return Code.HA_NOT_AVAILABLE if error.retriable else Code.INTERNAL_SERVER_ERROR
