"""Turns: each request is handled in the thread of its caller, one at a time.

It is what a broker's handlers know as the request loop, without sockets and without a thread between: `serve` takes the lock,
runs the handler, ends the turn, and delivers the answers after the lock is free. A request that must wait is answered in a
later turn, by whoever runs that. Timers run at the end of turns, and in the engine's own thread (`run`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from ...model.arena import Arena
from ...model.clock import Clock
from ...model.errors import ConnectionLost, MessageTooLarge, SystemFault, ZenitError
from ...remoting.client_socket import Payload
from ...remoting.commands import Lane, Reply, Request
from ...remoting.lanes import DEFAULT_LANES, LaneState
from ...remoting.server import Call, RequestLoop
from ...remoting.timers import Timer, Timers

log = logging.getLogger(__name__)

TIMER_ROUNDS: Final = 4  # of timers that follow one another at once, in a caller's turn

Answer = Callable[[Reply | None, bytes, ZenitError | None], None]
"""Takes the answer, in whichever thread ran the turn, without a lock."""


class Link(Protocol):
    """A client's end."""

    def push(self, request: Request, payload: bytes) -> None:
        """A request of the server's, in any thread."""


class DirectCall(Call[Any]):
    """A call without a connection."""

    __slots__ = ("on_answer",)

    def __init__(
        self, loop: RequestLoop, identity: bytes, deadline_ms: int, request: Request, on_answer: Answer | None
    ) -> None:
        super().__init__(loop, _NO_LANE, identity, 0, on_answer is None, deadline_ms, request)
        self.on_answer = on_answer


_NO_LANE: Final = LaneState(DEFAULT_LANES[Lane.SEND])


class Turns(RequestLoop):
    """`on_end`: called at the end of each turn, under the lock: answers what was staged, and brings the state up to date."""

    def __init__(self, address: str, arena: Arena, clock: Clock) -> None:  # no socket, so not the base's
        self.arena = arena
        self.address = address
        self.on_end: Callable[[], None] = lambda: None
        self.on_run: Callable[[], None] = lambda: None  # after each turn of the engine's thread
        self.answer_class: dict[type[Request], Callable[[Call[Any]], Reply | None]] = {}
        self.refuse: Callable[[Request], ZenitError] = lambda request: SystemFault(type(request).__name__)
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[bytes, Link] = {}
        self._deliveries: deque[Callable[[], None]] = deque()
        self._told = ""  # the last failure of a timer
        self._unanswered: dict[DirectCall, None] = {}
        self._timers = Timers()
        self._wake = threading.Event()
        self._rests_until_ms = 0
        self._stopping = False
        self._faults_logged: set[tuple[type[Request], type[Exception]]] = set()

    # ---- for handlers, under the lock

    def reply(self, call: Call[Request], reply: Reply, payload: Sequence[bytes | memoryview] = ()) -> None:
        """See RequestLoop."""
        self._answer(call, reply, payload, None)

    def fail(self, call: Call[Request], error: ZenitError) -> None:
        """See RequestLoop."""
        self._answer(call, None, (), error)

    def _answer(
        self, call: Call[Request], reply: Reply | None, payload: Sequence[bytes | memoryview], error: ZenitError | None
    ) -> None:
        assert isinstance(call, DirectCall)
        if call.answered:
            return
        call.answered = True
        self._unanswered.pop(call, None)
        if call.on_answer is not None:
            data = bytes(payload[0]) if len(payload) == 1 else b"".join(payload)
            self._deliveries.append(partial(call.on_answer, reply, data, error))

    def send_to(self, identity: bytes, request: Request, payload: Sequence[bytes | memoryview] = ()) -> bool:
        """See RequestLoop."""
        link = self._links.get(identity)
        if link is not None:
            self._deliveries.append(partial(link.push, request, b"".join(payload)))
        return link is not None

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """See RequestLoop."""
        timer = Timer(callback, 0)
        self._timers.add(self._clock.monotonic_ms() + delay_ms, timer)
        return timer

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        """See RequestLoop."""
        timer = Timer(callback, interval_ms)
        self._timers.add(self._clock.monotonic_ms() + interval_ms, timer)
        return timer

    # ---- from any thread

    def join(self, identity: bytes, link: Link) -> None:
        """From now on `send_to` finds the client. Raises ConnectionLost."""
        with self._lock:
            self._check_open()
            self._links[identity] = link

    def leave(self, identity: bytes, error: ZenitError) -> None:
        """The client is gone: what waits for it fails with this error."""
        with self._lock:
            self._links.pop(identity, None)
            for call in [call for call in self._unanswered if call.identity == identity]:
                self._answer(call, None, (), error)
        self._deliver()

    def links(self) -> list[Link]:
        """All clients."""
        return list(self._links.values())

    def serve(
        self, identity: bytes, request: Request, payload: Payload | None, timeout_ms: int, on_answer: Answer | None
    ) -> DirectCall:
        """Handles a request in this thread; `on_answer` gets the answer, perhaps before this returns; None: nobody waits for
        one. Raises ConnectionLost."""
        call = DirectCall(self, identity, self._clock.monotonic_ms() + max(0, timeout_ms), request, on_answer)
        with self._lock:
            self._check_open()
            self._unanswered[call] = None
            self._run_handler_of(call, payload)
            self._end_turn()
        self._deliver()
        return call

    def forget(self, call: DirectCall) -> None:
        """Nobody waits for its answer any more."""
        with self._lock:
            call.answered = True
            self._unanswered.pop(call, None)

    def do(self, work: Callable[[], None]) -> None:
        """A turn of the engine's own."""
        with self._lock:
            work()
            self._end_turn()
        self._deliver()

    def run(self) -> None:
        """The engine's thread: timers, until `stop`."""
        while not self._stopping:
            self._wake.wait(max(0, self._rests_until_ms - self._clock.monotonic_ms()) / 1000)
            self._wake.clear()
            with self._lock:
                self._end_turn(wakes=False)
            self._deliver()
            self.on_run()

    def stop(self) -> None:
        """Ends `run`; what waits fails, and so does every later request."""
        with self._lock:
            self._stopping = True
            for call in list(self._unanswered):
                self._answer(call, None, (), ConnectionLost(self.address))
        self._wake.set()
        self._deliver()

    # ---- internal

    def _check_open(self) -> None:
        if self._stopping:
            raise ConnectionLost(self.address)

    def _run_handler_of(self, call: DirectCall, payload: Payload | None) -> None:
        handler = self.answer_class.get(type(call.request))
        try:
            if handler is None:
                raise self.refuse(call.request)
            self._receive(call, payload)
            reply = handler(call)
        except ZenitError as error:
            self.fail(call, error)
        except Exception as error:  # noqa: BLE001  # a bug of ours: told, and no more than this call fails
            self._on_fault(call, error)
        else:
            if reply is not None:
                self.reply(call, reply)

    def _receive(self, call: DirectCall, payload: Payload | None) -> None:
        if payload is None:
            return
        size = len(payload)
        if size > self.arena.frame_bytes_max:
            raise MessageTooLarge("payload", size, self.arena.frame_bytes_max)
        if call.request.lane is Lane.SEND:
            self.arena.view[:size] = payload
            call.begin, call.end = 0, size
        else:
            call.payload = bytes(payload)

    def _on_fault(self, call: Call[Request], error: Exception) -> None:
        kind = (type(call.request), type(error))
        if kind not in self._faults_logged:
            self._faults_logged.add(kind)
            log.error("a handler failed request=%s", type(call.request).__name__, exc_info=error)
        self.fail(call, SystemFault(f"{type(call.request).__name__}: {type(error).__name__}: {error}"))

    def _end_turn(self, *, wakes: bool = True) -> None:
        """`wakes`: the engine's thread, if a timer is due before it looks again."""
        self.on_end()
        for _ in range(TIMER_ROUNDS):
            due = self._timers.due(self._clock.monotonic_ms())
            if not due:
                break
            for timer in due:
                if not timer.cancelled:
                    self._run_timer(timer)
            self.on_end()
        now_ms = self._clock.monotonic_ms()
        next_ms = now_ms + int(self._timers.wait_ms(now_ms))
        if not wakes:
            self._rests_until_ms = next_ms
        elif next_ms < self._rests_until_ms:
            self._rests_until_ms = next_ms
            self._wake.set()

    def _run_timer(self, timer: Timer) -> None:
        try:
            timer.callback()
        except ZenitError as error:
            if str(error) != self._told:  # a full disk fails each tick
                self._told = str(error)
                log.warning("work of the engine failed error=%s", error)
        except Exception:
            log.exception("work of the engine failed")

    def _deliver(self) -> None:
        """Without the lock. What an exception of a signal handler leaves here goes out with the next turn."""
        while self._deliveries:
            try:
                deliver = self._deliveries.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                deliver()
            except Exception:
                log.exception("an answer could not be delivered")
