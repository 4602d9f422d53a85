"""The request loop: one thread that receives requests, decides whose turn it is, handles them, and answers.

A turn: wait for a request (or a wake-up, or the next timer) -> drain what has come, up to a limit -> give the other lanes
their share -> `on_turn_end` (the store writes everything staged at once, and the broker answers it) -> send the replies ->
`on_replied` (work that follows the write; meanwhile the answered clients already send more) -> run the timers and, if one
was due, end the turn once more.

A request that must wait is *deferred*: its handler returns None, and code on this thread calls `reply` or `fail` later.
Nothing blocks here except the first receive.

All methods belong to the loop's thread, except `post`, `stop` and `statistics`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, Self, TypeVar

from ..model.arena import Arena
from ..model.clock import Clock, monotonic_ns
from ..model.errors import (
    AccessDenied,
    BrokerBusy,
    BufferFull,
    MessageTooLarge,
    RemoteProtocolError,
    SystemFault,
    UnknownRequest,
    WrongCluster,
    ZenitError,
)
from ..model.plain_dataclass import dataclass
from ..model.security.access_table import AccessTable
from .base_socket import Pollable, Waiter, is_inside
from .commands import Lane, Reply, Request
from .direct.direct_router import LOOK_MS, DirectRouter
from .header import decode_request, encode_error, encode_reply, encode_request, peek_opaque
from .lanes import DEFAULT_LANES, RETRY_AFTER_MS, LaneLimits, LaneState, LaneStatistics
from .loop_times import SAMPLE_EVERY, LoopTimes
from .security.budgets import UserBudgets
from .security.door import Door
from .security.guard import Guard, Refusal, denied, key_for
from .server_socket import PubSocket, RouterSocket
from .timers import NEVER_MS, Timer, Timers

log = logging.getLogger(__name__)

CALL_TIMEOUT_MS_MAX: Final = 3_600_000  # limit of a caller's own timeout
POSTED_MAX: Final = 100_000
TURN_BUDGET_MS: Final = 5  # after this time the waiting lanes leave the rest to the next turn
IN_FLIGHT_BYTES_MAX: Final = 256 * 1024 * 1024

_R = TypeVar("_R", bound=Request)
_R_co = TypeVar("_R_co", bound=Request, covariant=True)


class Call(Generic[_R_co]):
    """A request that waits for its answer.

    SEND lane: the payload is `loop.arena.view[begin:end]` during the handler and, if it was staged, until the turn ends.
    Other lanes: `payload`. `deadline_ms`: monotonic, when the caller gives up. `identity`: of the connection. `on_unsent`:
    called in a later turn if the answer could not be sent, because the peer is gone or does not read. `key`: the public key of
    the sender, "" where nobody needs one; `address`: its IP address, "" unless a rule asks for it; `begun_ns`: when its turn
    began, where times are measured.
    """

    __slots__ = (
        "address",
        "answered",
        "begin",
        "begun_ns",
        "deadline_ms",
        "end",
        "identity",
        "key",
        "lane",
        "loop",
        "on_unsent",
        "oneway",
        "opaque",
        "payload",
        "request",
    )

    def __init__(
        self,
        loop: RequestLoop,
        lane: LaneState,
        identity: bytes,
        opaque: int,
        oneway: bool,
        deadline_ms: int,
        request: _R_co,
        key: str = "",
        address: str = "",
    ) -> None:
        self.loop = loop
        self.lane = lane
        self.identity = identity
        self.opaque = opaque
        self.oneway = oneway
        self.deadline_ms = deadline_ms
        self.request = request
        self.key = key
        self.address = address
        self.begin = self.end = 0
        self.begun_ns = 0 if loop.times is None else loop.times.begun_ns
        self.payload = b""
        self.answered = False
        self.on_unsent: Callable[[], None] | None = None

    @property
    def user(self) -> str:
        """The name of the user who sent it; "" where nobody needs a key, or the user has just been removed."""
        guard = self.loop.guard
        user = guard.user_of(self.key) if guard is not None else None
        return user.name if user is not None else ""


Handler = Callable[[Call[Any]], Reply | None]


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """Counters since the start; `in_flight_bytes` and the contents of the lanes are current values.

    `malformed`: requests that broke the protocol. `other_cluster`: those meant for another cluster. `denied`: those that their
    user may not make. `dropped_slow`,
    `dropped_gone`: replies that a peer did not read, or left behind.
    """

    turns: int
    requests: int
    malformed: int
    other_cluster: int
    refused: int
    denied: int
    faults: int
    dropped_slow: int
    dropped_gone: int
    in_flight_bytes: int
    lanes: Mapping[Lane, LaneStatistics]


class RequestLoop:
    """Serves requests at `address` in the thread that calls `run()`, until `stop()`. A context manager; closes its sockets."""

    guard: Guard | None = None
    """Decides what users may ask for; None = anybody may ask for anything."""

    open_address = ""
    """Where those without a key come in; "" = nowhere."""

    on_access: Callable[[AccessTable], None] | None = None
    """Called with the former users and rights once others count: who keeps something for a user looks at it again."""

    def __init__(
        self,
        *,
        bind: str,
        arena: Arena,
        clock: Clock,
        lanes: Mapping[Lane, LaneLimits] = DEFAULT_LANES,
        on_turn_end: Callable[[], None] | None = None,
        on_replied: Callable[[], None] | None = None,
        drain_requests: int = 256,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
        door: Door | None = None,
    ) -> None:
        """`bind`: "host:port", port 0 = any free one. `door`: who comes in, and what they may ask for; None = anybody anything.

        Raises ConfigError if the address cannot be bound.
        """
        if door is not None:
            self.guard = door.guard
        self._door = door
        self._budgets = UserBudgets()
        self._looked_at: set[Call[Any]] = set()  # where there is a guard: what it looks at again when rights change
        self.arena = arena
        self.cluster_id = (
            ""  # of the cluster that is served here; requests that name another go through `on_other_cluster`
        )
        self.on_other_cluster: Callable[[Request, str], None] = _accept
        self.in_flight_bytes_max = in_flight_bytes_max
        self.times: LoopTimes | None = None  # set where times are measured
        self._clock = clock
        self._on_turn_end = on_turn_end
        self._on_replied = on_replied
        self._drain_requests = drain_requests
        self._lanes = {lane: LaneState(lanes[lane]) for lane in Lane}
        self._waiting = [self._lanes[lane] for lane in lanes if lane is not Lane.SEND]
        self._handlers: dict[type[Request], tuple[Handler, LaneState, bool]] = {}
        self._outbox: list[
            tuple[bytes, bytes, Sequence[bytes | memoryview], Callable[[], None] | None]
        ] = []  # the last: see Call.on_unsent
        self._timers = Timers()
        self._waiter: Waiter | None = None  # set if other sockets are served too
        self._watched: dict[Pollable, Callable[[], None]] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._post_lock = threading.RLock()  # re-entrant: a signal handler may call stop() inside post()
        self._ringing = False
        self._stopping = False
        self._now_ms = clock.monotonic_ms()
        self._in_flight_bytes = 0
        self._queued = 0  # requests in the queues of all lanes
        self._turns = self._requests = self._malformed = self._other_cluster = self._refused = self._faults = (
            self._denied
        ) = 0
        self._faults_logged: set[tuple[type[Request], type[Exception]]] = set()
        self._socket = _open_socket(bind, arena.frame_bytes_max, door)
        self.address = self._socket.address
        self.open_address = self._socket.open_address
        if isinstance(self._socket, DirectRouter):
            self.every(LOOK_MS, self._socket.look)
        self.port = int(self.address.rpartition(":")[2])
        is_open = door is not None and door.is_open_to_servers
        self.told_port = int(self.open_address.rpartition(":")[2]) if is_open else self.port
        """The one that others are told."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Call this after `run` has ended, or instead of it."""
        self._stopping = True
        self._socket.close()

    # ---- from any thread

    def stop(self) -> None:
        """Makes `run` return after the present turn. From any thread or a signal handler."""
        self._stopping = True
        self._socket.ring()

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the loop soon. From any thread. Raises BufferFull if POSTED_MAX callbacks wait already."""
        with self._post_lock:
            if len(self._posted) >= POSTED_MAX:
                raise BufferFull(POSTED_MAX)
            self._posted.append(callback)
            if self._ringing:
                return
            self._ringing = True
        self._socket.ring()

    @property
    def turned_ms(self) -> int:
        """When the loop last had work or a timer, monotonic."""
        return self._now_ms

    @property
    def refused_connections(self) -> int:
        """Connections that were not let in, since the start; 0 where anybody is. Any thread."""
        return 0 if self._door is None else self._door.doorkeeper.refused

    def statistics(self) -> LoopStatistics:
        """A frozen copy of the counters."""
        return LoopStatistics(
            turns=self._turns,
            requests=self._requests,
            malformed=self._malformed,
            other_cluster=self._other_cluster,
            refused=self._refused,
            denied=self._denied,
            faults=self._faults,
            dropped_slow=self._socket.dropped_slow,
            dropped_gone=self._socket.dropped_gone,
            in_flight_bytes=self._in_flight_bytes,
            lanes={lane: state.statistics() for lane, state in self._lanes.items()},
        )

    # ---- for services, on the loop

    def handle(self, request_class: type[_R], handler: Callable[[Call[_R]], Reply | None]) -> None:
        """Sets the `handler` for requests of this class: it returns the reply, or None = later, or raises a ZenitError.

        A SEND is handled while its payload is in the arena; a handler that stages it moves `arena.used`.
        """
        lane = request_class.lane
        self._handlers[request_class] = (handler, self._lanes[lane], lane is Lane.SEND)

    def reply(self, call: Call[Request], reply: Reply, payload: Sequence[bytes | memoryview] = ()) -> None:
        """Answers a call when the turn ends. A second answer is ignored; one to a peer that is gone is counted; one that is too
        large for a header becomes that error."""
        if not self._settle(call):
            return
        if call.key and self.guard is not None and self.guard.table.has_limits:
            self._spend(call, sum(map(len, payload)), 0.0)
        try:
            header = encode_reply(reply, call.opaque)
        except MessageTooLarge as error:
            log.warning("an answer is too large request=%s error=%s", type(call.request).__name__, error)
            self._outbox.append((call.identity, encode_error(error, call.opaque), (), None))
        else:
            self._outbox.append((call.identity, header, payload, call.on_unsent))

    def fail(self, call: Call[Request], error: ZenitError) -> None:
        """Answers a call with an error."""
        if self.times is not None and not call.answered:
            self.times.on_failed(type(call.request), error.code)
        if self._settle(call):
            self._outbox.append((call.identity, encode_error(error, call.opaque), (), None))

    def send_to(self, identity: bytes, request: Request, payload: Sequence[bytes | memoryview] = ()) -> bool:
        """Sends a one-way request to a connected client at once; False if it is gone or does not read."""
        return self._socket.send(identity, encode_request(request, 0, timeout_ms=0, oneway=True), payload)

    def set_access(self, table: AccessTable) -> None:
        """From now on these are the users and their rights. What waits is looked at again: it may be a revoked user's."""
        assert self._door is not None
        guard = self._door.guard
        before = guard.table
        self._door.set_access(table)
        for call in list(self._looked_at):
            refusal = guard.check(call.key, call.address, call.request)
            if refusal is None:
                continue
            if guard.knows_too_little(refusal):  # it came before a rule asked from where: its sender asks again
                self.fail(call, BrokerBusy(RETRY_AFTER_MS, "rules that count from where a request comes"))
            else:
                self.fail(call, self._noted(refusal))
        if self.on_access is not None:
            self.on_access(before)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Runs `callback` once, `delay_ms` from now."""
        timer = Timer(callback, 0)
        self._timers.add(self._clock.monotonic_ms() + delay_ms, timer)
        return timer

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        """Runs `callback` each `interval_ms`, first after one interval."""
        timer = Timer(callback, interval_ms)
        self._timers.add(self._clock.monotonic_ms() + interval_ms, timer)
        return timer

    def watch(self, socket: Pollable, on_readable: Callable[[], None]) -> None:
        """Calls `on_readable` in each turn in which this socket is readable, before requests are taken."""
        if self._waiter is None:
            self._waiter = Waiter()
            self._waiter.add(self._socket.pollable)
        self._waiter.add(socket)
        self._watched[socket] = on_readable

    def unwatch(self, socket: Pollable) -> None:
        """Call this before the socket is closed; ignores one that is not watched."""
        if self._waiter is not None and self._watched.pop(socket, None) is not None:
            self._waiter.remove(socket)

    # ---- the loop

    def run(self) -> None:
        """Serves until `stop`. An exception of a timer, a posted callback or `on_turn_end` ends the loop and is raised here."""
        while not self._stopping:
            self.turn()

    def turn(self, wait_ms: int = NEVER_MS) -> None:
        """One turn; waits at most `wait_ms` for work."""
        idle_ms = (
            0
            if self._queued or self._socket.is_ready
            else min(wait_ms, int(self._timers.wait_ms(self._clock.monotonic_ms())))
        )
        message = self._socket.receive(idle_ms) if self._waiter is None else self._receive_any(self._waiter, idle_ms)
        self._now_ms = self._clock.monotonic_ms()
        self._turns += 1
        times = self.times
        if times is not None:
            times.number += 1
            times.begun_ns = 0 if times.number % SAMPLE_EVERY else monotonic_ns()
        if message is not None:
            self._on_message(*message)
            if self._socket.has_more():
                self._drain()
        if self._queued:
            self._serve_waiting()
        self._end_turn()
        self._run_timers()
        if times is not None and times.begun_ns:
            times.on_turn(monotonic_ns())

    def _receive_any(self, waiter: Waiter, idle_ms: int) -> tuple[bytes, bytes, bool] | None:
        """Waits for our own socket and others, and calls the callbacks of others that are readable."""
        own = self._socket.pollable
        is_own = False
        for socket in waiter.wait(idle_ms):
            if socket == own:
                is_own = True
                continue
            on_readable = self._watched.get(socket)
            if on_readable is not None:  # an earlier callback may have closed it
                on_readable()
        return self._socket.receive_nowait() if is_own or self._socket.is_ready else None

    def _drain(self) -> None:
        """Takes the requests that have come, up to the limits of a turn."""
        arena, receive, on_message = self.arena, self._socket.receive_nowait, self._on_message
        for _ in range(1, self._drain_requests):
            if arena.is_full:
                return
            message = receive()
            if message is None:
                return
            on_message(*message)

    def _on_message(self, identity: bytes, header: bytes, more: bool) -> None:
        if not header:
            self._on_wake(more)
            return
        self._requests += 1
        try:
            request, opaque, oneway, timeout_ms, cluster_id, delegation = decode_request(header)
        except RemoteProtocolError as error:
            self._refuse(identity, peek_opaque(header), self._overdrawn(header) or error, more)
            return
        entry = self._handlers.get(type(request))  # type: ignore[arg-type]  # an error is in no table
        if entry is None:
            wrong = request if isinstance(request, ZenitError) else UnknownRequest(request.code)
            self._refuse(identity, opaque, self._overdrawn(header) or wrong, more)
            return
        key = address = ""
        if self.guard is not None:
            key = key_for(self._socket.peer_key, delegation)
            address = self._socket.peer_address if self.guard.asks_address else ""
        if self.guard is not None or (cluster_id != self.cluster_id and cluster_id):
            barred = self._barred(request, cluster_id, key, address)  # type: ignore[arg-type]
            if barred is not None:
                self._answer_unheard(identity, opaque, self._overdrawn(header) or barred, more)
                return
        handler, lane, at_once = entry
        deadline_ms = self._now_ms + (timeout_ms if 0 < timeout_ms < CALL_TIMEOUT_MS_MAX else CALL_TIMEOUT_MS_MAX)
        call: Call[Request] = Call(self, lane, identity, opaque, oneway, deadline_ms, request, key, address)  # type: ignore[arg-type]
        if key:
            self._looked_at.add(call)
        lane.in_flight += 1
        if more and not self._receive_payload(call):
            return
        if key and not self._is_within_limits(call, len(header)):
            return
        if lane.in_flight > lane.limits.in_flight_max or self._in_flight_bytes > self.in_flight_bytes_max:
            self._refuse_call(call, "requests in flight")
        elif at_once:
            self._run_handler(handler, call)
        elif len(lane.queue) >= lane.limits.queue_max:
            self._refuse_call(call, "queue full")
        else:
            if call.end:
                call.payload = bytes(self.arena.view[call.begin : call.end])
            lane.queue.append((call, min(deadline_ms, self._now_ms + lane.limits.deadline_ms)))
            self._queued += 1

    def _barred(self, request: Request, cluster_id: str, key: str, address: str) -> ZenitError | None:
        """Why the request is not heard: it is for another cluster, or its sender may not make it."""
        if cluster_id != self.cluster_id and cluster_id:
            try:
                self.on_other_cluster(request, cluster_id)
            except WrongCluster as error:
                self._other_cluster += 1
                return error
        refusal = None if self.guard is None else self.guard.check(key, address, request)
        if refusal is None:
            return None
        return self._noted(refusal if address else replace(refusal, address=self._socket.peer_address))

    def _is_within_limits(self, call: Call[Request], header_bytes: int) -> bool:
        """Takes what the request costs from its user's budget; refuses it if nothing is left."""
        assert self.guard is not None
        user = self.guard.user_of(call.key) if self.guard.table.has_limits else None
        if user is None:
            return True
        bytes_in, now_ms = header_bytes + call.end - call.begin, self._clock.monotonic_ms()
        retry_after_ms = self._budgets.connect(user, call.identity, now_ms)
        retry_after_ms = retry_after_ms or self._budgets.take(user, now_ms, bytes_in=bytes_in)
        if retry_after_ms:
            call.lane.refused += 1
            self._refused += 1
            self.fail(call, BrokerBusy(retry_after_ms, f"the limits of user {user.name}"))
        return not retry_after_ms

    def _overdrawn(self, header: bytes) -> BrokerBusy | None:
        """A request that is not heard takes from its user's budget too: what its sender is told if nothing is left."""
        guard = self.guard
        user = guard.user_of(self._socket.peer_key) if guard is not None and guard.table.has_limits else None
        if user is None:
            return None
        retry_after_ms = self._budgets.take(user, self._clock.monotonic_ms(), bytes_in=len(header))
        return BrokerBusy(retry_after_ms, f"the limits of user {user.name}") if retry_after_ms else None

    def _spend(self, call: Call[Request], payload_bytes: int, busy_ms: float) -> None:
        """What an answer costs its user."""
        user = self.guard.user_of(call.key) if self.guard is not None else None
        if user is not None:
            self._budgets.spend(user, self._clock.monotonic_ms(), bytes_out=payload_bytes, busy_ms=busy_ms)

    def _noted(self, refusal: Refusal) -> AccessDenied:
        """What the sender is told; it is counted, and told to who writes the audit."""
        self._denied += 1
        if self._door is not None:
            self._door.on_denied(refusal)
        return denied(refusal)

    def _receive_payload(self, call: Call[Request]) -> bool:
        begin = self.arena.used
        size_bytes, whole = self._socket.receive_payload(self.arena.view[begin:])
        if not whole:
            self._malformed += 1
            self.fail(call, MessageTooLarge("payload", size_bytes, self.arena.frame_bytes_max))
            return False
        call.begin, call.end = begin, begin + size_bytes
        self._in_flight_bytes += size_bytes
        return True

    def _on_wake(self, more: bool) -> None:
        """An empty header: our own wake-up. From a foreign client it does no harm."""
        if more:
            self._socket.skip_payload()
        with self._post_lock:
            self._ringing = False
            count = len(self._posted)
        for _ in range(count):
            self._posted.popleft()()

    def _serve_waiting(self) -> None:
        """Gives each lane its share, one request of each in turn, until the turn's time budget is spent."""
        waiting = [lane for lane in self._waiting if lane.queue]
        served = 0
        while waiting:
            for lane in waiting:
                self._serve_one(lane)
            served += 1
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._now_ms >= TURN_BUDGET_MS:
                return
            waiting = [lane for lane in waiting if lane.queue and served < lane.limits.share]

    def _serve_one(self, lane: LaneState) -> None:
        """Handles the lane's oldest request; refuses requests that waited too long on the way."""
        while lane.queue:
            call, refuse_at_ms = lane.queue.popleft()
            self._queued -= 1
            if self._now_ms > refuse_at_ms:
                self._refuse_call(call, "waited too long in its queue")
                continue
            self._run_handler(self._handlers[type(call.request)][0], call)
            return

    def _run_handler(self, handler: Handler, call: Call[Request]) -> None:
        call.lane.handled += 1
        if call.key and self.guard is not None and self.guard.table.has_limits:
            began_ns = monotonic_ns()
            self._run_asked(handler, call)
            self._spend(call, 0, (monotonic_ns() - began_ns) / 1e6)
        else:
            self._run_asked(handler, call)

    def _run_asked(self, handler: Handler, call: Call[Request]) -> None:
        try:
            reply = handler(call)
        except ZenitError as error:
            self.fail(call, error)
        except Exception as error:  # noqa: BLE001  # one bad request must not end the loop
            self._on_fault(call, error)
        else:
            if reply is not None:
                self.reply(call, reply)

    def _on_fault(self, call: Call[Request], error: Exception) -> None:
        """A bug of ours: logged in full once per kind, so that a client cannot fill the log with it."""
        self._faults += 1
        kind = (type(call.request), type(error))
        if kind not in self._faults_logged:
            self._faults_logged.add(kind)
            log.error("a handler failed request=%s", type(call.request).__name__, exc_info=error)
        self.fail(call, SystemFault(f"{type(call.request).__name__}: {type(error).__name__}"))

    def _settle(self, call: Call[Request]) -> bool:
        """Removes a call from the counters; True if it needs an answer."""
        if call.answered:
            return False
        call.answered = True
        if call.key:
            self._looked_at.discard(call)
        call.lane.in_flight -= 1
        self._in_flight_bytes -= call.end - call.begin
        if call.begun_ns and self.times is not None:
            self.times.on_settled(type(call.request), call.begun_ns, monotonic_ns())
        return not call.oneway

    def _refuse_call(self, call: Call[Request], reason: str) -> None:
        call.lane.refused += 1
        self._refused += 1
        self.fail(call, BrokerBusy(RETRY_AFTER_MS, reason))

    def _refuse(self, identity: bytes, opaque: int, error: ZenitError, more: bool) -> None:
        """Answers a request that cannot be handled at all."""
        self._malformed += 1
        self._answer_unheard(identity, opaque, error, more)

    def _answer_unheard(self, identity: bytes, opaque: int, error: ZenitError, more: bool) -> None:
        if more:
            self._socket.skip_payload()
        self._outbox.append((identity, encode_error(error, opaque), (), None))

    def _end_turn(self) -> None:
        if self._on_turn_end is not None:
            self._on_turn_end()
        self._send_replies()
        if self._on_replied is not None:
            self._on_replied()
            self._send_replies()

    def _send_replies(self) -> None:
        if self._outbox:
            send = self._socket.send
            for identity, header, payload, on_unsent in self._outbox:
                if not send(identity, header, payload) and on_unsent is not None:
                    self.call_later(0, on_unsent)
            self._outbox.clear()
        self._socket.flush()

    def _run_timers(self) -> None:
        due = self._timers.due(self._clock.monotonic_ms())
        for timer in due:
            if not timer.cancelled:
                timer.callback()
        if due:
            self._end_turn()


def _open_socket(bind: str, frame_bytes_max: int, door: Door | None) -> DirectRouter | RouterSocket:
    """ZeroMQ encrypts, and carries what goes through memory. Raises ConfigError."""
    if door is not None:
        return RouterSocket(bind, frame_bytes_max, door.security, door.open_bind)
    return RouterSocket(bind, frame_bytes_max) if is_inside(bind) else DirectRouter(bind, frame_bytes_max)


def _accept(_: Request, __: str) -> None:
    """A server without a cluster serves any."""


class Publisher:
    """Publishes to subscribers at `address`. One thread; a context manager."""

    def __init__(self, bind: str, door: Door | None = None) -> None:
        """`bind`: "host:port", port 0 = any free one. Raises ConfigError if it cannot be bound."""
        self._socket = PubSocket(bind, door.security if door is not None else None)
        self.address = self._socket.address
        self.port = int(self.address.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def welcome_in(self, loop: RequestLoop) -> None:
        """Lets the loop, which publishes, welcome each subscriber as soon as it is connected."""
        loop.watch(self._socket.pollable, lambda: None)

    def publish(self, topic: bytes, body: bytes) -> None:
        """Publishes one announcement; never waits."""
        self._socket.send(topic, body)

    def close(self) -> None:
        """Closes it, within the linger time."""
        self._socket.close()
