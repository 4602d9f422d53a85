"""How a client waits: code that waits is written once, as coroutines over `Waits`, and run in one of two ways.

- `Blocking` waits in the calling thread, so a coroutine over it never suspends: `run_blocking` runs it to its end like a
  plain call. The classes of `zenitmq` do that.
- `OnLoop` (event_loop.py) suspends until the asyncio event loop resumes it: the classes of `zenitmq.aio`.

A coroutine over `Waits` holds no lock where it awaits, and may be cancelled there: it must leave its state consistent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ...model.clock import sleep_ms
from ...remoting.client import RemotingClient
from ...remoting.client_socket import Payload
from ...remoting.commands import Reply, Request, RequestFor
from ...remoting.io_thread import check_may_wait

Lock = AbstractAsyncContextManager[None]


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_Reply = TypeVar("_Reply", bound=Reply)


class Signal(Protocol):
    """An event that happens once. Its maker waits for it, once; any thread sets it."""

    def set(self) -> None:
        """Sets it."""

    async def wait(self, timeout_ms: int | None) -> bool:
        """True once it is set, False after `timeout_ms` (None: no limit)."""


class Waits(Protocol):
    """The ways to wait."""

    async def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """Like `RemotingClient.call`: sends and waits for the reply. `payload` may change only after this has ended."""

    def oneway(self, address: str, request: Request) -> bool:
        """Sends a request without a reply, behind the calls before it if they use the same connection: those of an event loop
        do. False if it could not even be queued."""

    async def sleep(self, delay_ms: int) -> None:
        """Waits for a time."""

    async def run_apart(self, function: Callable[[], None]) -> None:
        """Runs a function that may block for a while, such as closing a connection."""

    def new_signal(self) -> Signal:
        """A signal to wait for."""

    def new_lock(self) -> Lock:
        """A lock that its holder may keep while waiting."""

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Runs a coroutine concurrently: in a thread of that name, or as a task of the loop. Any thread."""

    async def to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine and waits for it; it runs to its end even if its caller is cancelled."""

    def is_end(self, error: BaseException) -> bool:
        """True if an error from user code is our own cancellation."""

    def block(self) -> bool:
        """From now on it waits in the calling thread, so that `run_blocking` may run the coroutines. For the end of a
        client whose event loop may be gone. Returns whether tasks begun by `start` continue."""


class Blocking:
    """Waits in the calling thread. Any thread."""

    def __init__(self, remoting: RemotingClient) -> None:
        self._call = remoting.call
        self._remoting = remoting

    async def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """See `Waits`; over a connection of the calling thread."""
        return self._call(address, request, payload, timeout_ms=timeout_ms)

    def oneway(self, address: str, request: Request) -> bool:
        """See `Waits`."""
        return self._remoting.oneway(address, request)

    async def sleep(self, delay_ms: int) -> None:
        """See `Waits`."""
        sleep_ms(delay_ms)

    async def run_apart(self, function: Callable[[], None]) -> None:
        """See `Waits`."""
        function()

    def new_signal(self) -> Signal:
        """See `Waits`."""
        return _ThreadSignal()

    def new_lock(self) -> Lock:
        """See `Waits`."""
        return ThreadLock()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """See `Waits`."""
        threading.Thread(target=lambda: run_blocking(work()), name=name, daemon=True).start()

    async def to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """See `Waits`."""
        await work

    def is_end(self, error: BaseException) -> bool:  # noqa: ARG002  # nothing ends a thread from outside
        """See `Waits`."""
        return False

    def block(self) -> bool:
        """See `Waits`."""
        return True


class _ThreadSignal:
    """A lock that is free once set: a `threading.Event` takes three times as long to make, set and wait for."""

    __slots__ = ("__weakref__", "_not_yet")

    def __init__(self) -> None:
        self._not_yet = threading.Lock()
        self._not_yet.acquire()

    def set(self) -> None:
        try:
            self._not_yet.release()
        except RuntimeError:  # already set
            return

    async def wait(self, timeout_ms: int | None) -> bool:
        check_may_wait("a call that waits")
        if not self._not_yet.acquire(timeout=-1 if timeout_ms is None else max(0, timeout_ms) / 1000):
            return False
        self.set()  # for a second waiter
        return True


class ThreadLock:
    """A lock for coroutines over `Blocking`."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        take(self._lock)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def take(lock: threading.Lock, *, blocking: bool = True) -> bool:
    """Takes the lock; False if it is not free and `blocking` is False. A signal handler that raises leaves it free.

    For those who cannot use `with`, which is safe by itself.
    """
    taken: list[bool] = []
    try:
        taken.extend(map(lock.acquire, (blocking,)))  # in one step
        return taken[0]
    except BaseException:
        if taken and taken[0]:
            lock.release()
        raise


class Signals:
    """The waiters for one condition. Guarded by the lock of its owner, so that no change is missed."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Signal, None] = {}

    def add(self, signal: Signal) -> Signal:
        """Sets the signal at the next change; returns it."""
        self._waiting[signal] = None
        return signal

    def discard(self, signal: Signal) -> None:
        """Stops waiting for it."""
        self._waiting.pop(signal, None)

    def set_all(self) -> None:
        """It has changed."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for signal in waiting:
                signal.set()


def run_blocking(coroutine: Coroutine[Any, Any, _R]) -> _R:
    """Runs a coroutine over `Blocking` to its end, in the calling thread; returns and raises what it does."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: _R = ended.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine over Blocking suspended")


def blocking(method: Callable[Concatenate[_S, _P], Coroutine[Any, Any, _R]]) -> Callable[Concatenate[_S, _P], _R]:
    """The method as a plain call of the same signature, for a class that waits by `Blocking`."""

    @wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return run_blocking(method(self, *args, **kwargs))

    call.__name__ = method.__name__.removeprefix("_")
    return call
