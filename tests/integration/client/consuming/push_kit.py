"""A handler that writes down what it was given, and waiting for that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from zenitmq import Admin, ConsumeResult, Producer, StoredMessage

WAIT_S = 15.0


class Seen:
    """A handler. `then`: what it does with each message after writing it down."""

    def __init__(self, then: Callable[[StoredMessage], ConsumeResult | None] | None = None) -> None:
        self.messages: list[StoredMessage] = []
        self.calls: list[int] = []
        self._then = then
        self._lock = threading.Condition()

    def __call__(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        with self._lock:
            self.messages += messages
            self.calls.append(len(messages))
            self._lock.notify_all()
        results = [self._then(message) for message in messages] if self._then is not None else []
        return next((result for result in results if result is not None), None)

    @property
    def bodies(self) -> list[bytes]:
        with self._lock:
            return [message.body for message in self.messages]

    def wait(self, count: int, seconds: float = WAIT_S) -> list[bytes]:
        """The bodies once `count` different ones are there."""
        with self._lock:
            self._lock.wait_for(lambda: len({m.body for m in self.messages}) >= count, seconds)
        assert len(set(self.bodies)) >= count, self.bodies
        return self.bodies


def wait_until(condition: Callable[[], Any], seconds: float = WAIT_S) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        threading.Event().wait(0.02)
    assert condition()


def fill(producer: Producer, topic: str, count: int, begin: int = 0) -> set[bytes]:
    """Sends b"0000", b"0001" ... spread over the queues."""
    bodies = {b"%04d" % index for index in range(begin, begin + count)}
    for body in sorted(bodies):
        producer.post(topic, body)
    producer.flush()
    return bodies


def lag(admin: Admin, group: str, topic: str) -> int:
    """How many messages of a topic the group has yet to commit."""
    return sum(left or 0 for queue, left in admin.lag(group).items() if queue.topic == topic)
