"""Pulls of very many queues whose sends fail before they return."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from zenitmq.client.consuming.broker_pulls import AT_ONCE_MAX, LONG_POLLS_MAX
from zenitmq.client.consuming.prefetch import Pull
from zenitmq.client.consuming.pull_calls import PullCalls
from zenitmq.model.errors import ConnectionLost, ZenitError
from zenitmq.model.queue import MessageQueue
from zenitmq.remoting.commands import ArrivalsReply, AwaitArrivals

QUEUES = 3000


class HeldRemoting:
    """Keeps the pulls that do not wait; from `end` on it refuses. Watched queues are ready at once."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.held: list[Any] = []
        self.is_ended = False

    def call_later(self, _delay_ms: int, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def send_nowait(self, _address: str, request: Any, _payload: None, *, timeout_ms: int, on_reply: Any) -> None:
        assert timeout_ms > 0
        if isinstance(request, AwaitArrivals):
            queues = tuple((at, queue_id) for at, queue_id, _ in request.queues)
            on_reply(ArrivalsReply(True, request.topics, queues), b"", None)
        elif self.is_ended:
            raise ConnectionLost("a:1")
        elif not request.suspend_ms:
            self.held.append(on_reply)

    def end(self) -> None:
        self.is_ended = True
        for on_reply in self.held:
            on_reply(None, b"", ConnectionLost("a:1"))


def test_where_a_connection_ends_thousands_of_pulls_fail_one_after_the_other() -> None:
    """One within the other, they would be as many calls deep."""
    remoting = HeldRemoting()
    failed: list[int] = []

    def on_answer(pull: Pull, _reply: object, _payload: bytes, error: ZenitError | None) -> None:
        assert isinstance(error, ConnectionLost)
        failed.append(pull.queue.queue_id)

    routes = SimpleNamespace(address_of=lambda *_: "a:1", refresh_soon=lambda _: None)
    connection: Any = SimpleNamespace(remoting=remoting, routes=routes)
    calls = PullCalls(connection, "g", 32, on_answer)
    for number in range(LONG_POLLS_MAX + QUEUES):
        calls.send(Pull(MessageQueue("t", "b", number), 0, 1, 65_536, ()))
    while remoting.later:
        remoting.later.pop(0)()
    assert len(remoting.held) == AT_ONCE_MAX
    remoting.end()
    assert sorted(failed) == [LONG_POLLS_MAX + number for number in range(QUEUES)]
