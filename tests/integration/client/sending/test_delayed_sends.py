"""Delayed messages through the clients: every way to send them, their receipts, taking them back, `zenit produce --delay`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zenitmq import FIRST, Message, Producer, PullConsumer
from zenitmq.aio import Producer as AioProducer
from zenitmq.model.errors import InvalidParameter, MessageNotFound

TOPIC = "trades"


@pytest.fixture
def consumer(namesrv: str, admin: Any) -> Any:
    with PullConsumer("readers", namesrv=namesrv, start_from=FIRST) as made:
        made.subscribe(TOPIC)
        yield made


def receive(consumer: Any, count: int, within_s: float = 15) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(timeout=0.2)
    return found


def bodies(messages: list[Any]) -> list[bytes]:
    return sorted(message.body for message in messages)


def test_each_way_to_send_delays(namesrv: str, consumer: Any) -> None:
    with Producer("g", namesrv=namesrv) as producer:
        delay = timedelta(milliseconds=1500)
        waiting = [
            producer.send(Message(TOPIC, b"send", delay=delay)),
            producer.send_async(Message(TOPIC, b"async", deliver_at=datetime.now(UTC) + delay)).result(10),
            *producer.send_batch([Message(TOPIC, b"batch", delay=delay), Message(TOPIC, b"level", delay_level=2)]),
        ]
        sharded = producer.send(Message(TOPIC, b"sharded", delay=delay), sharding_key="k")
        producer.send_oneway(Message(TOPIC, b"oneway", delay=delay))
        (now, later) = producer.send_batch([Message(TOPIC, b"now"), Message(TOPIC, b"later", delay=delay)])
        past = producer.send(Message(TOPIC, b"past", deliver_at=datetime(2020, 1, 1, tzinfo=UTC)))
        for receipt in (*waiting, sharded, later):
            assert receipt.queue_offset == -1
            assert receipt.recall_handle is not None
        for receipt in (now, past):
            assert receipt.queue_offset >= 0
            assert receipt.recall_handle is None
        found = receive(consumer, 9, 30)
        assert bodies(found) == [
            b"async", b"batch", b"later", b"level", b"now", b"oneway", b"past", b"send", b"sharded"
        ]  # fmt: skip
        by_id = {message.message_id: message for message in found}
        for receipt in (*waiting, sharded, later):
            message = by_id[receipt.message_id]
            assert message.queue == receipt.queue
            assert 0 <= message.stored_at_ms - int(message.properties["TIMER_OUT_MS"]) < 1000


def test_recall_takes_back_what_waits(namesrv: str, consumer: Any) -> None:
    with Producer("g", namesrv=namesrv) as producer:
        receipt = producer.send(Message(TOPIC, b"never", delay=timedelta(seconds=2)))
        producer.send(Message(TOPIC, b"stays", delay=timedelta(seconds=2)))
        producer.recall(receipt)
        with pytest.raises(MessageNotFound):
            producer.recall(receipt)
        plain = producer.send(Message(TOPIC, b"plain"))
        with pytest.raises(InvalidParameter):
            producer.recall(plain)
        assert bodies(receive(consumer, 2)) == [b"plain", b"stays"]
        assert not receive(consumer, 1, 1)


def test_a_handle_that_was_kept_takes_back_what_another_producer_sent(namesrv: str, consumer: Any) -> None:
    with Producer("g", namesrv=namesrv) as producer:
        kept = producer.send(Message(TOPIC, b"never", delay=timedelta(seconds=2))).recall_handle
        producer.send(Message(TOPIC, b"stays", delay=timedelta(seconds=2)))
    assert kept is not None
    with Producer("another", namesrv=namesrv) as producer:
        producer.recall(kept)
        with pytest.raises(MessageNotFound):
            producer.recall(kept)
    assert bodies(receive(consumer, 1)) == [b"stays"]
    assert not receive(consumer, 1, 1)


def test_an_event_loop_delays_and_recalls(namesrv: str, consumer: Any) -> None:
    async def run() -> None:
        async with AioProducer("g", namesrv=namesrv) as producer:
            receipt = await producer.send(Message(TOPIC, b"never", delay=timedelta(seconds=2)))
            await producer.recall(receipt)
            future = producer.send_async(Message(TOPIC, b"async", delay=timedelta(seconds=1)))
            assert (await future).recall_handle is not None

    asyncio.run(run())
    assert bodies(receive(consumer, 1)) == [b"async"]


def test_a_delay_beyond_the_limit_is_refused(namesrv: str, admin: Any) -> None:
    with Producer("g", namesrv=namesrv) as producer:
        message = Message(TOPIC, b"x", delay=timedelta(days=3700))
        with pytest.raises(InvalidParameter, match="deliver_at_ms"):
            producer.send(message)
        with pytest.raises(InvalidParameter, match="deliver_at_ms"):
            producer.send_async(message).result(10)


def test_the_command_line_delays(namesrv: str, consumer: Any) -> None:
    def zenit(*arguments: str, lines: str) -> Any:
        command = [sys.executable, "-m", "zenitmq", *arguments, "--namesrv", namesrv]
        return subprocess.run(command, input=lines, text=True, capture_output=True, timeout=60)

    began = time.time()
    done = zenit("produce", TOPIC, "--delay", "2s", "--json", lines="a\nb\n")
    assert json.loads(done.stdout)["sent"] == 2
    assert bodies(receive(consumer, 2)) == [b"a", b"b"]
    assert time.time() - began >= 2
    assert zenit("produce", TOPIC, "--deliver-at", "2020-01-01T00:00:00+00:00", lines="c\n").returncode == 0
    assert bodies(receive(consumer, 1)) == [b"c"]
    assert zenit("produce", TOPIC, "--delay", "soon", lines="").returncode == 2
    assert zenit("produce", TOPIC, "--delay", "1s", "--deliver-at", "1700000000000", lines="").returncode == 2
