"""Which workers of a push consumer are woken, with workers that are driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.client.consuming.push.queues import PushRules
from zenitmq.client.consuming.push.work import PushWork
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Subscription
from zenitmq.record.kernel import StoredMessage, encode_record
from zenitmq.remoting.commands import PullMessages, PullReply

QUEUE = MessageQueue("t", "a", 0)
WORKERS = 8


class Suspended:
    """What a worker waits for: whoever drives it goes on."""

    def __await__(self) -> Generator[None]:
        yield


class HandSignal:
    def __init__(self, waits: HandWaits) -> None:
        self._waits = waits
        self.is_set = False

    def set(self) -> None:
        self.is_set = True
        self._waits.woken += 1

    async def wait(self, _timeout_ms: int | None) -> bool:
        while not self.is_set:
            await Suspended()
        return True


class HandWaits:
    """Workers as coroutines; `step` runs some of them until they wait."""

    def __init__(self) -> None:
        self.woken = 0
        self.workers: list[Coroutine[Any, Any, None]] = []

    def new_signal(self) -> HandSignal:
        return HandSignal(self)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], _name: str) -> None:
        self.workers.append(work())

    def is_end(self, error: BaseException) -> bool:
        return isinstance(error, GeneratorExit)

    def step(self, workers: list[Coroutine[Any, Any, None]] | None = None) -> None:
        for worker in self.workers if workers is None else workers:
            worker.send(None)


class Stage:
    """A consumer whose broker is the test."""

    def __init__(self) -> None:
        self.waits = HandWaits()
        self.bodies: list[bytes] = []
        self.is_slow = False
        self.sent: list[tuple[PullMessages, Callable[..., None]]] = []
        connection = SimpleNamespace(
            routes=SimpleNamespace(address_of=lambda *_: "a:1"),
            remoting=SimpleNamespace(send_nowait=self._send, call_later=lambda *_: None),
        )
        self.work = PushWork(
            connection,  # type: ignore[arg-type]
            self.waits,  # type: ignore[arg-type]
            "g",
            PushRules(),
            self._handle,
            concurrency=WORKERS,
            timeout_ms=3000,
            on_queues_lost=lambda: None,
        )
        self.work.start()
        self.waits.step()
        self.work.assign(QUEUE, 0, committed=0, subscription=Subscription.parse("t"))

    def _send(self, _address: str, request: PullMessages, _payload: None, **rest: Any) -> None:
        self.sent.append((request, rest["on_reply"]))

    async def _handle(self, messages: list[StoredMessage]) -> None:
        self.bodies += [message.body for message in messages]
        while self.is_slow:
            await Suspended()

    def arrive(self, count: int) -> None:
        """The pull that is on its way is answered with so many messages."""
        request, on_reply = self.sent.pop()
        begin = request.queue_offset
        offsets = range(begin, begin + count)
        records = b"".join(encode_record(topic=b"t", body=b"%d" % at, queue_offset=at) for at in offsets)
        on_reply(PullReply(GetStatus.FOUND, begin + count, 0, begin + count, count, 0), records, None)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_quick_handler_does_not_wake_a_worker_for_each_message(stage: Stage) -> None:
    stage.arrive(100)
    assert stage.waits.woken == 1
    stage.waits.step()
    assert stage.bodies == [b"%d" % at for at in range(100)]
    assert stage.waits.woken == 2  # the first woke one more, which found nothing


def test_slow_handlers_get_all_workers(stage: Stage) -> None:
    stage.is_slow = True
    stage.arrive(100)
    for _ in range(WORKERS):
        stage.waits.step()
    assert sorted(stage.bodies) == sorted(b"%d" % at for at in range(WORKERS))
    stage.is_slow = False
    stage.waits.step()
    assert len(stage.bodies) == 100
    assert stage.work.statistics().handled == 100


def test_a_worker_that_was_cancelled_after_it_was_woken_keeps_no_other_asleep(stage: Stage) -> None:
    stage.arrive(1)
    for worker in stage.waits.workers[:]:
        if stage.bodies:
            break
        worker.close()  # one of them is the one that was woken
        stage.waits.workers.remove(worker)
        stage.waits.step(stage.waits.workers[:1])
    assert stage.bodies == [b"0"]


def test_a_worker_that_was_cancelled_while_it_was_idle_is_not_woken(stage: Stage) -> None:
    for worker in stage.waits.workers[1:]:
        worker.close()
    stage.arrive(1)
    stage.waits.step(stage.waits.workers[:1])
    assert stage.bodies == [b"0"]
