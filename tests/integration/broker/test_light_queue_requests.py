"""Light queues, asked of a real broker over a socket: they have no settings, and are read as any queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from store_kit import light

from zenitmq.model.errors import InvalidParameter, MessageIllegal, NoPermission, TooManyLightQueues, TopicNotFound
from zenitmq.model.get_status import GetStatus
from zenitmq.model.properties import encode_properties
from zenitmq.model.route import PERMISSION_WRITE
from zenitmq.model.topics.light_queues import LITE_TOPIC, light_properties
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.remoting import commands

A, B = "%LMQ%a", "%LMQ%$chats$b"


@pytest.fixture(params=["file", "rocksdb"])
def broker(serve: Callable[..., Any], request: pytest.FixtureRequest) -> Any:
    return serve(store={"consume_queue": request.param, "light_queues_max": 2})


def pull(broker: Any, name: str, offset: int = 0, **more: Any) -> tuple[Any, list[Any]]:
    request = commands.PullMessages("", name, more.pop("queue_id", 0), offset, 100, 1 << 20, **more)
    reply, payload = broker.call(request)
    return reply, list(decode_batch(payload, light_queue=name))


def test_a_light_queue_is_pulled_with_its_own_offsets(broker: Any) -> None:
    broker.create("t")
    for number in range(6):
        names = (A, "%LMQ%b") if number % 2 else (A,)
        broker.send("t", light("t", b"%d" % number, *names), queue_id=number % 2)
    reply, messages = pull(broker, A)
    assert (reply.status, reply.next_offset, reply.max_offset) == (GetStatus.FOUND, 6, 6)
    assert [(m.queue_offset, m.body) for m in messages] == [(number, b"%d" % number) for number in range(6)]
    assert {(m.topic, m.queue.topic, m.queue.queue_id) for m in messages} == {("t", A, 0)}
    broker.restart()
    assert [m.body for m in pull(broker, A, 4)[1]] == [b"4", b"5"]
    assert [broker.call(ask(A, 0))[0].offset for ask in (commands.GetMinOffset, commands.GetMaxOffset)] == [0, 6]
    assert broker.call(commands.SearchOffset(A, 0, 0))[0].offset == 0
    statistics = broker.ask(commands.GetBrokerStatistics())
    assert A not in str(statistics.get("topics", ""))


def test_one_of_a_lite_topic_is_read_as_its_parent_may_be(broker: Any) -> None:
    broker.create("chats", attributes=(("message.type", "LITE"),))
    properties = {**light_properties([B]), LITE_TOPIC: "b"}
    broker.send("chats", encode_record(topic=b"chats", body=b"x", properties=encode_properties(properties)))
    assert [m.body for m in pull(broker, B)[1]] == [b"x"]
    broker.call(commands.CreateTopic("chats", 2, 2, permission=PERMISSION_WRITE))
    with pytest.raises(NoPermission):
        pull(broker, B)


def test_a_pull_waits_for_the_next_message_of_a_light_queue(broker: Any) -> None:
    broker.create("t")
    broker.send("t", light("t", b"0", A))
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(pull(broker, A, 1, suspend_ms=5000)))
    waiting.start()
    deadline = time.monotonic() + 5
    while broker.ask(commands.GetBrokerStatistics())["pulls"]["parked"] == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    broker.send("t", light("t", b"1", A), queue_id=1)
    waiting.join(5)
    assert [(m.queue_offset, m.body) for m in found[0][1]] == [(1, b"1")]


def test_an_idle_light_queue_is_watched_as_any_queue(broker: Any) -> None:
    broker.create("t")
    broker.send("t", light("t", b"0", A))
    asked = commands.AwaitArrivals("w", 1, (A, B, "%LMQ%none"), ((0, 0, 1), (1, 0, 0), (2, 0, 0)), 10)
    reply, _ = broker.call(asked)
    assert [reply.topics[at] for at, _ in reply.queues] == [B, "%LMQ%none"], "pulls there are refused"
    broker.send("t", light("t", b"1", A))
    reply, _ = broker.call(commands.AwaitArrivals("w", 2, wait_ms=5000))
    assert [reply.topics[at] for at, _ in reply.queues] == [A]


def test_how_far_a_group_is_in_a_light_queue_is_kept(broker: Any) -> None:
    broker.create("t")
    broker.send("t", light("t", b"0", A))
    asked = commands.QueryConsumerOffset("g", A, 0)
    assert broker.call(asked)[0].offset == -1
    offsets = ((A, 0, 1), ("%LMQ%gone", 0, 7), (A, 1, 7), ("t", 0, 1))
    assert broker.call(commands.UpdateConsumerOffsets("g", offsets, incarnations=(9, 0, 0, 0)))[0].moved == ()
    broker.restart()
    assert broker.call(asked)[0].offset == 1
    with pytest.raises(TopicNotFound):
        broker.call(commands.QueryConsumerOffset("g", "%LMQ%gone", 0))
    rows = broker.ask(commands.GetConsumeStatistics("g"))["queues"]
    assert next((row["topic"], row["consumer_queue_offset"], row["lag"]) for row in rows) == (A, 1, 0)


def test_what_is_wrong_is_told(broker: Any) -> None:
    broker.create("t")
    with pytest.raises(TopicNotFound):
        pull(broker, A)
    broker.send("t", light("t", b"0", A, "%LMQ%b"))
    with pytest.raises(TooManyLightQueues, match="light_queues_max"):
        broker.send("t", light("t", b"0", "%LMQ%c"))
    with pytest.raises(TopicNotFound):
        pull(broker, A, queue_id=1)
    with pytest.raises(NoPermission, match="LiteConsumer"):
        broker.call(commands.UpdateConsumerOffsets("g", ((B, 0, 1),)))
    with pytest.raises((TopicNotFound, MessageIllegal, InvalidParameter)):
        broker.send(A, light(A, b"0", A))
    assert pull(broker, A)[0].max_offset == 1
