"""Each request, asked of a real broker over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import (
    GroupNotFound,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageNotFound,
    NoPermission,
    OffsetOutOfRange,
    TopicNotFound,
    ZenitError,
)
from zenitmq.model.get_status import GetStatus
from zenitmq.remoting import commands

Record = Callable[..., bytes]


def bodies(messages: list[Any]) -> list[bytes]:
    return [message.body for message in messages]


def test_what_is_sent_is_pulled_in_order(broker: Any, record: Record) -> None:
    broker.create("trades")
    first = broker.send("trades", *(record("trades", b"%d" % number) for number in range(10)))
    second = broker.send("trades", record("trades", b"10"))
    assert (first.queue_offset, second.queue_offset) == (0, 10)
    reply, messages = broker.pull("trades")
    assert (reply.status, reply.next_offset, reply.min_offset, reply.max_offset) == (GetStatus.FOUND, 11, 0, 11)
    assert bodies(messages) == [b"%d" % number for number in range(11)]
    assert [message.queue_offset for message in messages] == list(range(11))
    assert messages[10].physical_offset == second.physical_offset


def test_tags_select_and_bounds_bound(broker: Any, record: Record) -> None:
    from zenitmq.model.tag_hash import java_hash

    broker.create("trades")
    broker.send(
        "trades", *(record("trades", b"%d" % number, tags="even" if number % 2 == 0 else "odd") for number in range(6))
    )
    reply, messages = broker.pull("trades", tag_codes=(java_hash("odd"),))
    assert (bodies(messages), reply.next_offset) == ([b"1", b"3", b"5"], 6)
    reply, messages = broker.pull("trades", max_messages=2)
    assert (len(messages), reply.next_offset) == (2, 2)
    reply, messages = broker.pull("trades", max_bytes=1)
    assert (len(messages), reply.next_offset) == (1, 1)


def test_wrong_offsets_tell_where_to_go_on(broker: Any, record: Record) -> None:
    broker.create("trades")
    assert broker.pull("trades", 5)[0].next_offset == 0
    broker.send("trades", record("trades"))
    statuses = [
        (broker.pull("trades", offset)[0].status, broker.pull("trades", offset)[0].next_offset) for offset in (1, 2, -1)
    ]
    assert statuses == [
        (GetStatus.OFFSET_OVERFLOW_ONE, 1),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 0),
        (GetStatus.OFFSET_TOO_SMALL, 0),
    ]


def test_a_pull_waits_for_the_next_message(broker: Any, record: Record) -> None:
    broker.create("trades")
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(broker.pull("trades", suspend_ms=5000)))
    waiting.start()
    while broker.ask(commands.GetBrokerStatistics())["pulls"]["parked"] == 0:
        time.sleep(0.005)
    sent = time.monotonic()
    broker.send("trades", record("trades", b"late"))
    waiting.join(5)
    assert time.monotonic() - sent < 2
    assert bodies(found[0][1]) == [b"late"]


def test_a_pull_that_finds_nothing_is_answered_when_its_time_ends(broker: Any) -> None:
    broker.create("trades")
    began = time.monotonic()
    reply, messages = broker.pull("trades", suspend_ms=300)
    assert 0.25 < time.monotonic() - began < 3
    assert (reply.status, messages) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, [])


def test_messages_are_found_by_key_and_by_position(broker: Any, record: Record) -> None:
    broker.create("trades")
    sent = [broker.send("trades", record("trades", b"%d" % number, key="k")) for number in range(3)]
    reply, payload = broker.call(commands.QueryMessages("trades", "k"))
    assert reply.count == 3
    assert payload.index(b"2", 80) < len(payload)
    reply, payload = broker.call(commands.QueryMessages("trades", "k", max_messages=1))
    assert reply.count == 1
    assert broker.call(commands.QueryMessages("trades", "other"))[0].count == 0
    for hidden in ("RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_zenit_topics", "nobody"):
        with pytest.raises(TopicNotFound):
            broker.call(commands.QueryMessages(hidden, "k"))
    reply, payload = broker.call(commands.ViewMessage(sent[1].physical_offset))
    assert (reply.count, b"1" in payload) == (1, True)
    for wrong in (sent[1].physical_offset + 1, -1, 1 << 40):
        with pytest.raises(MessageNotFound):
            broker.call(commands.ViewMessage(wrong))


def test_offsets_by_time_and_limits(broker: Any, record: Record) -> None:
    broker.create("trades")
    stamps = []
    for _ in range(3):
        stamps.append(broker.send("trades", record("trades")).store_timestamp_ms)
        time.sleep(0.01)
    assert broker.call(commands.GetMaxOffset("trades", 0))[0].offset == 3
    assert broker.call(commands.GetMinOffset("trades", 0))[0].offset == 0
    assert broker.call(commands.SearchOffset("trades", 0, stamps[1]))[0].offset == 1
    assert broker.call(commands.SearchOffset("trades", 0, stamps[2] + 1000))[0].offset == 3


def test_topics_change_by_rule(broker: Any) -> None:
    broker.create("trades", queues=4)
    broker.create("trades", queues=8, attributes=(("message.type", "NORMAL"),))
    with pytest.raises(InvalidParameter):
        broker.create("trades", queues=4)
    with pytest.raises(NoPermission):
        broker.create("TBW102")
    with pytest.raises(InvalidName):
        broker.create("../x")
    (topic,) = broker.ask(commands.GetTopics())["topics"]
    incarnation = topic.pop("incarnation")
    broker.create("trades", queues=8)  # a change of it makes no other topic
    assert broker.ask(commands.GetTopics())["topics"][0]["incarnation"] == incarnation > 0
    assert [topic] == [
        {
            "name": "trades",
            "read_queues": 8,
            "write_queues": 8,
            "permission": 6,
            "order": False,
            "attributes": {"message.type": "NORMAL"},
            "system": False,
        }
    ]


def test_a_deleted_topic_is_gone_with_its_messages_and_offsets(broker: Any, record: Record) -> None:
    broker.create("trades")
    broker.send("trades", record("trades"))
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 1),)))
    broker.call(commands.DeleteTopic("trades"))
    for request in (
        commands.DeleteTopic("trades"),
        commands.GetTopicStatistics("trades"),
        commands.GetMaxOffset("trades", 0),
    ):
        with pytest.raises(TopicNotFound):
            broker.call(request)
    broker.create("trades")
    assert broker.call(commands.GetMaxOffset("trades", 0))[0].offset == 0
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == -1
    broker.send("trades", record("trades", b"again"))
    assert bodies(broker.pull("trades")[1]) == [b"again"]
    broker.restart()
    assert bodies(broker.pull("trades")[1]) == [b"again"]


@pytest.mark.parametrize("value", ["URGENT", "priority", ""])
def test_a_topic_of_an_unknown_type_is_refused(broker: Any, value: str) -> None:
    with pytest.raises(InvalidParameter, match=r"message\.type.*PRIORITY"):
        broker.create("trades", attributes=(("message.type", value),))
    with pytest.raises(TopicNotFound):
        broker.call(commands.GetTopicStatistics("trades"))


def test_an_attribute_of_a_former_broker_stays_and_a_new_one_must_be_known(broker: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"cleanup\.policy, which it resembles"):
        broker.create("trades", attributes=(("cleanup.polcy", "COMPACTION"),))
    broker.create("old", queues=1)
    broker.ask(commands.GetTopics())
    broker.broker._state.topic_table.configs["old"].attributes["my.note"] = "x"
    broker.create("old", queues=2, attributes=(("my.note", "x"), ("owner", "shop")))
    with pytest.raises(InvalidParameter, match="without a dot"):
        broker.create("old", queues=2, attributes=(("my.note", "y"),))


def test_topic_statistics_tell_what_each_queue_holds(broker: Any, record: Record) -> None:
    broker.create("trades")
    sent = broker.send("trades", record("trades"), record("trades"), queue_id=1)
    rows = broker.ask(commands.GetTopicStatistics("trades"))["queues"]
    assert rows == [
        {"queue_id": 0, "min_offset": 0, "max_offset": 0, "last_stored_at_ms": None},
        {"queue_id": 1, "min_offset": 0, "max_offset": 2, "last_stored_at_ms": sent.store_timestamp_ms},
    ]


def test_commits_survive_a_restart_and_tell_the_lag(broker: Any, record: Record) -> None:
    broker.create("trades")
    broker.send("trades", *[record("trades")] * 5)
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == -1
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 3), ("trades", 1, 0))))
    broker.restart()
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == 3
    rows = broker.ask(commands.GetConsumeStatistics("g"))["queues"]
    assert [(row["consumer_queue_offset"], row["broker_queue_offset"], row["lag"]) for row in rows] == [
        (3, 5, 2),
        (0, 0, 0),
    ]
    assert rows[0]["lag_seconds"] >= 0
    assert rows[1]["lag_seconds"] == 0


def test_where_a_group_goes_on_is_asked_of_many_queues_at_once(broker: Any, record: Record) -> None:
    broker.create("trades", queues=4)
    broker.send("trades", *[record("trades")] * 5, queue_id=1)
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 1, 3), ("trades", 3, 0))))
    assert broker.call(commands.GetBeginOffsets("g", "trades", (3, 0, 1)))[0].offsets == ((0, 0), (-1, 0), (3, 0))
    assert broker.call(commands.GetBeginOffsets("other", "trades", (1,)))[0].offsets == ((-1, 0),)
    assert broker.call(commands.GetBeginOffsets("g", "trades", ()))[0].offsets == ()
    with pytest.raises(InvalidParameter):
        broker.call(commands.GetBeginOffsets("g", "trades", (0, 4)))
    with pytest.raises(TopicNotFound):
        broker.call(commands.GetBeginOffsets("g", "nope", (0,)))


@pytest.mark.parametrize("offsets", [(("nope", 0, 1),), (("trades", 9, 1),), (("trades", 0, -2),)])
def test_a_wrong_commit_is_refused_whole(broker: Any, offsets: tuple[tuple[str, int, int], ...]) -> None:
    broker.create("trades")
    with pytest.raises((TopicNotFound, InvalidParameter)):
        broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 1), *offsets)))
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == -1


def test_a_bounded_commit_goes_to_the_end_of_its_queue_and_not_beyond(broker: Any, record: Record) -> None:
    """Others may: their queue may have lost its last messages with its master."""
    broker.create("trades", queues=1)
    broker.send("trades", *[record("trades")] * 4)
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 4),), bounded=True))
    with pytest.raises(OffsetOutOfRange, match=r"offset 5 of trades:0 is outside \[0, 4\]"):
        broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 5),), bounded=True))
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == 4
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 5),)))


@pytest.mark.parametrize(
    ("to", "value", "expected"),
    [("earliest", 0, 0), ("latest", 0, 4), ("offset", 2, 2), ("offset", 9, 4), ("time", 1 << 50, 4), ("time", 0, 0)],
)
def test_offsets_are_reset(broker: Any, record: Record, to: str, value: int, expected: int) -> None:
    broker.create("trades", queues=1)
    broker.send("trades", *[record("trades")] * 4)
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 1),)))
    reset = commands.ResetOffsets("g", "trades", to, value, dry_run=True)
    rows = [{"topic": "trades", "queue_id": 0, "from": 1, "to": expected}]
    assert broker.ask(reset)["queues"] == rows
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == 1
    assert broker.ask(commands.ResetOffsets("g", "trades", to, value))["queues"] == rows
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == expected


@pytest.mark.parametrize(
    ("start", "value", "offsets", "since_ms"),
    [("first", 0, [0, 0], 0), ("time", 1, [0, 0], 1), ("time", 1 << 50, [4, 0], 1 << 50), ("last", 0, [4, 0], None)],
)
def test_where_a_group_begins_is_recorded_once(
    broker: Any, record: Record, start: str, value: int, offsets: list[int], since_ms: int | None
) -> None:
    broker.create("trades", queues=2)
    stored = broker.send("trades", *[record("trades")] * 4)
    assert broker.call(commands.StartConsuming("g", "trades", ""))[0].since_ms == -1
    begun = broker.call(commands.StartConsuming("g", "trades", start, value))[0].since_ms
    assert begun == since_ms if since_ms is not None else begun >= stored.store_timestamp_ms
    broker.send("trades", *[record("trades")] * 3)
    again = broker.call(commands.StartConsuming("g", "trades", "last"))[0].since_ms
    assert again == begun
    broker.restart()
    assert [broker.call(commands.QueryConsumerOffset("g", "trades", q))[0].offset for q in (0, 1)] == offsets
    assert broker.call(commands.StartConsuming("g", "trades", ""))[0].since_ms == begun


def test_a_wrong_start_is_refused(broker: Any) -> None:
    broker.create("trades")
    for request, error in (
        (commands.StartConsuming("g", "nope", "last"), TopicNotFound),
        (commands.StartConsuming("g", "trades", "middle"), InvalidParameter),
        (commands.StartConsuming("g", "trades", "time", -1), InvalidParameter),
        (commands.StartConsuming("a/b", "trades", "last"), InvalidName),
    ):
        with pytest.raises(error):
            broker.call(request)
    assert broker.call(commands.StartConsuming("g", "trades", ""))[0].since_ms == -1


def test_groups_are_created_listed_and_deleted(broker: Any) -> None:
    broker.create("trades")
    broker.call(commands.CreateGroup("made", (("retryMaxTimes", "3"),)))
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 0),)))
    groups = broker.ask(commands.GetGroups())["groups"]
    assert [(group["name"], group["members"], group["topics"]) for group in groups] == [
        ("g", [], ["trades"]),
        ("made", [], []),
    ]
    assert groups[1]["attributes"]["retryMaxTimes"] == 3
    broker.call(commands.DeleteGroup("g"))
    for request in (
        commands.DeleteGroup("g"),
        commands.GetConsumeStatistics("g"),
        commands.ResetOffsets("g", "trades", "latest"),
    ):
        with pytest.raises(GroupNotFound):
            broker.call(request)
    assert broker.call(commands.QueryConsumerOffset("g", "trades", 0))[0].offset == -1


def heartbeat(client_id: str, *groups: str) -> commands.Heartbeat:
    return commands.Heartbeat(
        client_id, ("p",), tuple((group, "CLUSTERING", (("trades", "TAG", "*"),)) for group in groups)
    )


def test_members_come_go_and_are_told(serve: Callable[..., Any]) -> None:
    broker = serve(heartbeat_ms=100)
    changed: list[str] = []
    broker.client.on_request(commands.ConsumersChanged, lambda _, request, __: changed.append(request.group))
    done = threading.Semaphore(0)
    problems: list[ZenitError | None] = []

    def on_reply(reply: object, payload: bytes, error: ZenitError | None) -> None:
        problems.append(error)
        done.release()

    for client_id in ("b", "a"):
        broker.client.send_nowait(broker.address, heartbeat(client_id, "g"), None, timeout_ms=5000, on_reply=on_reply)
        assert done.acquire(timeout=5)
    assert problems == [None, None]
    assert broker.call(commands.GetConsumerList("g"))[0].client_ids == ("a", "b")
    assert [group["name"] for group in broker.ask(commands.GetGroups())["groups"]] == ["g"]
    broker.call(commands.UnregisterClient("b"))
    assert broker.call(commands.GetConsumerList("g"))[0].client_ids == ("a",)
    deadline = time.monotonic() + 5
    while broker.call(commands.GetConsumerList("g"))[0].client_ids and time.monotonic() < deadline:
        time.sleep(0.05)
    assert broker.call(commands.GetConsumerList("g"))[0].client_ids == ()
    while len(changed) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert changed == ["g"] * 3  # two came, one went; their one connection is told once of each


def test_statistics_and_configuration_are_told(broker: Any, record: Record) -> None:
    broker.create("trades")
    broker.send("trades", *[record("trades")] * 7)
    statistics = broker.ask(commands.GetBrokerStatistics())
    assert statistics["sends"]["messages"] == 7
    assert statistics["kernel"] in ("compiled", "interpreted")
    assert statistics["memory_bytes"] > 1 << 20
    assert statistics["positions"]["confirm_offset"] == statistics["positions"]["written_offset"] > 7 * 91
    assert statistics["loop"]["lanes"]["send"]["handled"] == 1
    config = broker.ask(commands.GetBrokerConfig())
    assert (config["name"], config["store.segment_bytes"]) == ("broker-a", 1 << 20)


def test_a_send_creates_a_topic_only_where_that_is_allowed(serve: Callable[..., Any], record: Record) -> None:
    broker = serve(auto_create_topics=True, default_topic_queues=3)
    broker.send("fresh", record("fresh", b"x"), queue_id=2)
    assert bodies(broker.pull("fresh", queue_id=2)[1]) == [b"x"]
    with pytest.raises(TopicNotFound):
        broker.send("other", record("other"), queue_id=3)
    with pytest.raises(InvalidName):
        broker.send("a b", record("a b"))
    broker.restart()
    assert [topic["name"] for topic in broker.ask(commands.GetTopics())["topics"]] == ["fresh"]
    assert bodies(broker.pull("fresh", queue_id=2)[1]) == [b"x"]


@pytest.mark.parametrize("topic", ["rmq_sys_zenit_topics", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX", "TBW102"])
def test_no_producer_makes_a_record_of_a_system_topic(broker: Any, record: Record, topic: str) -> None:
    """Not by a request that names it, nor by records that do, nor by one that hides in a body."""
    broker.create("trades")
    for request in (
        commands.SendMessages(topic, 0, 1),
        commands.SendDelayed(topic, 0, 1),
        commands.SendSequenced(topic, 0, 1, "group", "producer", 0),
        commands.SendDelayedSequenced(topic, 0, 1, "group", "producer", 0),
    ):
        with pytest.raises((NoPermission, MessageIllegal)):
            broker.call(request, record(topic))
    event = record(topic, b'{"event":"deleted","topic":"trades"}')
    for request in (commands.SendMessages("trades", 0, 1), commands.SendDelayed("trades", 0, 1)):
        with pytest.raises(MessageIllegal):
            broker.call(request, event)
    with pytest.raises(MessageIllegal):
        broker.call(commands.SendMessages("trades", 0, 2), record("trades") + event)
    broker.send("trades", record("trades", b"x" + event))
    broker.restart()
    assert broker.call(commands.GetMaxOffset("trades", 0))[0].offset == 1
    assert {name for name in broker.broker._store.queues() if name != "trades"} <= {"rmq_sys_zenit_topics"}
    assert broker.broker._store.max_offset("rmq_sys_zenit_topics", 0) == 1  # that the topic was made
