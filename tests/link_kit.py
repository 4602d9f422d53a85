"""A loop and a client that the test moves by hand, for what asks others over the network and waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from zenitmq.model.errors import ZenitError
from zenitmq.model.groups.group import GroupNode
from zenitmq.model.groups.group_codec import encode_node
from zenitmq.remoting.commands import GroupReply, Request
from zenitmq.remoting.timers import Timer


class ManualLoop:
    """Runs what is posted at once, and timers as the test lets time pass. Its own clock, too."""

    def __init__(self) -> None:
        self.time_ms = 1000
        self._due: list[tuple[int, int, Timer]] = []
        self._serial = count()

    def monotonic_ms(self) -> int:
        return self.time_ms

    def post(self, callback: Callable[[], None]) -> None:
        callback()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._add(delay_ms, Timer(callback, 0))

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        return self._add(interval_ms, Timer(callback, interval_ms))

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.time_ms + duration_ms
        while self._due and self._due[0][0] <= end_ms:
            self.time_ms, _, timer = heapq.heappop(self._due)
            if not timer.cancelled:
                timer.callback()
                if timer.interval_ms:
                    self._add(timer.interval_ms, timer)
        self.time_ms = end_ms

    def _add(self, delay_ms: int, timer: Timer) -> Timer:
        heapq.heappush(self._due, (self.time_ms + delay_ms, next(self._serial), timer))
        return timer


@dataclass
class Sent:
    """A request on its way; `answer` it or `fail` it."""

    address: str
    request: Any
    on_reply: Callable[..., None]

    def answer(self, version: int, node: GroupNode | None) -> None:
        self.on_reply(GroupReply(version, b"" if node is None else encode_node(node)), b"", None)

    def fail(self, error: ZenitError) -> None:
        self.on_reply(None, b"", error)


class FakeClient:
    """Keeps what is sent; `refuses` is raised instead."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.callbacks: dict[type[Request], Callable[[str, Any, bytes], None]] = {}
        self.refuses: ZenitError | None = None

    def send_nowait(
        self, address: str, request: Request, payload: None, *, timeout_ms: int, on_reply: Callable[..., None]
    ) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(Sent(address, request, on_reply))

    def on_request(self, request_class: type[Request], callback: Callable[[str, Any, bytes], None]) -> None:
        self.callbacks[request_class] = callback

    def push(self, address: str, request: Request) -> None:
        self.callbacks[type(request)](address, request, b"")

    def take(self, kind: type[Request]) -> list[Sent]:
        """Those of a kind that were sent since, removed."""
        taken = [sent for sent in self.sent if isinstance(sent.request, kind)]
        self.sent = [sent for sent in self.sent if not isinstance(sent.request, kind)]
        return taken

    def one(self, kind: type[Request]) -> Sent:
        (sent,) = self.take(kind)
        return sent
