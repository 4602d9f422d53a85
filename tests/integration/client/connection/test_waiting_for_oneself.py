"""What would wait for its own caller says so: a callback of the I/O thread, a handler that closes its consumer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq import FIRST, Admin, Message, MessageIllegal, Producer, PushConsumer, aio
from zenitmq.model.errors import WaitsForItself
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=1)


class Callback:
    """Called once, does something that waits, and keeps what that raised."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def __call__(self, *_: object) -> None:
        try:
            self._wait()
        except BaseException as error:  # noqa: BLE001
            self.error = error
        self.ended.set()


WAITS: dict[str, Callable[[Producer, str], object]] = {
    "result": lambda producer, _: producer.send_async(Message(TOPIC, b"next")).result(20),
    "exception": lambda producer, _: producer.send_async(Message(TOPIC, b"next")).exception(),
    "flush": lambda producer, _: producer.flush(20),
    "send": lambda producer, _: producer.send(Message(TOPIC, b"next")),
    "admin": lambda _, namesrv: Admin(namesrv).cluster(),
    "request": lambda producer, _: producer.request_async(Message(TOPIC, b"ask"), timeout=20).result(),
}


@pytest.mark.parametrize("what", WAITS)
def test_a_callback_that_waits_is_told_so_and_holds_nobody_up(namesrv: str, broker, what: str) -> None:
    with Producer("p", namesrv=namesrv) as producer, Producer("q", namesrv=namesrv) as other:
        callback = Callback(lambda: WAITS[what](producer, namesrv))
        producer.send_async(Message(TOPIC, b"first")).add_done_callback(callback)
        assert callback.ended.wait(10)
        assert isinstance(callback.error, WaitsForItself), callback.error
        assert "thread of your own" in str(callback.error)
        assert other.send_async(Message(TOPIC, b"somebody else's")).result(5).queue.topic == TOPIC


def test_on_error_that_flushes_is_told_so(namesrv: str, broker) -> None:
    broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
    callback = Callback(lambda: producer.flush())
    with Producer("p", namesrv=namesrv, on_error=callback) as producer:
        producer.post(TOPIC, b"x")
        assert callback.ended.wait(10)
        assert isinstance(callback.error, WaitsForItself)
        with pytest.raises(Exception, match="no"):
            producer.flush(5)


def test_a_handler_does_not_close_its_consumer(namesrv: str, broker) -> None:
    with Producer("p", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"last"))
        consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
        callback = Callback(consumer.close)
        consumer.subscribe(TOPIC)
        consumer.on_message(callback)
        with consumer:
            assert callback.ended.wait(10)
    assert isinstance(callback.error, WaitsForItself)
    assert broker.committed["g", TOPIC, 0] == 1  # the handler went on, and its message is done


def test_nor_on_an_event_loop(namesrv: str, broker) -> None:
    async def story() -> None:
        told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        consumer = aio.PushConsumer("g", namesrv=namesrv, start_from=FIRST)

        async def handle(_: object) -> None:
            try:
                await consumer.close()
            except WaitsForItself as error:
                told.set_result(error)

        consumer.on_message(handle)
        await consumer.subscribe(TOPIC)
        async with consumer, aio.Producer("p", namesrv=namesrv) as producer:
            await producer.send(Message(TOPIC, b"last"))
            assert "where the consumer was started" in str(await asyncio.wait_for(told, 10))
        assert broker.committed["g", TOPIC, 0] == 1

    asyncio.run(story())
