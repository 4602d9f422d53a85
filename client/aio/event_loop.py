"""Waiting on an asyncio event loop: `OnLoop`, the alternative to `Blocking` (waiting.py) for client code.

The loop has connections of its own for its calls (loop_channels.py). Where servers want keys, replies are received by the
shared I/O thread (or by whichever thread is sending) and passed to the loop by `LoopCalls`, with one wake-up for all that
arrive before the loop runs. No thread is started for a consumer or a call; only the last
client of a cluster closes the connection in a thread, because that waits for the I/O thread.

An object over `OnLoop` belongs to the loop on which it first waits. A closed loop drops what was posted to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from ...model.errors import WrongEventLoop, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.client_socket import Payload
from ...remoting.commands import Reply, Request, RequestFor
from ..connection.waiting import Blocking, Lock, Signal, ThreadLock

log = logging.getLogger(__name__)

_Reply = TypeVar("_Reply", bound=Reply)


class LoopCalls:
    """Callbacks for one event loop. `post` from any thread; they run on the loop, in order."""

    __slots__ = ("_is_due", "_posted", "is_left", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._posted: deque[Callable[[], object]] = deque()
        self._is_due = False
        self.is_left = False  # nobody waits on the loop any more

    def post(self, callback: Callable[[], object]) -> None:
        """Runs `callback` on the loop soon; never if the loop is closed."""
        if self.loop.is_closed():
            self._posted.clear()
            return
        self._posted.append(callback)  # before `_is_due` is read: `_run` clears that before it reads `_posted`
        if self._is_due:
            return
        self._is_due = True
        try:
            self.loop.call_soon_threadsafe(self._run)
        except RuntimeError:  # closed just now
            self._posted.clear()

    @property
    def is_due(self) -> bool:
        """Whether callbacks wait for the loop to run."""
        return self._is_due

    def _run(self) -> None:
        self._is_due = False
        for _ in range(len(self._posted)):
            callback = self._posted.popleft()
            try:
                callback()
            except Exception:
                log.exception("a callback on the event loop failed")


class OnLoop:
    """Waits on the event loop of its first use. Raises WrongEventLoop on another one."""

    def __init__(self, remoting: RemotingClient, what: str) -> None:
        """`what`: the name of the waiting object, for the error."""
        self._remoting = remoting
        self._what = what
        self._calls: LoopCalls | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds only weak references
        self._blocking: Blocking | None = None  # replaces the loop after `block`

    def calls(self) -> LoopCalls:
        """The calls to the running loop. Raises WrongEventLoop; RuntimeError if none runs."""
        loop = asyncio.get_running_loop()
        calls = self._calls
        if calls is None:
            calls = self._calls = LoopCalls(loop)
        elif calls.loop is not loop:
            raise WrongEventLoop(self._what)
        return calls

    def post(self, callback: Callable[[], object]) -> None:
        """Runs `callback` on the loop, if there is one yet. Any thread."""
        if self._calls is not None:
            self._calls.post(callback)

    async def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """See `Waits`; over a connection of the loop, or where servers want keys the shared one. If cancelled, the reply is
        dropped."""
        if self._blocking is not None:
            return await self._blocking.call(address, request, payload, timeout_ms=timeout_ms)
        calls = self.calls()
        answered: asyncio.Future[tuple[_Reply, bytes]] = calls.loop.create_future()

        channels = self._remoting.loop_channels(calls.loop, address)
        if channels is not None:
            channels.send(address, request, payload, timeout_ms=timeout_ms, on_reply=partial(_answer, answered))
            return await answered

        def on_reply(reply: _Reply | None, body: bytes, error: ZenitError | None) -> None:
            calls.post(lambda: _answer(answered, reply, body, error))

        self._remoting.send_nowait(address, request, payload, timeout_ms=timeout_ms, on_reply=on_reply)
        return await answered

    def oneway(self, address: str, request: Request) -> bool:
        """See `Waits`. Where its loop does not run, as for a coroutine that is freed later, by the shared connection."""
        calls, channels = self._calls, None
        if calls is not None and self._blocking is None and _is_running(calls.loop):
            channels = self._remoting.loop_channels(calls.loop, address)
        return self._remoting.oneway(address, request) if channels is None else channels.send_oneway(address, request)

    async def sleep(self, delay_ms: int) -> None:
        """See `Waits`."""
        if self._blocking is not None:
            await self._blocking.sleep(delay_ms)
            return
        self.calls()
        await asyncio.sleep(delay_ms / 1000)

    async def run_apart(self, function: Callable[[], None]) -> None:
        """See `Waits`; in a thread, which continues if this is cancelled."""
        if self._blocking is not None:
            function()
            return
        self.calls()
        await asyncio.to_thread(function)

    def new_signal(self) -> Signal:
        """See `Waits`."""
        return LoopSignal(self.calls()) if self._blocking is None else self._blocking.new_signal()

    def new_lock(self) -> Lock:
        """See `Waits`."""
        return asyncio.Lock() if self._blocking is None else ThreadLock()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """See `Waits`; from another thread only after this was used on its loop."""
        (self._calls or self.calls()).post(lambda: self._start(work, name))

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task_of(work(), name)

    def _task_of(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """See `Waits`."""
        if self._blocking is not None:
            await work
        else:
            await asyncio.shield(self._task_of(work, self._what))

    def is_end(self, error: BaseException) -> bool:
        """See `Waits`: the task is cancelled, or the loop is gone; a handler may also raise CancelledError itself."""
        if isinstance(error, GeneratorExit):
            return True
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())

    def block(self) -> bool:
        """See `Waits`: leaves the loop; a wait for a signal then returns its present state."""
        self._blocking = self._blocking or Blocking(self._remoting)
        if self._calls is None:
            return False
        self._calls.is_left = True
        return not self._calls.loop.is_closed()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is called on the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _answer(
    answered: asyncio.Future[tuple[_Reply, bytes]], reply: _Reply | None, body: bytes, error: ZenitError | None
) -> None:
    if answered.done():
        return  # cancelled
    if reply is not None:
        answered.set_result((reply, body))
    elif error is not None and not answered.get_loop().is_closed():
        answered.set_exception(error)


class LoopSignal:
    """A `Signal` for a coroutine. Any thread sets it."""

    __slots__ = ("__weakref__", "_calls", "_come")

    def __init__(self, calls: LoopCalls) -> None:
        self._calls = calls
        self._come: asyncio.Future[bool] = calls.loop.create_future()

    def set(self) -> None:
        """See `Signal`."""
        self._calls.post(lambda: self._end(has_come=True))

    async def wait(self, timeout_ms: int | None) -> bool:
        """See `Signal`."""
        if self._calls.is_left:
            return self._come.done() and self._come.result()
        if timeout_ms is None:
            return await self._come
        timer = self._calls.loop.call_later(timeout_ms / 1000, lambda: self._end(has_come=False))
        try:
            return await self._come
        finally:
            timer.cancel()

    def _end(self, *, has_come: bool) -> None:
        if not self._come.done():
            self._come.set_result(has_come)
