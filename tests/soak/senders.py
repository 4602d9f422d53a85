"""The producers of a soak: every way to send, in one process that lives as long as the run.

Each way has threads of its own that come and go every few seconds; the producer objects stay.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

from zenitmq import FailedSend, Message, Producer, SendFuture
from zenitmq.model.errors import ZenitError

from .records import OK, Recalled, body_of, identity_of
from .topics import LATER, ONCE, ORDERED, STREAM, WORK
from .worker import Worker, now_ms

SYNC_RATE, POST_RATE, ASYNC_RATE, ONCE_RATE, ORDERED_RATE, LATER_RATE = 12, 24, 12, 5, 3, 3
STREAM_BATCH = 16
KEYS = 4
LIFE_S = 7.0
DELAY_S = (1.0, 20.0)
RECALLED_EACH = 10  # one of so many


def produce(worker: Worker) -> None:
    """All of them at a time."""
    namesrv = worker.job.namesrv
    posted = _Posted(worker)
    with (
        Producer("soak", namesrv=namesrv, on_error=posted.on_error) as producer,
        Producer("soak-once", namesrv=namesrv, idempotent=True) as once,
    ):
        sending = _Sending(worker, producer)
        works: dict[str, Callable[[], None]] = {
            "sync": sending.one_by_one("sync", WORK, SYNC_RATE, producer),
            ONCE: sending.one_by_one(ONCE, WORK, ONCE_RATE, once),
            "later": worker.lives("later", partial(sending.later, itertools.count()), seconds=LIFE_S),
            "async": worker.lives("async", partial(sending.in_futures, itertools.count()), seconds=LIFE_S),
            "post": worker.lives("post", partial(posted.post_all, producer, itertools.count()), seconds=LIFE_S),
            "stream": worker.lives("stream", partial(sending.bodies, itertools.count()), seconds=LIFE_S),
        }
        for key in range(KEYS):
            works[f"key-{key}"] = sending.one_by_one(f"key-{key}", ORDERED, ORDERED_RATE, producer, key=f"key-{key}")
        worker.run_all(works)


class _Sending:
    """The ways that tell of each message by itself. Any thread."""

    def __init__(self, worker: Worker, producer: Producer) -> None:
        self._worker = worker
        self._producer = producer

    def one_by_one(
        self, stream: str, topic: str, rate: float, producer: Producer, *, key: str | None = None
    ) -> Callable[[], None]:
        """`send`, waited for."""
        numbers = itertools.count()

        def one() -> None:
            number, begun_ms = next(numbers), now_ms()
            body = body_of(stream, number, self._worker.chance.randrange(100, 1200))
            message = Message(topic, body, "odd" if number % 2 else "even", [f"{stream}-{number}"])
            try:
                producer.send(message, sharding_key=key)
            except ZenitError as error:
                self._worker.sent(topic, stream, number, begun_ms, error)
            else:
                self._worker.sent(topic, stream, number, begun_ms)

        return self._worker.lives(stream, lambda until_s: self._worker.paced(rate, until_s, one), seconds=LIFE_S)

    def in_futures(self, numbers: Iterator[int], until_s: float) -> None:
        """`send_async`."""

        def told(number: int, begun_ms: float, future: SendFuture) -> None:
            self._worker.sent(WORK, "async", number, begun_ms, future.exception())

        def one() -> None:
            number, begun_ms = next(numbers), now_ms()
            try:
                future = self._producer.send_async(Message(WORK, body_of("async", number, 200)))
            except ZenitError as error:
                self._worker.sent(WORK, "async", number, begun_ms, error)
            else:
                future.add_done_callback(partial(told, number, begun_ms))

        self._worker.paced(ASYNC_RATE, until_s, one)

    def bodies(self, numbers: Iterator[int], until_s: float) -> None:
        """`send_bodies`, for the stream."""

        def one() -> None:
            batch, begun_ms = list(itertools.islice(numbers, STREAM_BATCH)), now_ms()
            failure: ZenitError | None = None
            try:
                self._producer.send_bodies(STREAM, [body_of("stream", number, 150) for number in batch])
            except ZenitError as error:
                failure = error
            for number in batch:
                self._worker.sent(STREAM, "stream", number, begun_ms, failure)

        self._worker.paced(1, until_s, one)

    def later(self, numbers: Iterator[int], until_s: float) -> None:
        """Delayed messages, of which some are taken back."""

        def one() -> None:
            number, begun_ms = next(numbers), now_ms()
            delay_ms = int(1000 * self._worker.chance.uniform(*DELAY_S))
            body = body_of("later", number, 200, due_ms=int(begun_ms) + delay_ms)
            try:
                receipt = self._producer.send(Message(LATER, body, delay=timedelta(milliseconds=delay_ms)))
            except ZenitError as error:
                self._worker.sent(LATER, "later", number, begun_ms, error)
                return
            self._worker.sent(LATER, "later", number, begun_ms)
            if number % RECALLED_EACH == 0 and receipt.recall_handle is not None:
                try:
                    self._producer.recall(receipt)
                except ZenitError as error:
                    self._worker.write(Recalled(LATER, "later", number, type(error).__name__))
                else:
                    self._worker.write(Recalled(LATER, "later", number, OK))

        self._worker.paced(LATER_RATE, until_s, one)


class _Posted:
    """`post`: only failures are told, the rest is known once it is flushed."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._failed: dict[int, Exception] = {}

    def on_error(self, failed: list[FailedSend]) -> None:
        """In the I/O thread."""
        for each in failed:
            self._failed[identity_of(each.body)[1]] = each.error

    def post_all(self, producer: Producer, numbers: Iterator[int], until_s: float) -> None:
        """Posts for a second, then flushes."""
        while time.monotonic() < until_s and not self._worker.stopping.is_set():
            posted: list[tuple[int, float]] = []

            def one(posted: list[tuple[int, float]] = posted) -> None:
                number, begun_ms = next(numbers), now_ms()
                try:
                    producer.post(WORK, body_of("post", number, 200))
                except ZenitError as error:
                    self._worker.sent(WORK, "post", number, begun_ms, error)
                else:
                    posted.append((number, begun_ms))

            self._worker.paced(POST_RATE, min(until_s, time.monotonic() + 1), one)
            producer.flush()
            for number, begun_ms in posted:
                self._worker.sent(WORK, "post", number, begun_ms, self._failed.pop(number, None))
