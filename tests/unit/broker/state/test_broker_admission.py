"""Why a send or a read of a queue is refused."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.admission import (
    check_keyed,
    queue_count,
    queues_to_create,
    readable,
    send_refusal,
    takes_keyed,
)
from zenitmq.broker.state.topic_table import TopicTable
from zenitmq.model.errors import InvalidName, MessageIllegal, NoPermission, QueueNotFound, TopicNotFound
from zenitmq.model.names import TRACE_TOPIC
from zenitmq.model.route import TopicConfig
from zenitmq.record.kernel import encode_record

COMPACTED = TopicConfig("state", 2, 2, attributes={"cleanup.policy": "COMPACTION"})


@pytest.fixture
def topics() -> TopicTable:
    table = TopicTable()
    for config in (TopicConfig("t", 4, 2), TopicConfig("ro", permission=4), TopicConfig("wo", permission=2), COMPACTED):
        table.on_event(table.event_set(config), {}, 100)
    return table


@pytest.mark.parametrize(
    ("topic", "queue_id", "kind"),
    [
        ("t", 2, QueueNotFound),
        ("t", -1, QueueNotFound),
        ("missing", 0, TopicNotFound),
        ("ro", 0, NoPermission),
        ("state", 1, MessageIllegal),
        ("state", 2, QueueNotFound),
        ("TBW102", 0, NoPermission),
        ("rmq_sys_zenit_topics", 0, NoPermission),
    ],
)
def test_a_send_is_refused_for_its_reason(topics: TopicTable, topic: str, queue_id: int, kind: type[Exception]) -> None:
    assert type(send_refusal(topics, topic, queue_id)) is kind


def test_a_send_creates_an_unknown_topic_where_it_may(topics: TopicTable) -> None:
    assert queues_to_create(topics, "missing", 3, 4) == 4
    for topic, queue_id, queues, kind in (
        ("missing", 4, 4, TopicNotFound),
        ("missing", -1, 4, TopicNotFound),
        ("missing", 0, 0, TopicNotFound),
        ("t", 2, 4, QueueNotFound),
        ("ro", 0, 4, NoPermission),
    ):
        with pytest.raises(kind):
            queues_to_create(topics, topic, queue_id, queues)


@pytest.mark.parametrize("topic", ["../etc", "a\0b", "x" * 128, "", "a b", "ü"])
def test_what_is_no_topic_name_is_told_so(topics: TopicTable, topic: str) -> None:
    with pytest.raises(InvalidName):
        send_refusal(topics, topic, 0)


@pytest.mark.parametrize(
    ("topic", "queue_id", "kind"),
    [("t", 4, QueueNotFound), ("t", -1, QueueNotFound), ("missing", 0, TopicNotFound), ("wo", 0, NoPermission)],
)
def test_a_read_is_refused_for_its_reason(topics: TopicTable, topic: str, queue_id: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        readable(topics, topic, queue_id)


def test_read_queues_beyond_the_write_queues_are_readable(topics: TopicTable) -> None:
    assert readable(topics, "t", 3).name == "t"


def test_the_trace_topic_is_open_to_clients_and_is_routed(topics: TopicTable) -> None:
    assert type(send_refusal(topics, TRACE_TOPIC, 0)) is TopicNotFound
    topics.on_event(topics.event_set(TopicConfig(TRACE_TOPIC, 1, 1)), {}, 100)
    assert topics.write_queues[TRACE_TOPIC] == 1
    assert TRACE_TOPIC in {name for name, *_ in topics.registered()}
    assert type(send_refusal(topics, TRACE_TOPIC, 1)) is QueueNotFound


def test_what_is_delivered_later_finds_as_many_queues_as_there_are(topics: TopicTable) -> None:
    assert [queue_count(topics, topic) for topic in ("t", "missing")] == [2, 0]


def test_a_compacted_topic_takes_messages_with_one_key_each(topics: TopicTable) -> None:
    assert takes_keyed(topics, "state", 1)
    assert not any(takes_keyed(topics, *queue) for queue in (("state", 2), ("state", -1), ("t", 0), ("missing", 0)))
    assert sorted(topics.compacted_queues()) == [("state", 0), ("state", 1)]

    def record(keys: str) -> bytes:
        properties = f"KEYS\x01{keys}\x02".encode() if keys else b""
        return encode_record(topic=b"state", body=b"", properties=properties, born_timestamp_ms=1)

    check_keyed("state", record("a") + record("b"))
    for keys in ("", "a b", "a ", " "):
        with pytest.raises(MessageIllegal, match="exactly one key"):
            check_keyed("state", record("a") + record(keys))
    check_keyed("state", b"no record")  # whoever stores it refuses it
    topics.on_event(topics.event_deleted("state"), {}, 200)
    assert topics.compacted_queues() == []
