"""The asyncio clients of a soak: a process that sends, and one whose members of one group pull, are called, come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from zenitmq import FIRST, Message, StoredMessage
from zenitmq.aio import Producer, PullConsumer, PushConsumer
from zenitmq.model.errors import ZenitError

from .readers import OUT_S, STAY_S
from .records import body_of
from .topics import AIO_GROUP, WORK
from .worker import Worker, now_ms

AWAITED_RATE, FUTURE_RATE = 6, 10
FUTURES = 20  # sent side by side, then awaited


def send(worker: Worker) -> None:
    """A producer on a loop."""
    asyncio.run(_send(worker))


def read(worker: Worker) -> None:
    """Consumers on a loop."""
    asyncio.run(_read(worker))


async def _send(worker: Worker) -> None:
    async with Producer("soak-aio", namesrv=worker.job.namesrv) as producer:
        await _all(worker, {"awaited": _awaited(worker, producer), "futures": _futures(worker, producer)})


async def _awaited(worker: Worker, producer: Producer) -> None:
    number = 0
    while not worker.stopping.is_set():
        await _send_one(worker, "aio", number, producer.send)
        number += 1
        await asyncio.sleep(1 / (AWAITED_RATE * worker.job.pace))


async def _futures(worker: Worker, producer: Producer) -> None:
    number = 0
    while not worker.stopping.is_set():
        sends = [_send_one(worker, "aio-futures", number + step, producer.send_async) for step in range(FUTURES)]
        await asyncio.gather(*sends)
        number += FUTURES
        await asyncio.sleep(FUTURES / (FUTURE_RATE * worker.job.pace))


async def _send_one(worker: Worker, stream: str, number: int, way: Callable[[Message], Awaitable[object]]) -> None:
    begun_ms = now_ms()
    try:
        await way(Message(WORK, body_of(stream, number, 200)))
    except ZenitError as error:
        worker.sent(WORK, stream, number, begun_ms, error)
    else:
        worker.sent(WORK, stream, number, begun_ms)


async def _read(worker: Worker) -> None:
    works = {"pull": _pulling(worker, f"{worker.job.name}-pull", None), "push": _pushing(worker, "push", None)}
    await _all(worker, {**works, "churn": _come_and_go(worker)})


async def _come_and_go(worker: Worker) -> None:
    chance = random.Random(f"{worker.job.seed}.aio.churn")
    stay = 0
    while not await _stops(worker, worker.job.scale * chance.uniform(*OUT_S)):
        stay += 1
        seconds = worker.job.scale * chance.uniform(*STAY_S)
        if chance.random() < 0.5:
            await _pulling(worker, f"{worker.job.name}-visit-{stay}", seconds)
        else:
            await _pushing(worker, f"visit-{stay}", seconds)


async def _pulling(worker: Worker, member: str, seconds: float | None) -> None:
    """`seconds`: how long; None = until the end."""
    worker.moved(AIO_GROUP, member, "start")
    consumer = PullConsumer(AIO_GROUP, namesrv=worker.job.namesrv, start_from=FIRST, auto_commit_interval=1.0)
    async with consumer:
        consumer.subscribe(WORK)
        loop = asyncio.get_running_loop()
        until_s = float("inf") if seconds is None else loop.time() + seconds
        while loop.time() < until_s and not worker.stopping.is_set():
            try:
                for message in await consumer.poll(64, timeout=0.5):
                    worker.handled(AIO_GROUP, member, message)
            except ZenitError as error:
                worker.refused("aio poll", error)
                await asyncio.sleep(0.5)
    worker.moved(AIO_GROUP, member, "close")


async def _pushing(worker: Worker, name: str, seconds: float | None) -> None:
    member = f"{worker.job.name}-{name}"
    consumer = PushConsumer(AIO_GROUP, namesrv=worker.job.namesrv, start_from=FIRST, concurrency=4, commit_interval=1.0)

    async def handle(messages: list[StoredMessage]) -> None:
        for message in messages:
            worker.handled(AIO_GROUP, member, message)

    consumer.on_message(handle)
    worker.moved(AIO_GROUP, member, "start")
    try:
        await consumer.subscribe(WORK)
        async with consumer:
            await _stops(worker, seconds)
    except ZenitError as error:
        worker.refused(f"member of {AIO_GROUP}", error)
    worker.moved(AIO_GROUP, member, "close")


async def _stops(worker: Worker, seconds: float | None) -> bool:
    """Waits so long, or until the worker is to stop; whether it is."""
    loop = asyncio.get_running_loop()
    until_s = float("inf") if seconds is None else loop.time() + seconds
    while loop.time() < until_s and not worker.stopping.is_set():
        await asyncio.sleep(min(0.2, max(0.0, until_s - loop.time())))
    return worker.stopping.is_set()


async def _all(worker: Worker, works: dict[str, Awaitable[None]]) -> None:
    """To the end of all; what one raises is written down."""
    done = await asyncio.gather(*works.values(), return_exceptions=True)
    for name, outcome in zip(works, done, strict=True):
        if isinstance(outcome, BaseException):
            worker.wrong(name, outcome)
