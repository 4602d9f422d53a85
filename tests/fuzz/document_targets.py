"""JSON that is believed: group nodes, the log's events and their snapshots, registrations, replies, small files of ours."""

from __future__ import annotations

import base64
import json
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from store_kit import StillClock

from zenitmq.broker.delay.rewriting import delivered_record, rolled_record, waiting_record
from zenitmq.broker.delay.timing import DelayRules, due_of, waiting_properties
from zenitmq.broker.group.cluster_file import decode_cluster_file, encode_cluster_file
from zenitmq.broker.security.security_table import SecurityTable, event_merged
from zenitmq.broker.state.group_table import GroupTable
from zenitmq.broker.state.offset_table import OffsetTable
from zenitmq.broker.state.pop_table import Popped, PopTable
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.query_offsets import QueryOffsets
from zenitmq.broker.state.queue_locks import QueueLockTable
from zenitmq.broker.state.retry_policy import parse_backoff
from zenitmq.broker.state.state_log import FILE_NAMES, StateLog
from zenitmq.broker.state.topic_table import TopicTable
from zenitmq.broker.waiting.copies import real_queue
from zenitmq.client.administration.message_query import Criteria, PageMerge
from zenitmq.client.connection.documents import document_of
from zenitmq.client.consuming.push.broadcast_offsets import _parsed
from zenitmq.client.tracing.otel.traceparent import (
    LINKS_MAX,
    TRACEPARENT,
    encoded_traceparent,
    has_traceparent,
    ids_in_records,
    ids_of,
)
from zenitmq.controller.group_history import last_election
from zenitmq.deploy.cluster_record import decode_record as decode_cluster_record
from zenitmq.model.errors import (
    BrokerBusy,
    CorruptRecordError,
    GroupNodeDamaged,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    NotMaster,
    RemoteProtocolError,
    StoreFormatError,
)
from zenitmq.model.events.event import Event, decode_line, event_line, with_lines
from zenitmq.model.events.event_ring import EventRing
from zenitmq.model.events.table import ELECTED
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, Replica, Seen, Sighting
from zenitmq.model.groups.group_codec import decode_node, decode_seen, encode_node, encode_seen
from zenitmq.model.names import SCHEDULE_TOPIC, STATE_TOPICS, TIMER_TOPIC
from zenitmq.model.properties import decode_properties, encode_properties
from zenitmq.model.route import TopicConfig
from zenitmq.namesrv.route_table import RouteTable
from zenitmq.record.kernel import RunKernel, decode_batch, encode_record
from zenitmq.remoting.commands import BrokerHeartbeat, RegisterBroker, RegisterTopics, UpdateTopics
from zenitmq.remoting.header import decode_request, encode_request
from zenitmq.store.opening.snapshot import parse_snapshot, write_snapshot
from zenitmq.store.queues.dispatch import Run

from .kernel_targets import properties
from .mutation import document_bytes, mutated, mutated_document
from .security_targets import SECURITY_ROWS
from .target import Target
from .wire_targets import instance_of

FRAME_BYTES_MAX: Final = 0xFFFF  # two bytes of a case tell a frame's length

HOST_BYTES = 8
_LIFE = Incarnation("5f0c", 2)
_REPLICAS = tuple(
    Replica(name=f"broker-a-{n}", address="h:1", replication_address="h:2", incarnation=_LIFE, life="9d1e")
    for n in (0, 1)
)
_NODE = GroupNode(
    broker_name="broker-a",
    cluster_id="9f1c",
    group_id="5f0c",
    epoch=3,
    master="broker-a-0",
    master_incarnation=_LIFE,
    in_sync=("broker-a-0",),
    settings=GroupSettings(min_in_sync=1),
    replicas=_REPLICAS,
)
_SEEN = Seen("broker-a", (Sighting("5f0c", 4, 17), Sighting("6f0c", 1)))


def _copy(document: Any) -> Any:
    return json.loads(json.dumps(document))


def documents(*seeds: Any) -> Callable[[Random], bytes]:
    """One of these with parts of it changed, as text."""
    return lambda draw: document_bytes(mutated_document(_copy(draw.choice(seeds)), draw), draw)


def checked_lines(seed: Any) -> Callable[[Random], bytes]:
    """A line of JSON and one of its CRC-32, which is right more often than not."""

    def make(draw: Random) -> bytes:
        text = json.dumps(mutated_document(_copy(seed), draw))
        if draw.randrange(20) == 0:
            text = "[" * draw.choice((900, 2000)) + "]" * 2000
        data = bytearray(f"{text}\n{zlib.crc32(text.encode()):08x}\n".encode())
        return bytes(mutated(data, draw) if draw.randrange(3) == 0 else data)

    return make


def check_group_node(data: bytes, _: Random) -> None:
    """The same when a controller writes it again."""
    node = decode_node(data, "broker-a")
    assert decode_node(encode_node(node), "broker-a") == node


def check_group_seen(data: bytes, _: Random) -> None:
    """The same when a controller writes it again."""
    seen = decode_seen(data, "broker-a")
    assert decode_seen(encode_seen(seen), "broker-a") == seen


def check_cluster_file(data: bytes, _: Random) -> None:
    """An id, or a refusal that names the file."""
    cluster_id, _is_own = decode_cluster_file(data)
    assert isinstance(cluster_id, str)


def check_event_line(data: bytes, _: Random) -> None:
    """An event, or None; a history with it in between stays in order and bounded."""
    decode_line(data)
    good = event_line(Event(ELECTED, 7, (("group", "g"), ("epoch", 9))), role="controller", node="c").encode()
    kept = with_lines(data, [good, *data.split(b"\n")], lines_max=3, bytes_max=10_000)
    assert len(kept) <= 10_000
    assert kept.count(b"\n") <= 3
    last_election(kept)
    EventRing(role="broker", node="a", lines=[data]).document(0)


def _traceparent(rng: Random) -> bytes:
    return bytes(mutated(bytearray(encoded_traceparent(1 << 127, 1 << 63)), rng))


def check_traceparent(data: bytes, _: Random) -> None:
    """A context, or None; in records, few."""
    ids = ids_of(decode_properties(data).get(TRACEPARENT))
    assert ids is None or all(ids)
    assert len(list(ids_in_records(data))) <= LINKS_MAX
    has_traceparent(data)


# ---- the log's events


_POPS: Final = (
    Popped(0, range(5, 8), 1_700_000_000_000, 30_000, 8),
    Popped(1, (2, 9), 1_700_000_000_001, 30_000, 10, owner="c", attempts=(1, 0), keys=(7, 8), passed=((3, 7),)),
)


def _popped() -> dict[str, Any]:
    """The snapshot of a table with a bit of everything."""
    table = PopTable()
    for event in (PopTable.event_signed(bytes(32)), PopTable.event_popped("g", "orders", _POPS)):
        table.on_event(_copy(event), now_ms=1_700_000_000_000, monotonic_ms=5, is_live=True)
    for event in _EVENTS[STATE_TOPICS[5]][1:3]:
        table.on_event(_copy(event), now_ms=1_700_000_000_000, monotonic_ms=5, is_live=True)
    return table.document()


_EVENTS: dict[str, list[Any]] = {
    STATE_TOPICS[0]: [TopicTable().event_set(TopicConfig("orders")), TopicTable.event_deleted("orders")],
    STATE_TOPICS[1]: [GroupTable().event_set("g"), GroupTable.event_deleted("g")],
    STATE_TOPICS[2]: [
        OffsetTable.event_committed("g", [("orders", 0, 5, -1), ("orders", 1, 7, 9)], forward_only=True),
        OffsetTable().event_reset("g", [("orders", 0, 5)], 1_700_000_000_000)[0],
        OffsetTable.event_started("g", "orders", [0, 5], 1_700_000_000_000),
    ],
    STATE_TOPICS[3]: [
        {"event": kind, "group": "g", "client": "c", "queues": [["orders", 0], ["orders", 1]]}
        for kind in ("locked", "unlocked", "renewed")
    ],
    STATE_TOPICS[4]: [{"event": "kept", "query": "q", "document": "{}"}, {"event": "dropped", "query": "q"}],
    STATE_TOPICS[5]: [
        PopTable.event_popped("g", "orders", _POPS),
        PopTable.event_acked("g", "orders", [(0, 5, 1_700_000_000_000, 0b101)]),
        PopTable.event_returned("g", "orders", [(0, 5, 1_700_000_000_000, 0b010)], counts=True),
        PopTable.event_changed("g", "orders", 0, (5, 1_700_000_000_000), [(1, 1_700_000_000_007, 60_000)]),
        PopTable.event_renewed("g", "orders", [(0, 5, 1_700_000_000_000)]),
        PopTable.event_ended("g", "orders", [(0, 6)]),
        PopTable.event_signed(bytes(32)),
    ],
    STATE_TOPICS[6]: [event_merged(SECURITY_ROWS)],
}


def _events(draw: Random) -> bytes:
    """A few lines: the number of a topic, and an event that is meant for it, or nearly."""
    lines = []
    for _ in range(draw.choice((1, 2, 5))):
        number = draw.randrange(len(STATE_TOPICS))
        event = _copy(draw.choice(_EVENTS[STATE_TOPICS[number]]))
        lines.append(b"%d " % number + document_bytes(mutated_document(event, draw), draw).replace(b"\n", b" "))
    return b"\n".join(lines)


def _state(directory: str) -> StateLog:
    producers = ProducerTable(entries_max=100, retention_ms=1000)
    return StateLog(directory, clock=StillClock(), persist_interval_ms=1, producers=producers)


def check_events(data: bytes, draw: Random) -> None:
    """A state that took events is written as snapshots, and is the same when it is read again."""
    with tempfile.TemporaryDirectory() as directory:
        state, at = _state(directory), 0
        for line in data.split(b"\n"):
            number, _, body = line.partition(b" ")
            topic = STATE_TOPICS[int(number) % len(STATE_TOPICS) if number.isdigit() and len(number) < 9 else 0]
            record = encode_record(topic=topic.encode(), body=body, queue_offset=at, physical_offset=at)
            state.on_run(_run_of(topic, record, at))
            at += len(record)
        state.is_closing = True
        state.persist()
        again = _state(directory)
        found = [table.document() for _, _, table in state._files]
        assert _copy(found) == _copy([table.document() for _, _, table in again._files])


def _run_of(topic: str, record: bytes, at: int) -> Run:
    kernel = RunKernel(record_max=1 << 30, body_max=1 << 30)
    assert kernel.scan(record, 0, len(record), at) == 1
    views = memoryview(kernel.units)[: kernel.units_end], memoryview(kernel.hashes), memoryview(kernel.key_offsets)
    return Run(topic, 0, at, 1, at, at + len(record), 0, *views, 0, kernel.keys_end, memoryview(record))  # type: ignore[arg-type]


# ---- snapshots

_SNAPSHOTS: dict[str, Any] = {
    "topics.json": {"topicConfigTable": {"orders": TopicTable().event_set(TopicConfig("orders"))["topic"]}},
    "subscriptionGroup.json": {
        "subscriptionGroupTable": {"g": GroupTable().event_set("g")["group"]},
        "forbiddenTable": {},
    },
    "consumerOffset.json": {
        "offsetTable": {"orders@g": {"0": 5, "1": 7}},
        "sinceTable": {"orders@g": 5},
        "eraTable": {"orders@g": {"0": 9}},
    },
    "queueLocks.json": {"lockTable": {"g": {"orders": {"0": "client"}}}},
    "security.json": {"rows": event_merged(SECURITY_ROWS)["rows"]},
    "queryOffsets.json": {"queryTable": {"q": {"document": "{}", "keptAtMs": 5}}},
    "producerSequences.json": {"producers": [["p", "orders", 0, 5, 100, 7, [[0, 5, 0, 0, False]]]]},
    "popLeases.json": _popped(),
}
_TABLES: dict[str, Callable[[], Any]] = {
    "topics.json": TopicTable,
    "subscriptionGroup.json": GroupTable,
    "consumerOffset.json": OffsetTable,
    "queueLocks.json": QueueLockTable,
    "security.json": SecurityTable,
    "queryOffsets.json": QueryOffsets,
    "producerSequences.json": lambda: ProducerTable(entries_max=100, retention_ms=1000),
    "popLeases.json": PopTable,
}
assert set(_TABLES) == set(FILE_NAMES.values())


def _snapshot(draw: Random) -> bytes:
    """The number of a table, and the text of its file, whose checksum is right more often than not."""
    names = list(_SNAPSHOTS)
    number = draw.randrange(len(names))
    document = mutated_document(_copy(_SNAPSHOTS[names[number]]), draw)
    if not isinstance(document, dict) or draw.randrange(6) == 0:
        return b"%d " % number + document_bytes(document, draw)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "snapshot.json"
        try:
            write_snapshot(str(path), document, draw.choice((0, 5, 1 << 40)))
        except UnicodeEncodeError:
            return b"%d {}" % number
        data = bytearray(path.read_bytes())
    return b"%d " % number + bytes(mutated(data, draw) if draw.randrange(3) == 0 else data)


def check_snapshot(data: bytes, _: Random) -> None:
    """What a table holds is the same when it is written and loaded again."""
    number, _space, text = data.partition(b" ")
    make = _TABLES[list(_SNAPSHOTS)[int(number) if number.isdigit() and int(number) < len(_SNAPSHOTS) else 0]]
    found = parse_snapshot(text.decode("utf-8", "replace"))
    if found is None:
        return
    table = make()
    table.load(found.document)
    document = table.document()
    again = make()
    again.load(_copy(document))
    assert _copy(again.document()) == _copy(document)


# ---- registrations, replies, small files


def _registration(draw: Random) -> bytes:
    def one(*usual: Any, odd: tuple[Any, ...]) -> Any:
        return draw.choice(odd if draw.randrange(16) == 0 else usual)

    numbers = {"odd": (-1, 1 << 40)}
    topics = tuple(
        (one("orders", "a", odd=("x" * 300, "../x")), one(8, 1, **numbers), one(8, 0, **numbers), one(6, 2, **numbers))
        for _ in range(draw.randrange(3))
    )
    made = RegisterBroker(
        one("zenit", odd=("other", "")), one("broker-a", "broker-b", odd=("x" * 300,)), one(0, 1, **numbers),
        one("10.0.0.1:10911", "10.0.0.2:1", odd=("",)), one(0, 1, 5, odd=(1 << 62,)), topics, one("", "x:1", odd=("\0",)),
    )  # fmt: skip
    frames = [encode_request(made, 1, timeout_ms=5)]
    kind = draw.choice((BrokerHeartbeat, RegisterTopics, UpdateTopics))
    frames.append(encode_request(instance_of(kind, draw), 1, timeout_ms=5))
    changed = [bytes(mutated(bytearray(each), draw))[:FRAME_BYTES_MAX] for each in frames]
    return b"".join(len(frame).to_bytes(2, "big") + frame for frame in changed)


def check_registration(data: bytes, draw: Random) -> None:
    """A route table that took it gives routes that can be sent, and forgets who falls silent."""
    routes, at = RouteTable(heartbeat_timeout_ms=1000, brokers_max=4, topics_max=4), 0
    routes.on_register(RegisterBroker("zenit", "broker-a", 0, "10.0.0.9:1", 1, (("orders", 8, 8, 6),), ""), 0)
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        request = decode_request(data[at + 2 : at + 2 + size])[0]
        at += 2 + size
        if isinstance(request, RegisterBroker):
            routes.on_register(request, draw.choice((0, 5)))
        elif isinstance(request, BrokerHeartbeat):
            routes.on_heartbeat(request, 5)
        elif isinstance(request, RegisterTopics):
            routes.on_more_topics(request, 5)
        elif isinstance(request, UpdateTopics):
            routes.on_update_topics(request, 5)
    for topic in routes.topics():
        routes.route(topic)
    routes.on_scan(400)
    routes.on_scan(400 + 499)
    for now_ms in range(1000, 5000, 400):
        routes.on_scan(now_ms)
    assert routes.topics() == ()


def check_reply_document(data: bytes, _: Random) -> None:
    """An object."""
    assert isinstance(document_of(data), dict)


def check_retry_policy(data: bytes, _: Random) -> None:
    """Delays that are numbers in their range, however often a message came."""
    policy = document_of(data)
    backoff = parse_backoff(policy, (1000, 5000, 10_000))
    assert all(0 < backoff.delay_ms(retries) <= 30 * 86_400_000 for retries in (0, 1, 5, 16, 1 << 31))


def check_cluster_record(data: bytes, _: Random) -> None:
    """A record, or a refusal that names the file."""
    decode_cluster_record(data.decode("utf-8", "replace"), "cluster.json")


def check_broadcast_offsets(data: bytes, _: Random) -> None:
    """Offsets that are numbers."""
    kept, _ = _parsed("offsets.json", document_of(data))
    assert all(min(offsets) >= 0 for offsets in kept.values())


# ---- what waits for its time


def _waiting(draw: Random) -> bytes:
    known = waiting_properties("orders", draw.choice((0, 5)), draw.choice((0, 5, 10**17, 10**30)))
    text = encode_properties(
        known | draw.choice(({}, {"TIMER_DEL_UNIQKEY": "x"}, {"DELAY": "3"}, {"TIMER_DELAY_SEC": "9" * 18}))
    )
    return bytes(mutated(bytearray(text + properties(draw)[:2000]), draw))[:32767]


def check_waiting(data: bytes, draw: Random) -> None:
    """What begins to wait, is rolled on and is delivered is a whole record each time."""
    topic = draw.choice((TIMER_TOPIC, SCHEDULE_TOPIC))
    (message,) = decode_batch(encode_record(topic=topic.encode(), body=b"x", properties=data, physical_offset=1 << 40))
    due_ms = due_of(topic, message.properties, 5)
    assert due_ms is None or 0 <= due_ms < 10**18
    made = [delivered_record(message, "orders", 0, HOST_BYTES), rolled_record(message, 10**17, HOST_BYTES)]
    made.append(waiting_record(message, "orders", 3, 5, HOST_BYTES))
    for record in made:
        assert len(decode_batch(record)) == 1
    DelayRules((1000, 5000), 1 << 40).deliver_at(message.properties, 5)
    real_queue(message.properties)


_KEPT_OFFSETS: Any = {"offsets": [["t", "b", 0, 5, 0], ["t", "b", 1, 7, 9]], "cluster_id": "9f1c2b3a4d5e6f70"}
_CLUSTER_FILE = json.loads(encode_cluster_file("5f0c", is_settled=True).partition("\n")[0])
_EVENT = json.loads(event_line(Event(ELECTED, 7, (("group", "g"), ("epoch", 3))), role="controller", node="c"))
_POLICIES = (
    {"type": "CUSTOMIZED"},
    {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}},
    {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1, "max": 2, "multiplier": 3}},
)
_CLUSTER = {
    "cluster": "zenit",
    "namesrv": "h:1",
    "zookeeper": "",
    "processes": [
        {"role": "broker", "name": "a", "pid": 7, "birth": "x", "address": "h:2", "store_dir": "d", "settings": ["a=1"]}
    ],
    "shape": {},
}

_QUERY = Criteria(topic="t", key="k")
_CURSOR = [1, _QUERY.mark(), {"broker-a": [500, 20261126000000000, 7], "broker-b": [0, 0, 0], "broker-c": [9, 0, 0, 2]}]


def check_query_cursor(data: bytes, draw: Random) -> None:
    """The cursor that a query is given: a text from wherever the user kept it."""
    cursor = base64.urlsafe_b64encode(data).decode().rstrip("=") if draw.randrange(4) else data.decode("latin-1")
    merge = PageMerge(_QUERY, cursor, ["broker-a"], 8)
    again = merge.page().cursor
    if again is not None:
        assert PageMerge(_QUERY, again, ["broker-a"], 8).page().cursor == again


DOCUMENT_TARGETS = (
    Target("group-node", documents(json.loads(encode_node(_NODE))), check_group_node, (GroupNodeDamaged,)),
    Target("group-seen", documents(json.loads(encode_seen(_SEEN))), check_group_seen, (GroupNodeDamaged,)),
    Target("event-line", documents(_EVENT), check_event_line, ()),
    Target("traceparent", _traceparent, check_traceparent, ()),
    Target("cluster-file", checked_lines(_CLUSTER_FILE), check_cluster_file, (StoreFormatError,)),
    Target("state-events", _events, check_events, (StoreFormatError,)),
    Target("state-snapshots", _snapshot, check_snapshot, (StoreFormatError,)),
    Target(
        "registration", _registration, check_registration,
        (RemoteProtocolError, InvalidParameter, InvalidName, NotMaster, BrokerBusy),
    ),
    Target("reply-document", documents({"queues": [1, {"a": None}]}), check_reply_document, (RemoteProtocolError,)),
    Target("query-cursor", documents(_CURSOR), check_query_cursor, (InvalidParameter,)),
    Target("retry-policy", documents(*_POLICIES), check_retry_policy, (InvalidParameter, RemoteProtocolError)),
    Target("cluster-record", documents(_CLUSTER), check_cluster_record, (StoreFormatError,)),
    Target(
        "broadcast-offsets", documents(_KEPT_OFFSETS), check_broadcast_offsets,
        (StoreFormatError, RemoteProtocolError),
    ),
    Target(
        "waiting-records", _waiting, check_waiting,
        (MessageIllegal, MessageTooLarge, InvalidParameter, CorruptRecordError),
    ),
)  # fmt: skip
