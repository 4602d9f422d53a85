"""The fields of each request of the classic protocol, as one table; and a request's fields, read by it. Pure.

All fields travel as texts (extFields). The compact requests to send name them by single letters.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from ...model.errors import InvalidParameter
from ...model.plain_dataclass import dataclass
from .codes import ClassicCode

TEXT_LENGTH_MAX: Final = 32 * 1024
_NUMBER_LENGTH_MAX: Final = 20
_BITS: Final = 63
_SAFE_LENGTH: Final = 18
"""So many digits are in that range, whichever."""


class FieldKind(enum.Enum):
    """What a field's text says."""

    TEXT = "text"
    NUMBER = "number"
    """A whole number of 64 bits."""
    FLAG = "flag"
    """true or false."""


@dataclass(frozen=True, slots=True)
class ClassicField:
    """`default`: None = the field is required. `short`: its letter in compact requests."""

    name: str
    kind: FieldKind = FieldKind.TEXT
    default: str | int | bool | None = None
    short: str = ""


@dataclass(frozen=True, slots=True)
class ClassicRow:
    """A request's row. Which rights it needs, brokers and name servers decide: the proxy asks them in the user's name."""

    fields: tuple[ClassicField, ...] = ()


def _text(name: str, default: str | None = None, short: str = "") -> ClassicField:
    return ClassicField(name, FieldKind.TEXT, default, short)


def _number(name: str, default: int | None = None, short: str = "") -> ClassicField:
    return ClassicField(name, FieldKind.NUMBER, default, short)


def _flag(name: str, default: bool | None = None, short: str = "") -> ClassicField:
    return ClassicField(name, FieldKind.FLAG, default, short)


BROKER: Final = _text("bname", "", "n")
"""The broker that is meant; "" = the one whose port the client came to."""

_TOPIC: Final = _text("topic")
_QUEUE: Final = _number("queueId")
_GROUP: Final = _text("consumerGroup")

SEND: Final = ClassicRow(
    (
        _text("producerGroup", "", "a"),
        _text("topic", None, "b"),
        _text("defaultTopic", "", "c"),
        _number("defaultTopicQueueNums", 4, "d"),
        _number("queueId", None, "e"),
        _number("sysFlag", 0, "f"),
        _number("bornTimestamp", 0, "g"),
        _number("flag", 0, "h"),
        _text("properties", "", "i"),
        _number("reconsumeTimes", 0, "j"),
        _flag("unitMode", False, "k"),
        _number("maxReconsumeTimes", -1, "l"),
        _flag("batch", False, "m"),
        BROKER,
    )
)
_PULL: Final = ClassicRow(
    (
        _GROUP,
        _TOPIC,
        _QUEUE,
        _number("queueOffset"),
        _number("maxMsgNums"),
        _number("sysFlag", 0),
        _number("commitOffset", 0),
        _number("suspendTimeoutMillis", 0),
        _text("subscription", ""),
        _number("subVersion", 0),
        _text("expressionType", "TAG"),
        _number("maxMsgBytes", -1),
        BROKER,
    )
)
_OF_QUEUE: Final = (_TOPIC, _QUEUE, BROKER)
_RECEIPT: Final = (_GROUP, _TOPIC, _number("queueId", -1), _text("extraInfo"), _number("offset", -1), BROKER)

ROWS: Final[dict[int, ClassicRow]] = {
    ClassicCode.SEND_MESSAGE: SEND,
    ClassicCode.SEND_MESSAGE_V2: SEND,
    ClassicCode.SEND_BATCH_MESSAGE: SEND,
    ClassicCode.SEND_REPLY_MESSAGE: SEND,
    ClassicCode.SEND_REPLY_MESSAGE_V2: SEND,
    ClassicCode.RECALL_MESSAGE: ClassicRow((_text("producerGroup", ""), _TOPIC, _text("recallHandle"), BROKER)),
    ClassicCode.PULL_MESSAGE: _PULL,
    ClassicCode.LITE_PULL_MESSAGE: _PULL,
    ClassicCode.QUERY_MESSAGE: ClassicRow(
        (
            _TOPIC,
            _text("key"),
            _number("maxNum", 64),
            _number("beginTimestamp", 0),
            _number("endTimestamp", (1 << 62) - 1),
            _flag("_UNIQUE_KEY_QUERY", False),
            BROKER,
        )
    ),
    ClassicCode.VIEW_MESSAGE_BY_ID: ClassicRow((_text("topic", ""), _number("offset"), BROKER)),
    ClassicCode.QUERY_CONSUMER_OFFSET: ClassicRow((_GROUP, *_OF_QUEUE, _flag("setZeroIfNotFound", True))),
    ClassicCode.UPDATE_CONSUMER_OFFSET: ClassicRow((_GROUP, *_OF_QUEUE, _number("commitOffset"))),
    ClassicCode.SEARCH_OFFSET_BY_TIMESTAMP: ClassicRow(
        (*_OF_QUEUE, _number("timestamp"), _text("boundaryType", "LOWER"))
    ),
    ClassicCode.GET_MAX_OFFSET: ClassicRow((*_OF_QUEUE, _flag("committed", True))),
    ClassicCode.GET_MIN_OFFSET: ClassicRow(_OF_QUEUE),
    ClassicCode.GET_EARLIEST_MSG_STORETIME: ClassicRow(_OF_QUEUE),
    ClassicCode.HEART_BEAT: ClassicRow(),
    ClassicCode.UNREGISTER_CLIENT: ClassicRow(
        (_text("clientID"), _text("producerGroup", ""), _text("consumerGroup", ""), BROKER)
    ),
    ClassicCode.CONSUMER_SEND_MSG_BACK: ClassicRow(
        (
            _number("offset"),
            _text("group"),
            _number("delayLevel", 0),
            _text("originMsgId", ""),
            _text("originTopic", ""),
            _flag("unitMode", False),
            _number("maxReconsumeTimes", -1),
            BROKER,
        )
    ),
    ClassicCode.END_TRANSACTION: ClassicRow(
        (
            _text("topic", ""),
            _text("producerGroup"),
            _number("tranStateTableOffset", -1),
            _number("commitLogOffset", -1),
            _number("commitOrRollback"),
            _flag("fromTransactionCheck", False),
            _text("msgId", ""),
            _text("transactionId", ""),
            BROKER,
        )
    ),
    ClassicCode.GET_CONSUMER_LIST_BY_GROUP: ClassicRow((_GROUP, BROKER)),
    ClassicCode.LOCK_BATCH_MQ: ClassicRow((BROKER,)),
    ClassicCode.UNLOCK_BATCH_MQ: ClassicRow((BROKER,)),
    ClassicCode.CHECK_CLIENT_CONFIG: ClassicRow(),
    ClassicCode.GET_ROUTEINFO_BY_TOPIC: ClassicRow((_TOPIC, _flag("acceptStandardJsonOnly", False))),
    ClassicCode.GET_BROKER_CLUSTER_INFO: ClassicRow(),
    ClassicCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ClassicRow(),
    ClassicCode.UPDATE_AND_CREATE_TOPIC: ClassicRow(
        (
            _TOPIC,
            _text("defaultTopic", ""),
            _number("readQueueNums", 8),
            _number("writeQueueNums", 8),
            _number("perm", 6),
            _text("topicFilterType", "SINGLE_TAG"),
            _number("topicSysFlag", 0),
            _flag("order", False),
            _text("attributes", ""),
            _flag("force", False),
            BROKER,
        )
    ),
    ClassicCode.DELETE_TOPIC_IN_BROKER: ClassicRow((_TOPIC, BROKER)),
    ClassicCode.DELETE_TOPIC_IN_NAMESRV: ClassicRow((_TOPIC,)),
    ClassicCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ClassicRow((BROKER,)),
    ClassicCode.DELETE_SUBSCRIPTIONGROUP: ClassicRow((_text("groupName"), _flag("cleanOffset", False), BROKER)),
    ClassicCode.GET_CONSUMER_RUNNING_INFO: ClassicRow(
        (_GROUP, _text("clientId"), _flag("jstackEnable", False), BROKER)
    ),
    ClassicCode.CONSUME_MESSAGE_DIRECTLY: ClassicRow(
        (_GROUP, _text("clientId"), _text("msgId"), _text("brokerName", ""), _text("topic", ""), BROKER)
    ),
    ClassicCode.GET_ALL_TOPIC_CONFIG: ClassicRow((BROKER,)),
    ClassicCode.GET_TOPIC_CONFIG: ClassicRow((_TOPIC, BROKER)),
    ClassicCode.GET_TOPICS_BY_CLUSTER: ClassicRow((_text("cluster"),)),
    ClassicCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: ClassicRow((BROKER,)),
    ClassicCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ClassicRow((BROKER,)),
    ClassicCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ClassicRow((BROKER,)),
    ClassicCode.GET_SUBSCRIPTIONGROUP_CONFIG: ClassicRow((_text("group"), BROKER)),
    ClassicCode.QUERY_TOPIC_CONSUME_BY_WHO: ClassicRow((_TOPIC, BROKER)),
    ClassicCode.QUERY_TOPICS_BY_CONSUMER: ClassicRow((_text("group"), BROKER)),
    ClassicCode.QUERY_SUBSCRIPTION_BY_CONSUMER: ClassicRow((_text("group"), _TOPIC, BROKER)),
    ClassicCode.GET_CONSUMER_CONNECTION_LIST: ClassicRow((_GROUP, BROKER)),
    ClassicCode.GET_BROKER_CONFIG: ClassicRow((BROKER,)),
    ClassicCode.GET_BROKER_RUNTIME_INFO: ClassicRow((BROKER,)),
    ClassicCode.GET_TOPIC_STATS_INFO: ClassicRow((_TOPIC, BROKER)),
    ClassicCode.GET_CONSUME_STATS: ClassicRow((_GROUP, _text("topic", ""), BROKER)),
    ClassicCode.INVOKE_BROKER_TO_RESET_OFFSET: ClassicRow(
        (
            _TOPIC,
            _text("group"),
            _number("queueId", -1),
            _number("offset", -1),
            _number("timestamp", -1),
            _flag("isForce", False),
            BROKER,
        )
    ),
    ClassicCode.QUERY_ASSIGNMENT: ClassicRow((BROKER,)),
    ClassicCode.POP_MESSAGE: ClassicRow(
        (
            _GROUP,
            _TOPIC,
            _number("queueId", -1),
            _number("maxMsgNums"),
            _number("invisibleTime"),
            _number("pollTime", 0),
            _number("bornTime", 0),
            _number("initMode", 0),
            _text("expType", "TAG"),
            _text("exp", "*"),
            _flag("order", False),
            _text("attemptId", ""),
            BROKER,
        )
    ),
    ClassicCode.ACK_MESSAGE: ClassicRow(_RECEIPT),
    ClassicCode.CHANGE_MESSAGE_INVISIBLETIME: ClassicRow((*_RECEIPT, _number("invisibleTime"))),
}


class ClassicFields:
    """The fields of one request, checked by its row."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, str | int | bool]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """A field that is a text."""
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def number(self, name: str) -> int:
        """A field that is a number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """A field that is true or false."""
        value = self._values[name]
        assert isinstance(value, bool)
        return value


def read_fields(row: ClassicRow, given: Mapping[str, str], *, is_compact: bool = False) -> ClassicFields:
    """A request's fields; `is_compact`: named by single letters. Unknown ones are ignored. Raises InvalidParameter."""
    values: dict[str, str | int | bool] = {}
    for field in row.fields:
        text = given.get(field.short if is_compact and field.short else field.name)
        if text is None and field.short:  # some clients name the broker by its long name in compact requests
            text = given.get(field.name)
        if text is None or (text == "" and field.kind is not FieldKind.TEXT):
            if field.default is None:
                raise InvalidParameter(field.name, "", f"a {field.kind.value}: the request needs it")
            values[field.name] = field.default
        else:
            values[field.name] = _value(field, text)
    return ClassicFields(values)


def _value(field: ClassicField, text: str) -> str | int | bool:
    kind = field.kind
    if kind is FieldKind.TEXT:
        if len(text) > TEXT_LENGTH_MAX:
            raise InvalidParameter(field.name, text[:64], f"at most {TEXT_LENGTH_MAX} characters")
        return text
    if kind is FieldKind.FLAG:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            if text in ("0", "1"):
                return text == "1"
            raise InvalidParameter(field.name, text[:64], "true or false")
        return lowered == "true"
    if text.isascii() and text.isdecimal() and len(text) <= _SAFE_LENGTH:
        return int(text)
    digits = text.removeprefix("-")
    if len(text) > _NUMBER_LENGTH_MAX or not (digits.isascii() and digits.isdecimal()):
        raise InvalidParameter(field.name, text[:64], "a whole number")
    number = int(text)
    if not -(1 << _BITS) <= number < 1 << _BITS:
        raise InvalidParameter(field.name, text, f"a number of {_BITS + 1} bits")
    return number
