"""Replies at the broker: stored, pushed to who asked, held for a moment; and what is no reply."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter, MessageIllegal, NoPermission, ZenitError
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.remoting import commands

TOPIC = "zenit_REPLY_TOPIC"
WHO = {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "c-1"}


def reply_record(body: bytes = b"yes", topic: str = TOPIC, properties: dict[str, str] = WHO) -> bytes:
    return encode_record(topic=topic.encode(), body=body, properties=encode_properties(properties))


def send(broker: Any, payload: bytes, topic: str = TOPIC, timeout_ms: int = 10_000) -> commands.ReplyStored:
    stored: commands.ReplyStored = broker.call(commands.SendReplyMessage(topic), payload, timeout_ms)[0]
    return stored


class Asker:
    """The client that asked, as its broker knows it."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.pushed: list[tuple[commands.PushReply, bytes]] = []
        broker.client.on_request(commands.PushReply, lambda _, push, payload: self.pushed.append((push, payload)))

    def say_hello(self) -> None:
        done = threading.Semaphore(0)
        problems: list[ZenitError | None] = []

        def on_reply(reply: object, payload: bytes, error: ZenitError | None) -> None:
            problems.append(error)
            done.release()

        hello = commands.Heartbeat("asker", ("p",), ())
        self._broker.client.send_nowait(self._broker.address, hello, None, timeout_ms=5000, on_reply=on_reply)
        assert done.acquire(timeout=5)
        assert problems == [None]


@pytest.mark.parametrize("flush_mode", ["async", "sync"])
def test_a_reply_is_stored_and_pushed(serve: Callable[..., Any], flush_mode: str) -> None:
    broker = serve(store={"flush_mode": flush_mode})
    asker = Asker(broker)
    asker.say_hello()
    stored = send(broker, reply_record())
    assert stored.is_delivered
    _, (kept,) = broker.pull(TOPIC)
    assert (kept.body, kept.physical_offset, kept.queue_offset) == (b"yes", stored.physical_offset, stored.queue_offset)
    (message,) = until_pushed(asker)
    assert (message.body, message.physical_offset, message.stored_at_ms) == (
        b"yes",
        stored.physical_offset,
        stored.store_timestamp_ms,
    )
    assert broker.ask(commands.GetBrokerStatistics())["replies"] == {"pushed": 1, "undelivered": 0, "held": 0}
    push, _ = asker.pushed[0]
    assert (push.client_id, push.correlation_id, push.broker_name) == ("asker", "c-1", "broker-a")


def test_a_reply_waits_a_moment_for_who_asked(serve: Callable[..., Any]) -> None:
    broker = serve(heartbeat_ms=5000)
    asker = Asker(broker)
    answered: list[commands.ReplyStored] = []
    sending = threading.Thread(target=lambda: answered.append(send(broker, reply_record())))
    sending.start()
    for _ in range(500):
        if broker.pull(TOPIC)[1] if TOPIC in topics(broker) else False:
            break
        threading.Event().wait(0.01)
    asker.say_hello()
    sending.join(10)
    assert [stored.is_delivered for stored in answered] == [True]
    assert [message.body for message in until_pushed(asker)] == [b"yes"]


@pytest.mark.parametrize("timeout_ms", [10_000, 500])
def test_a_reply_nobody_comes_for_is_kept_and_told(serve: Callable[..., Any], timeout_ms: int) -> None:
    broker = serve(heartbeat_ms=100 if timeout_ms == 10_000 else 60_000)
    stored = send(broker, reply_record(), timeout_ms=timeout_ms)
    assert not stored.is_delivered
    assert broker.ask(commands.GetBrokerStatistics())["replies"] == {"pushed": 0, "undelivered": 1, "held": 0}
    assert [message.body for message in broker.pull(TOPIC)[1]] == [b"yes"]


def test_the_replies_outlive_a_restart_and_take_no_plain_sends(broker: Any, record: Callable[..., bytes]) -> None:
    Asker(broker).say_hello()
    send(broker, reply_record(b"1"))
    broker.restart()
    Asker(broker).say_hello()
    send(broker, reply_record(b"2"))
    assert [message.body for message in broker.pull(TOPIC)[1]] == [b"1", b"2"]
    with pytest.raises(NoPermission):
        broker.send(TOPIC, record(TOPIC))


@pytest.mark.parametrize(
    ("payload", "topic", "problem"),
    [
        (reply_record(topic="other"), "other", InvalidParameter),
        (reply_record(), "../../etc", InvalidParameter),
        (reply_record(topic="other"), TOPIC, MessageIllegal),
        (reply_record(properties={"CORRELATION_ID": "c"}), TOPIC, MessageIllegal),
        (reply_record(properties={"REPLY_TO_CLIENT": "c"}), TOPIC, MessageIllegal),
        (reply_record(properties={"REPLY_TO_CLIENT": "c" * 256, "CORRELATION_ID": "c"}), TOPIC, MessageIllegal),
        (reply_record() * 2, TOPIC, MessageIllegal),
        (reply_record()[:-1], TOPIC, MessageIllegal),
        (b"", TOPIC, MessageIllegal),
        (b"\xff" * 200, TOPIC, MessageIllegal),
        (bytes(200), TOPIC, MessageIllegal),
    ],
)
def test_what_is_no_reply_is_refused(broker: Any, payload: bytes, topic: str, problem: type[ZenitError]) -> None:
    before = broker.written()
    with pytest.raises(problem):
        send(broker, payload, topic)
    assert broker.written() == before


def topics(broker: Any) -> set[str]:
    return {topic["name"] for topic in broker.ask(commands.GetTopics())["topics"]}


def until_pushed(asker: Asker) -> list[Any]:
    for _ in range(500):
        if asker.pushed:
            break
        threading.Event().wait(0.01)
    return [message for _, payload in asker.pushed for message in decode_batch(payload)]  # type: ignore[attr-defined]
