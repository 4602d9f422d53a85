"""Bodies of the classic protocol's requests and replies, which are JSON. Pure.

What comes in is bounded before it is decoded, and read into values. What goes out is standard JSON without blanks: Go's client
cuts it at `,` and `:`. Maps with objects as keys are an exception: RocketMQ writes them as `{{...}:value}`, which is no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import InvalidParameter, RemoteProtocolError
from ...model.sql92.parser import parse
from ...model.subscription import ExpressionKind, Subscription
from .frames import check_pairs

JSON_BYTES_MAX: Final = 1024 * 1024
NODES_MAX: Final = 100_000
"""Objects and arrays of one body."""
GROUPS_MAX: Final = 1_000
QUEUES_MAX: Final = 10_000

INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
"""The group of the producer inside each Java client. It is only that client's own, so no user needs a right to it."""
MODELS: Final = ("BROADCASTING", "CLUSTERING")
"""By their numbers."""

ClassicQueue = tuple[str, str, int]
"""(topic, broker name, queue id)"""


@dataclass(frozen=True, slots=True)
class ClassicSubscription:
    """`kind`: TAG or SQL92."""

    topic: str
    kind: str
    expression: str


@dataclass(frozen=True, slots=True)
class ClassicConsumer:
    """One consumer group of a client. `model`: CLUSTERING or BROADCASTING."""

    group: str
    model: str
    subscriptions: tuple[ClassicSubscription, ...]


@dataclass(frozen=True, slots=True)
class ClassicHeartbeat:
    """What a client tells of itself. `fingerprint` with `is_short`: as before, with the subscriptions left out."""

    client_id: str
    producer_groups: tuple[str, ...]
    consumers: tuple[ClassicConsumer, ...]
    fingerprint: int = 0
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class LockBody:
    """Queues that a member of a group wants to lock or to give back."""

    group: str
    client_id: str
    queues: tuple[ClassicQueue, ...]


@dataclass(frozen=True, slots=True)
class AssignmentQuestion:
    """Which queues are a member's? `strategy`: a name such as AVG."""

    topic: str
    group: str
    client_id: str
    strategy: str
    model: str


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """A consumer asks whether its expression can be served."""

    client_id: str
    group: str
    subscription: ClassicSubscription


# ---- in


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a body. Raises RemoteProtocolError."""
    if len(body) > JSON_BYTES_MAX:
        raise RemoteProtocolError(f"a JSON body of {len(body)} bytes: expected at most {JSON_BYTES_MAX}")
    nodes = body.count(b"{") + body.count(b"[")
    if nodes > NODES_MAX:
        raise RemoteProtocolError(f"a JSON body of {nodes} objects and arrays: expected at most {NODES_MAX}")
    try:
        document = json.loads(body.decode())  # of bytes it would take halves of surrogate pairs
        check_pairs(body, document)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("a body is no JSON") from error
    if not isinstance(document, dict):
        raise RemoteProtocolError("a body is no JSON object")
    return document


def read_heartbeat(body: bytes) -> ClassicHeartbeat:
    """Raises RemoteProtocolError."""
    document = read_json(body)
    producers = _rows(document, "producerDataSet", GROUPS_MAX)
    consumers = _rows(document, "consumerDataSet", GROUPS_MAX)
    return ClassicHeartbeat(
        _text(document, "clientID"),
        tuple(sorted({_text(row, "groupName") for row in producers} - {INNER_PRODUCER})),
        tuple(sorted((_consumer(row) for row in consumers), key=lambda one: one.group)),
        _number(document, "heartbeatFingerprint", 0),
        document.get("withoutSub") is True,
    )


def _consumer(row: dict[str, Any]) -> ClassicConsumer:
    subscriptions = {
        one.topic: one for one in map(_subscription, _rows(row, "subscriptionDataSet", QUEUES_MAX)) if one.topic
    }
    return ClassicConsumer(
        _text(row, "groupName"),
        _model(row),
        tuple(subscriptions[topic] for topic in sorted(subscriptions)),
    )


def _model(row: dict[str, Any]) -> str:
    """C++ writes its number. Raises RemoteProtocolError."""
    value = row.get("messageModel", "CLUSTERING")
    value = MODELS[value] if type(value) is int and 0 <= value < len(MODELS) else value
    if value not in MODELS:
        raise RemoteProtocolError(f"messageModel: expected one of {', '.join(MODELS)}")
    return str(value)


def _subscription(row: dict[str, Any]) -> ClassicSubscription:
    return ClassicSubscription(
        _text(row, "topic"), _text(row, "expressionType", "TAG"), _text(row, "subString", "*") or "*"
    )


def read_lock(body: bytes) -> LockBody:
    """Raises RemoteProtocolError."""
    document = read_json(body)
    rows = _rows(document, "mqSet", QUEUES_MAX)
    return LockBody(_text(document, "consumerGroup"), _text(document, "clientId"), tuple(map(_queue, rows)))


def _queue(row: dict[str, Any]) -> ClassicQueue:
    return _text(row, "topic"), _text(row, "brokerName"), _number(row, "queueId")


def read_assignment_question(body: bytes) -> AssignmentQuestion:
    """Raises RemoteProtocolError."""
    document = read_json(body)
    return AssignmentQuestion(
        _text(document, "topic"),
        _text(document, "consumerGroup"),
        _text(document, "clientId"),
        _text(document, "strategyName", "AVG"),
        _text(document, "messageModel", "CLUSTERING"),
    )


def read_client_check(body: bytes) -> ClientCheck:
    """Raises RemoteProtocolError."""
    document = read_json(body)
    data = document.get("subscriptionData")
    if not isinstance(data, dict):
        raise RemoteProtocolError("subscriptionData: expected an object")
    return ClientCheck(_text(document, "clientId"), _text(document, "group"), _subscription(data))


def read_group_settings(body: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """(group, its settings as (name, value in JSON)). Raises RemoteProtocolError."""
    document = read_json(body)
    group = _text(document, "groupName")
    rows = tuple((name, json.dumps(value)) for name, value in sorted(document.items()) if name in GROUP_SETTINGS)
    return group, rows


GROUP_SETTINGS: Final = frozenset(
    """consumeEnable consumeFromMinEnable consumeBroadcastEnable consumeMessageOrderly retryQueueNums retryMaxTimes
    groupRetryPolicy notifyConsumerIdsChangedEnable consumeTimeoutMinute""".split()
)
"""Of a consumer group's document: what a client may set."""


def subscription_of(row: ClassicSubscription) -> Subscription:
    """Raises InvalidParameter, SqlSyntaxError."""
    if row.kind == ExpressionKind.SQL92.value:
        parse(row.expression)
        return Subscription(row.topic, row.expression, kind=ExpressionKind.SQL92)
    if row.kind not in ("", ExpressionKind.TAG.value):
        raise InvalidParameter("expressionType", row.kind[:64], "TAG or SQL92")
    return Subscription.parse(row.topic, row.expression)


def _rows(document: dict[str, Any], name: str, count_max: int) -> list[dict[str, Any]]:
    rows = document.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list) or len(rows) > count_max or not all(isinstance(row, dict) for row in rows):
        raise RemoteProtocolError(f"{name}: expected a list of at most {count_max} objects")
    return rows


def _text(document: dict[str, Any], name: str, default: str | None = None) -> str:
    value = document.get(name)
    value = default if value is None else value
    if not isinstance(value, str):
        raise RemoteProtocolError(f"{name}: expected a text")
    return value


def _number(document: dict[str, Any], name: str, default: int | None = None) -> int:
    value = document.get(name, default)
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise RemoteProtocolError(f"{name}: expected a whole number")
    return value


# ---- out


def json_body(document: object) -> bytes:
    """Standard JSON without blanks."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def queue_document(queue: ClassicQueue) -> dict[str, object]:
    """A queue as RocketMQ writes it."""
    topic, broker_name, queue_id = queue
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


def map_by_queue(rows: Iterable[tuple[ClassicQueue, object]]) -> bytes:
    """`{{queue}:value,...}`, as RocketMQ's JSON has maps by objects."""
    pairs = (json_body(queue_document(queue)) + b":" + json_body(value) for queue, value in rows)
    return b"{" + b",".join(pairs) + b"}"


def locked_body(queues: Iterable[ClassicQueue]) -> bytes:
    """The queues that a member has locked."""
    return json_body({"lockOKMQSet": [queue_document(queue) for queue in queues]})


def consumer_list_body(client_ids: Sequence[str]) -> bytes:
    """The members of a group."""
    return json_body({"consumerIdList": list(client_ids)})


def topic_list_body(topics: Sequence[str]) -> bytes:
    """The topics of a cluster."""
    return json_body({"topicList": list(topics)})


def cluster_body(document: Mapping[str, Any], addresses: Mapping[str, str]) -> bytes:
    """The answer of a name server about the cluster. `document`: of GetClusterInfo; `addresses`: of each broker name, here."""
    brokers = {
        row["broker_name"]: {
            "brokerAddrs": {"0": addresses[row["broker_name"]]},
            "brokerName": row["broker_name"],
            "cluster": row["cluster"],
            "enableActingMaster": False,
        }
        for row in document["brokers"]
        if row["broker_id"] == 0 and row["broker_name"] in addresses
    }
    clusters = {
        name: [member for member in members if member in brokers] for name, members in document["clusters"].items()
    }
    return json_body({"brokerAddrTable": brokers, "clusterAddrTable": clusters})


def assignment_body(queues: Iterable[ClassicQueue]) -> bytes:
    """The queues that are a member's, to be pulled."""
    rows = [{"messageQueue": queue_document(queue), "mode": "PULL", "attachments": None} for queue in queues]
    return json_body({"messageQueueAssignments": rows})


def topic_statistics_body(topic: str, broker_name: str, queues: Iterable[Mapping[str, Any]]) -> bytes:
    """Offsets of a topic's queues. `queues`: of GetTopicStatistics."""
    rows = (
        (
            (topic, broker_name, int(row["queue_id"])),
            {
                "lastUpdateTimestamp": row["last_stored_at_ms"] or 0,
                "maxOffset": row["max_offset"],
                "minOffset": row["min_offset"],
            },
        )
        for row in queues
    )
    return b'{"offsetTable":' + map_by_queue(rows) + b"}"


def consume_statistics_body(broker_name: str, queues: Iterable[Mapping[str, Any]], topic: str) -> bytes:
    """A group's offsets: of a queue in which it has none, the one that it will begin at; 0 where nobody knows that.
    `queues`: of GetConsumeStatistics; `topic`: only of this one, "" = of all."""
    rows = (
        (
            (str(row["topic"]), broker_name, int(row["queue_id"])),
            {
                "brokerOffset": row["broker_queue_offset"],
                "consumerOffset": _goes_on_at(row),
                "lastTimestamp": 0,
                "pullOffset": _goes_on_at(row),
            },
        )
        for row in queues
        if topic in ("", row["topic"])
    )
    return b'{"consumeTps":0.0,"offsetTable":' + map_by_queue(rows) + b"}"


def _goes_on_at(row: Mapping[str, Any]) -> int:
    committed, lag = row["consumer_queue_offset"], row["lag"]
    if committed is not None:
        return int(committed)
    return int(row["broker_queue_offset"]) - lag if lag is not None else 0


def reset_body(topic: str, broker_name: str, offsets: Iterable[tuple[int, int]], *, as_list: bool) -> bytes:
    """Where members of a group go on in queues of a topic. `as_list`: for C++, which reads no map by objects."""
    if as_list:
        rows = [{**queue_document((topic, broker_name, number)), "offset": offset} for number, offset in offsets]
        return json_body({"offsetTable": rows})
    table = map_by_queue(((topic, broker_name, number), offset) for number, offset in offsets)
    return b'{"offsetTable":' + table + b"}"


def offset_table_body(offsets: Iterable[tuple[ClassicQueue, int]]) -> bytes:
    """The answer of a broker that reset a group's offsets."""
    return b'{"offsetTable":' + map_by_queue(offsets) + b"}"
