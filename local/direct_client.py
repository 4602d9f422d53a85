"""The client's end of an engine: requests are handled in the thread that makes them.

Answers to `send_nowait` come in the client's I/O thread, as they do over a network: whoever sends may hold a lock that the
answer needs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from ..model.errors import BufferFull, ClientClosed, RequestTimeout, WaitsForItself, ZenitError
from ..remoting.channel import OnReply
from ..remoting.client import CLOSE_TIMEOUT_MS, RemotingClient
from ..remoting.client_socket import Payload
from ..remoting.commands import Reply, Request, RequestFor
from ..remoting.io_thread import check_may_wait
from .turns import Turns

if TYPE_CHECKING:
    import asyncio

_Reply = TypeVar("_Reply", bound=Reply)


class OnServed(Protocol):
    """What was appended may be told. `waits`: it may wait for another thread that does so."""

    def __call__(self, *, waits: bool = ...) -> None: ...


def _nothing_served(*, waits: bool = False) -> None:
    """Nobody is told."""


_numbers: Final = itertools.count(1)


class _Answered:
    """Where a caller waits for the answer to its call."""

    __slots__ = ("_not_yet", "error", "payload", "reply")

    def __init__(self) -> None:
        self._not_yet: threading.Lock | None = None
        self.reply: Reply | None = None
        self.payload = b""
        self.error: ZenitError | None = None

    def set(self, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        """The answer, in any thread."""
        self.payload, self.error, self.reply = payload, error, reply
        if self._not_yet is not None:
            self._not_yet.release()

    @property
    def is_there(self) -> bool:
        """Whether it has come."""
        return self.reply is not None or self.error is not None

    def wait(self, timeout_ms: int) -> bool:
        """False after so long without one."""
        if not self.is_there:
            waiting = threading.Lock()
            waiting.acquire()
            self._not_yet = waiting
            return self.is_there or waiting.acquire(timeout=timeout_ms / 1000) or self.is_there
        return True


class DirectClient(RemotingClient):
    """A RemotingClient of one engine."""

    def __init__(self, turns: Callable[[], Turns], on_served: OnServed = _nothing_served) -> None:
        """`turns`: those that serve now; `on_served`: called after each request, without a lock. Raises ConnectionLost."""
        super().__init__()
        self._now = turns
        self._joined = turns()
        self._on_served = on_served
        self._identity = next(_numbers).to_bytes(8, "big")
        self._on_published: list[Callable[[list[bytes]], None]] = []
        self._joined.join(self._identity, self)

    def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """See RemotingClient."""
        turns = self._turns_at(address)
        if turns is None:
            return super().call(address, request, payload, timeout_ms=timeout_ms)
        check_may_wait("a call that waits")
        if turns.is_mine:
            raise WaitsForItself(
                "a call of a finalizer or a log handler, in the middle of another", "note it there, and call later"
            )
        answered = _Answered()
        call = turns.serve(self._identity, request, payload, timeout_ms, answered.set)
        self._on_served(waits=True)
        if not answered.wait(timeout_ms):
            turns.forget(call)
            if not answered.is_there:
                raise RequestTimeout(f"{type(request).__name__} at {address}", timeout_ms)
        error = answered.error
        if error is not None:
            try:
                raise error
            finally:  # its traceback would keep this frame and all callers alive until a garbage collection
                del error, answered
        return cast("_Reply", answered.reply), answered.payload

    def loop_channels(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        """None: requests are handled in the thread that makes them."""

    def send_nowait(
        self,
        address: str,
        request: RequestFor[_Reply],
        payload: Payload | None,
        *,
        timeout_ms: int,
        on_reply: OnReply[_Reply],
    ) -> None:
        """See RemotingClient."""
        turns = self._turns_at(address)
        if turns is None:
            super().send_nowait(address, request, payload, timeout_ms=timeout_ms, on_reply=on_reply)
            return
        on_answer: Any = partial(self._later, on_reply)
        turns.serve(self._identity, request, payload, timeout_ms, on_answer)

    def oneway(self, address: str, request: Request, payload: Payload | None = None) -> bool:
        """See RemotingClient."""
        turns = self._turns_at(address)
        if turns is None:
            return super().oneway(address, request, payload)
        turns.serve(self._identity, request, payload, 0, None)
        self._soon(self._on_served)
        return True

    def subscribe(
        self, address: str, on_message: Callable[[list[bytes]], None], on_welcome: Callable[[], None] | None = None
    ) -> None:
        """See RemotingClient."""
        if self._turns_at(address) is None:
            super().subscribe(address, on_message, on_welcome)
            return
        self._on_published.append(on_message)
        if on_welcome is not None:
            self._soon(on_welcome)

    def push(self, request: Request, payload: bytes) -> None:
        """A request of the engine's, for the I/O thread."""
        callback = self._on_request.get(type(request))
        if callback is not None:
            self._soon(partial(callback, self._joined.address, request, payload))

    def publish(self, topic: str) -> None:
        """The route of a topic has changed."""
        for on_message in self._on_published:
            self._soon(partial(on_message, [topic.encode(), b""]))

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """See RemotingClient."""
        self._joined.leave(self._identity, ClientClosed("client"))
        super().close(timeout_ms)

    def _turns_at(self, address: str) -> Turns | None:
        """What serves there in this thread; None: a server with sockets. After a restart everybody registers again."""
        if self._closed is not None:
            raise ClientClosed(self._closed)
        turns = self._now()
        if address != turns.address:
            return None
        if turns is not self._joined:
            self._joined = turns
            turns.join(self._identity, self)
            if self._on_lost is not None:
                self._soon(partial(self._on_lost, address))
        return turns

    def _later(self, on_reply: OnReply[Any], reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        def tell() -> None:
            self._on_served()
            on_reply(reply, payload, error)

        self._soon(tell)

    def _soon(self, callback: Callable[[], None]) -> None:
        try:
            self.run_soon(callback)
        except (BufferFull, ClientClosed):
            callback()
