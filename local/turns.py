"""Turns: each request is handled in the thread of its caller, one at a time.

It is what a broker's handlers know as the request loop, without sockets: `serve` takes the lock, runs the handler, ends the
turn, and delivers the answers after the lock is free. A request that must wait is answered in a later turn, by whoever runs
that. Timers run at the end of turns, and in the engine's thread (`run`). A turn of the main thread holds signals up
(held_signals): what a handler raises must not end it half done.

What follows from a send, in queues and index, is as much work as the send itself, and cheaper for many at once. So while
nobody waits for messages, it is left to the next turn that does more than to send: the one of whoever asks for messages, or
the one of the next timer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ..model.arena import Arena
from ..model.clock import Clock
from ..model.errors import BufferFull, ConnectionLost, MessageTooLarge, SystemFault, UnknownRequest, ZenitError
from ..remoting.client_socket import Payload
from ..remoting.commands import Lane, Reply, Request, SendMessages
from ..remoting.lanes import DEFAULT_LANES, LaneState
from ..remoting.server import POSTED_MAX, Call, Handler, LoopStatistics, RequestLoop
from ..remoting.timers import NEVER_MS, Timer, Timers
from .held_signals import held_signals

log = logging.getLogger(__name__)

TIMER_ROUNDS: Final = 4  # of timers that follow one another at once, in a caller's turn
BEHIND_BYTES: Final = (
    64 << 10
)  # of records whose queues and index do not follow yet: the processor still has them at hand

Answer = Callable[[Reply | None, bytes, ZenitError | None], None]
"""Takes the answer, in whichever thread ran the turn, without a lock."""


_R = TypeVar("_R", bound=Request)


def _nothing() -> None:
    """There is nothing to be done then."""


def _any_cluster(_: Request, __: str) -> None:
    """Who reaches an engine means it."""


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


class Bell:
    """Wakes one thread. A lock, because a signal handler may ring while its thread rings, which an Event does not survive."""

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet = threading.Lock()
        self._quiet.acquire()

    def set(self) -> None:
        """The present wait ends, or else the next one."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._quiet.release()

    def wait(self, timeout_s: float) -> None:
        """Until it rings, or the time is over."""
        self._quiet.acquire(timeout=timeout_s)


class Turns(RequestLoop):
    """`refuse`: why a request has no handler; `on_run`: called after each turn of the engine's thread, without the lock."""

    def __init__(
        self,
        *,
        bind: str,
        arena: Arena,
        clock: Clock,
        on_turn_end: Callable[[], None],
        on_replied: Callable[[], None] = _nothing,
    ) -> None:  # no socket, so not the base's
        self.arena = arena
        self.cluster_id = ""
        self.on_other_cluster = _any_cluster
        self.times = None  # an engine's requests are calls of this process: nobody measures them
        self.address = bind
        self.port = self.told_port = int(bind.rpartition(":")[2])
        self.on_run: Callable[[], None] = _nothing
        self.refuse: Callable[[Request], ZenitError] = lambda request: UnknownRequest(request.code)
        self._turn_end, self._replied = on_turn_end, on_replied
        self._answer_class: dict[type[Request], Handler] = {}
        self._clock = clock
        self._lock = threading.RLock()  # re-entrant, so that it knows whose it is; no turn begins within another
        self._links: dict[bytes, Link] = {}
        self._deliveries: deque[Callable[[], None]] = deque()
        self._told = ""  # the last failure of a timer
        self._unanswered: dict[DirectCall, None] = {}
        self._timers = Timers()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._served = 0
        self._wake = Bell()
        self._rests_until_ms = 0
        self._is_behind = False  # queues and index have yet to follow some sends
        self._stopping = False
        self._faults_logged: set[tuple[type[Request], type[Exception]]] = set()

    def handle(self, request_class: type[_R], handler: Callable[[Call[_R]], Reply | None]) -> None:
        """See RequestLoop."""
        self._answer_class[request_class] = handler

    def statistics(self) -> LoopStatistics:
        """See RequestLoop; most of it is of sockets."""
        lanes = {lane: LaneState(DEFAULT_LANES[lane]).statistics() for lane in Lane}
        return LoopStatistics(self._served, self._served, 0, 0, 0, 0, 0, 0, 0, 0, lanes)

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
        if self.is_mine:
            self._hand_over(call, None if payload is None else bytes(payload))
        elif threading.get_ident() == threading.main_thread().ident:
            with held_signals:
                self._serve(call, payload)
        else:
            self._serve(call, payload)
        return call

    def _serve(self, call: DirectCall, payload: Payload | None) -> None:
        with self._lock:
            self._check_open()
            self._unanswered[call] = None
            is_send = type(call.request) is SendMessages
            if not is_send:
                self._catch_up()
            self._run_handler_of(call, payload)
            self._end_turn(is_send=is_send)
        self._deliver()

    @property
    def is_mine(self) -> bool:
        """Whether this thread is in a turn: what calls is a finalizer, or writes a line of the log."""
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001  # as Condition asks

    def _hand_over(self, call: DirectCall, payload: bytes | None) -> None:
        """The engine's thread handles what is asked in the middle of a turn."""
        self._check_open()
        self._unanswered[call] = None
        self.post(partial(self._run_handler_of, call, payload))
        if self._stopping:  # `close` may have missed it
            self._deliveries.append(partial(self._fail_late, call))
            self._deliver()

    def _fail_late(self, call: DirectCall) -> None:
        if self._unanswered.pop(call, self) is None and call.on_answer is not None:
            call.answered = True
            call.on_answer(None, b"", ConnectionLost(self.address))

    def forget(self, call: DirectCall) -> None:
        """Nobody waits for its answer any more."""
        with self._lock:
            call.answered = True
            self._unanswered.pop(call, None)

    def do(self, work: Callable[[], None]) -> None:
        """A turn of the engine's own."""
        with self._lock:
            self._catch_up()
            work()
            self._end_turn()
        self._deliver()

    def post(self, callback: Callable[[], None]) -> None:
        """See RequestLoop; the engine's thread runs it."""
        if len(self._from_threads) >= POSTED_MAX:
            raise BufferFull(POSTED_MAX)
        self._from_threads.append(callback)
        self._wake.set()

    def run(self) -> None:
        """The engine's thread: timers and what was posted, until `stop`."""
        while not self._stopping:
            self.turn()
        with self._lock:
            self._catch_up()

    def turn(self, wait_ms: int = NEVER_MS) -> None:
        """One turn of the engine's thread; waits at most `wait_ms` for work."""
        rest_ms = max(0, self._rests_until_ms - self._clock.monotonic_ms())
        self._wake.wait(min(rest_ms, wait_ms) / 1000)
        with self._lock:
            self._catch_up()
            for _ in range(len(self._from_threads)):
                self._guarded(self._from_threads.popleft())
            self._end_turn(wakes=False)
        self._deliver()
        self.on_run()

    def stop(self) -> None:
        """Ends `run`; later requests are refused. Any thread, also within a turn."""
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        """What waits fails."""
        self.stop()
        with self._lock:
            for call in list(self._unanswered):
                self._answer(call, None, (), ConnectionLost(self.address))
        self._deliver()

    # ---- internal

    def _check_open(self) -> None:
        if self._stopping:
            raise ConnectionLost(self.address)

    def _run_handler_of(self, call: DirectCall, payload: Payload | None) -> None:
        if call.answered:  # its client gave up before its turn came
            return
        handler = self._answer_class.get(type(call.request))
        self._served += 1
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
            if self.arena.is_full:
                self._turn_end()
                self._follow()
            begin = self.arena.used
            self.arena.view[begin : begin + size] = payload
            call.begin, call.end = begin, begin + size
        else:
            call.payload = bytes(payload)

    def _on_fault(self, call: Call[Request], error: Exception) -> None:
        kind = (type(call.request), type(error))
        if kind not in self._faults_logged:
            self._faults_logged.add(kind)
            log.error("a handler failed request=%s", type(call.request).__name__, exc_info=error)
        self.fail(call, SystemFault(f"{type(call.request).__name__}: {type(error).__name__}: {error}"))

    def _end_turn(self, *, is_send: bool = False, wakes: bool = True) -> None:
        """`is_send`: all that was done; `wakes`: the engine's thread, if a timer is due before it looks again."""
        self._turn_end()
        if is_send and not self._unanswered and self.arena.used < BEHIND_BYTES:
            self._is_behind = True
        else:
            self._follow()
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._timers.wait_ms(now_ms)
        if not wait_ms:
            now_ms, wait_ms = self._run_due(now_ms)
        next_ms = now_ms + int(wait_ms)
        if not wakes:
            self._rests_until_ms = next_ms
        elif next_ms < self._rests_until_ms:
            self._rests_until_ms = next_ms
            self._wake.set()

    def _run_due(self, now_ms: int) -> tuple[int, float]:
        """Those that are due; returns the time, and how long it is until the next."""
        self._catch_up()
        for _ in range(TIMER_ROUNDS):
            due = self._timers.due(now_ms)
            if not due:
                break
            for timer in due:
                if not timer.cancelled:
                    self._guarded(timer.callback)
            self._turn_end()
            self._follow()
            now_ms = self._clock.monotonic_ms()
        return now_ms, self._timers.wait_ms(now_ms)

    def _catch_up(self) -> None:
        """Before anybody looks: queues and index follow the sends so far."""
        if self._is_behind:
            self._follow()

    def _follow(self) -> None:
        self._is_behind = False
        self._replied()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
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
