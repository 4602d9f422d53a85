"""A producer that is closed before all is acknowledged: every future ends, and who sent by `post` is told of every message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from integration.client.fake_broker import SILENT

from zenitmq import BrokerBusy, ClientClosed, Message, Producer, RequestTimeout, aio
from zenitmq.model.errors import ZenitError
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=1)


@pytest.mark.parametrize("answer", [SILENT, BrokerBusy(100)])
def test_what_waits_for_an_answer_or_another_try_ends(namesrv: str, broker, answer: object) -> None:
    told: list[bytes] = []
    producer = Producer("p", namesrv=namesrv, on_error=lambda failed: told.extend(each.body for each in failed))
    producer.send(Message(TOPIC, b"first"))
    broker.rule = lambda request: answer if isinstance(request, SendMessages) else None
    future = producer.send_async(Message(TOPIC, b"second"))
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    producer.post(TOPIC, b"third")
    with pytest.raises(RequestTimeout):
        producer.close(timeout=0.3)
    assert isinstance(future.exception(timeout=5), ClientClosed)
    assert called.wait(5)
    assert told == [b"third"]


def test_messages_that_found_no_room_are_told_too(namesrv: str, broker) -> None:
    told: list[bytes] = []
    broker.rule = lambda request: SILENT if isinstance(request, SendMessages) else None
    producer = Producer(
        "p", namesrv=namesrv, window_batches=1, on_error=lambda failed: told.extend(each.body for each in failed)
    )
    producer.post(TOPIC, b"0")
    pause = threading.Event()
    assert any((broker.requests and producer._background._sender.unanswered) or pause.wait(0.01) for _ in range(500))
    producer.post(TOPIC, b"1")
    future = producer.send_async(Message(TOPIC, b"2"))
    with pytest.raises(ZenitError):
        producer.close(timeout=0.2)
    assert isinstance(future.exception(timeout=5), ClientClosed)
    assert sorted(told) == [b"0", b"1"]


def test_another_producer_of_the_process_goes_on(namesrv: str, broker) -> None:
    broker.rule = lambda request: BrokerBusy(50) if isinstance(request, SendMessages) else None
    with Producer("q", namesrv=namesrv) as other:
        producer = Producer("p", namesrv=namesrv)
        future = producer.send_async(Message(TOPIC, b"mine"))
        with pytest.raises(RequestTimeout):
            producer.close(timeout=0.1)
        assert future.exception(timeout=5) is not None
        broker.rule = lambda request: None
        other.send_async(Message(TOPIC, b"theirs")).result(5)
    assert [message.body for message in broker.messages(TOPIC)] == [b"theirs"]


def test_futures_on_an_event_loop_end(namesrv: str, broker) -> None:
    async def story() -> None:
        told: list[bytes] = []
        producer = aio.Producer("p", namesrv=namesrv, on_error=lambda failed: told.extend(each.body for each in failed))
        await producer.send(Message(TOPIC, b"first"))
        broker.rule = lambda request: BrokerBusy(100) if isinstance(request, SendMessages) else None
        future = producer.send_async(Message(TOPIC, b"second"))
        producer.post(TOPIC, b"third")
        with pytest.raises(RequestTimeout):
            await producer.close(timeout=0.3)
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(future, 5)
        for _ in range(100):
            if told:
                break
            await asyncio.sleep(0.01)
        assert told == [b"third"]

    asyncio.run(story())


def test_what_was_left_halfway_goes_on(namesrv: str, broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler raises in the thread that sends: the batch is known, and neither sent nor answered."""
    with Producer("p", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"first"))
        remoting = producer._connection.remoting

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        producer.post(TOPIC, b"0" * 100)
        sender = producer._background._sender
        producer.flush(5)
        lane = producer._background._post_lanes[TOPIC]
        with lane.lock:
            if not lane.is_open:
                lane.open()
            assert lane.accumulator.append(b"second")
            with monkeypatch.context() as halfway:
                halfway.setattr(remoting, "send_nowait", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    sender.ship(lane)
        for sealed in sender._unanswered.values():
            sealed.due_ms = 0
        producer.flush(10)
    assert b"second" in [message.body for message in broker.messages(TOPIC)]
