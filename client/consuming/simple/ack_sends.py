"""Sends acknowledgements, and gives back what reached nobody: gathered for each topic and broker, in the background.

`ack_queue` decides what is sent when. Where a broker is replaced, the next try goes to the new master of its name, which knows
the leases.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ....model.clock import monotonic_ms, monotonic_ns
from ....model.errors import ClientClosed, RemoteProtocolError, RequestTimeout, ZenitError, error_from_wire
from ....model.handles.receipt_handle import COUNT_MAX, with_index
from ....remoting.commands import AckMessages, AckReply, ReleaseMessages
from ...connection.connection import Connection
from ...connection.retry import RetryPolicy
from ...connection.waiting import Signal, Waits
from ...tracing.client_telemetry import current
from .ack_queue import LOST_MS, ROWS_MAX, AckQueue, AckRow, AckWaiter, Settled
from .lease import LeasedPart

log = logging.getLogger(__name__)

LINGER_MS: Final = 5
TRIED_MS_MIN: Final = 10_000
"""So long a row is tried at least, whatever is left of its lease."""

_Request = type[AckMessages] | type[ReleaseMessages]

OnAckError = Callable[[str, ZenitError], object]
"""(the handle of a message, why it is not acknowledged). In the thread that got the answer; must not block."""


class _Gathering:
    """Requests of one kind for one topic at one broker."""

    __slots__ = ("broker_name", "is_timed", "queue", "request", "topic")

    def __init__(self, request: _Request, broker_name: str, topic: str, retry: RetryPolicy) -> None:
        self.request = request
        self.broker_name = broker_name
        self.topic = topic
        self.queue = AckQueue(retry)
        self.is_timed = False


class Acknowledged:
    """One caller waits until the broker has taken all of some messages: {handle: bits}."""

    def __init__(self, waits: Waits, wanted: Mapping[str, int]) -> None:
        self._lock = threading.Lock()
        self._left = dict(wanted)
        self._signal: Signal = waits.new_signal()
        self._error: ZenitError | None = None

    def on_settled(self, handle: str, bits: int, error: ZenitError | None) -> None:
        """See AckWaiter."""
        with self._lock:
            mine = self._left.get(handle, 0) & bits
            if not mine:
                return
            if error is not None:
                self._error = self._error or error
            self._left[handle] ^= mine
            is_last = not any(self._left.values())
        if is_last:
            self._signal.set()

    async def wait(self, timeout_ms: int) -> None:
        """Raises why one was refused, RequestTimeout."""
        if not await self._signal.wait(timeout_ms):
            raise RequestTimeout("an acknowledgement", timeout_ms)
        if self._error is not None:
            try:
                raise self._error
            finally:  # it knows this frame, and so all callers: they would stay until a collection
                self._error = None


class AckSends:
    """One consumer's. Any thread; the lock is never held while sending."""

    def __init__(
        self, connection: Connection, group: str, *, on_idle: Callable[[], None], on_ack_error: OnAckError | None
    ) -> None:
        """`on_idle`: called when nothing waits any more."""
        self._connection = connection
        self._group = group
        self._on_idle = on_idle
        self._on_ack_error = on_ack_error
        self._telemetry = current()
        self._retry = RetryPolicy()
        self._lock = threading.Lock()
        self._gatherings: dict[tuple[_Request, str, str], _Gathering] = {}
        self._is_closed = False
        self.acknowledged = 0
        """Messages that brokers have taken."""
        self.refused = 0
        """Messages whose acknowledgement failed for good."""

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent, nor for an answer."""
        with self._lock:
            return all(gathering.queue.is_idle for gathering in self._gatherings.values())

    @property
    def waiting(self) -> int:
        """Rows that are not sent."""
        with self._lock:
            return sum(gathering.queue.waiting for gathering in self._gatherings.values())

    def ack(self, part: LeasedPart, bits: int, waiter: AckWaiter | None = None) -> None:
        """These messages of a part are dealt with."""
        self._add(AckMessages, part, bits, waiter)

    def hold(self, part: LeasedPart, bits: int, waiter: AckWaiter) -> None:
        """The same of messages whose request waits for `send_held`, so that it has those of others too."""
        self._add(AckMessages, part, bits, waiter, is_held=True)

    def send_held(self) -> None:
        """Sends what waits."""
        with self._lock:
            gatherings = [gathering for gathering in self._gatherings.values() if gathering.queue.waiting]
        for gathering in gatherings:
            self._pump(gathering, is_due=True)

    def give_back(self, part: LeasedPart, bits: int) -> None:
        """These messages of a part reached nobody."""
        self._add(ReleaseMessages, part, bits, None)

    def look_after(self) -> None:
        """In the I/O thread, now and then: a signal's handler may have raised where something was to be sent or answered."""
        now = monotonic_ms()
        with self._lock:
            gatherings = list(self._gatherings.values())
            lost = [(gathering, batch) for gathering in gatherings for batch in gathering.queue.lost(now)]
        for gathering, batch in lost:
            self._on_answer(gathering, batch, None, RequestTimeout("acknowledgements", LOST_MS))
        for gathering in gatherings:
            if gathering.queue.waiting:
                self._pump(gathering, is_due=True)

    def send_all(self) -> None:
        """Sends what is gathered, and from now on gathers no more."""
        with self._lock:
            self._is_closed = True
            gatherings = list(self._gatherings.values())
        for gathering in gatherings:
            self._pump(gathering, is_due=True)

    def drop_all(self) -> None:
        """Sends nothing any more: what waits has failed."""
        with self._lock:
            closed = ClientClosed("consumer")
            dropped = [(gathering, gathering.queue.drop(closed)) for gathering in self._gatherings.values()]
        for gathering, settled in dropped:
            self._tell(gathering, settled)

    # ---- inside

    def _add(
        self, request: _Request, part: LeasedPart, bits: int, waiter: AckWaiter | None, *, is_held: bool = False
    ) -> None:
        until_ms = max(part.until_ms, monotonic_ms() + TRIED_MS_MIN)
        key = request, part.broker_name, part.topic
        with self._lock:
            gathering = self._gatherings.get(key)
            if gathering is None:
                gathering = self._gatherings[key] = _Gathering(*key, self._retry)
            queue = gathering.queue
            queue.add(part.handle, bits, until_ms=until_ms, waiter=waiter)
            is_now = (waiter is not None and not is_held) or queue.waiting >= ROWS_MAX or self._is_closed
            is_first = not gathering.is_timed and not is_now and not is_held
            if is_first:
                gathering.is_timed = True
        if is_now:
            self._pump(gathering, is_due=True)
        elif is_first:
            self._later(gathering, LINGER_MS)

    def _later(self, gathering: _Gathering, delay_ms: int) -> None:
        try:
            self._connection.remoting.call_later(delay_ms, partial(self._on_timer, gathering))
        except ZenitError:  # the client ends, or its thread is overrun
            gathering.is_timed = False

    def _on_timer(self, gathering: _Gathering) -> None:
        gathering.is_timed = False
        self._pump(gathering, is_due=True)

    def _pump(self, gathering: _Gathering, *, is_due: bool) -> None:
        """Sends what may be sent now."""
        while True:
            now = monotonic_ms()
            with self._lock:
                batch = gathering.queue.take(now, is_due=is_due or self._is_closed)
                pause_ms = 0 if batch else gathering.queue.pause_ms(now)
                is_first = bool(pause_ms) and not gathering.is_timed
                if is_first:
                    gathering.is_timed = True
            if batch:
                self._send(gathering, batch)
                continue
            if is_first:
                self._later(gathering, pause_ms)
            return

    def _send(self, gathering: _Gathering, batch: list[AckRow]) -> None:
        topic = gathering.topic
        request = gathering.request(self._group, topic, tuple((row.handle, row.bits) for row in batch))
        telemetry = self._telemetry if gathering.request is AckMessages else None
        begun_ns = 0 if telemetry is None else monotonic_ns()

        def on_reply(reply: AckReply | None, _payload: bytes, error: ZenitError | None) -> None:
            if telemetry is not None:
                count = sum(row.bits.bit_count() for row in batch)
                telemetry.on_settled(self._group, topic, "ack", count, begun_ns, error)
            self._on_answer(gathering, batch, reply, error)

        timeout_ms = self._retry.try_timeout_ms(TRIED_MS_MIN, TRIED_MS_MIN)
        try:
            address = self._connection.routes.address_of(topic, gathering.broker_name)
            self._connection.remoting.send_nowait(address, request, None, timeout_ms=timeout_ms, on_reply=on_reply)
        except ZenitError as error:
            on_reply(None, b"", error)

    def _on_answer(
        self, gathering: _Gathering, batch: list[AckRow], reply: AckReply | None, error: ZenitError | None
    ) -> None:
        """In the thread that got the answer."""
        now = monotonic_ms()
        if reply is not None and len(reply.rows) != len(batch):
            error = RemoteProtocolError(f"{len(reply.rows)} answers for {len(batch)} acknowledgements")
        with self._lock:
            if reply is None or error is not None:
                failure = error or RemoteProtocolError("acknowledgements were not answered with one")
                settled = gathering.queue.on_error(batch, failure, now)
            else:
                settled = gathering.queue.on_reply(batch, [_error_of(row) for row in reply.rows], now)
        if error is not None and error.route_stale:
            self._connection.routes.refresh_soon(gathering.topic)
        self._tell(gathering, settled)
        self._pump(gathering, is_due=False)
        if gathering.queue.is_idle:
            self._on_idle()

    def _tell(self, where: _Gathering, settled: Sequence[Settled]) -> None:
        for row, error in settled:
            for waiter in row.waiters:
                waiter.on_settled(row.handle, row.bits, error)
            if where.request is ReleaseMessages:
                if error is not None:
                    log.info("messages are not given back group=%s topic=%s error=%s", self._group, where.topic, error)
            elif error is None:
                self.acknowledged += row.bits.bit_count()
            else:
                self.refused += row.bits.bit_count()
                if not row.waiters:
                    self._tell_refused(where, row, error)

    def _tell_refused(self, where: _Gathering, row: AckRow, error: ZenitError) -> None:
        log.warning(
            "messages are not acknowledged group=%s topic=%s broker=%s count=%d error=%s",
            *(self._group, where.topic, where.broker_name, row.bits.bit_count(), error),
        )
        if self._on_ack_error is None:
            return
        for index in range(COUNT_MAX):
            if row.bits >> index & 1:
                try:
                    self._on_ack_error(with_index(row.handle, index), error)
                except Exception:
                    log.exception("on_ack_error failed")


def _error_of(row: tuple[int, str]) -> ZenitError | None:
    code, facts = row
    if not code:
        return None
    try:
        return error_from_wire(code, list(json.loads(facts)), facts)
    except (ValueError, TypeError, RecursionError):
        return RemoteProtocolError("why an acknowledgement was refused cannot be read")
