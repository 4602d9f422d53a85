"""One shared connection of a client: many requests in flight, sent by any thread, answered to callbacks.

Each user of the socket holds the lock and then drains the socket until it is empty, because its descriptor signals new
messages only once. So a reply may be received by a sending thread or by the I/O thread. Its callback runs in that thread
exactly once, after the lock is released; if a callback there is itself sending, after that callback. Only the I/O thread
reads the monitor, checks deadlines, and closes the socket.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from ..model.clock import monotonic_ms
from ..model.errors import BufferFull, RemoteProtocolError, RequestTimeout, ZenitError
from .client_socket import Payload
from .commands import Reply, Request, RequestFor
from .header import Header, encode_request, is_request, opaque_of, open_header, reply_of
from .options import IN_FLIGHT_MAX
from .sync_calls import OnRequest, opaques

log = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024

_Reply = TypeVar("_Reply", bound=Reply)

OnReply = Callable[[_Reply | None, bytes, ZenitError | None], None]
"""(reply, payload, None) or (None, b"", error)."""

_Pending = tuple[
    OnReply[Any], type[Request], int, int, int
]  # callback, request class, give up at, timeout, size in bytes
_Answer = tuple[OnReply[Any], Reply | None, bytes, ZenitError | None]


class Connected(Protocol):
    """One connection: a Dealer, or a DirectDealer that an event loop watches."""

    address: str
    must_drain: bool

    def send(self, header: bytes, payload: Payload | None) -> bool:
        """See Dealer."""

    def receive_nowait(self) -> tuple[bytes, bytes] | None:
        """See Dealer."""

    def loss(self) -> ZenitError:
        """See Dealer."""

    def close(self) -> None:
        """See Dealer."""


_Connected = TypeVar("_Connected", bound=Connected)


class Channel(Generic[_Connected]):
    """Requests in flight to one address. Any thread, unless said otherwise."""

    def __init__(self, dealer: _Connected, on_request: OnRequest, cluster_id: str = "", delegation: str = "") -> None:
        """`cluster_id`: of the server's cluster; "" = not known yet. `delegation`: see `RemotingClient.act_for`."""
        self.address = dealer.address
        self.cluster_id = cluster_id
        self.delegation = delegation
        self.dealer = dealer
        self.ended = False
        self.is_watched = False
        """Set by the I/O thread only."""
        self.is_torn = False
        """A thread was interrupted inside the socket, perhaps between two frames of a message: the channel must end soon."""
        self._on_request = on_request
        self._opaques = opaques()
        self._lock = threading.Lock()
        self._in_flight: dict[int, _Pending] = {}
        self._in_flight_bytes = 0
        self._untold: list[_Answer] = []  # of a thread that was interrupted; `end` tells them
        self._none_late_ms = 0  # nothing in flight has its deadline before this time

    @property
    def is_idle(self) -> bool:
        """True if nobody waits for a reply."""
        return not (self._in_flight or self._untold)

    @property
    def none_late_ms(self) -> int:
        """Nothing in flight has its deadline before this time."""
        return self._none_late_ms

    def send(
        self, request: RequestFor[_Reply], payload: Payload | None, timeout_ms: int, on_reply: OnReply[_Reply]
    ) -> bool:
        """Sends; False if the connection ended before (nothing was sent). Raises BufferFull, MessageTooLarge."""
        opaque = next(self._opaques)
        header = encode_request(
            request, opaque, timeout_ms=timeout_ms, cluster_id=self.cluster_id, delegation=self.delegation
        )
        size_bytes = len(header) + (memoryview(payload).nbytes if payload is not None else 0)
        pending = (on_reply, type(request), monotonic_ms() + timeout_ms, timeout_ms, size_bytes)
        with self._lock:
            if self.ended or self.is_torn:
                return False
            in_flight = self._in_flight
            if in_flight and (
                len(in_flight) >= IN_FLIGHT_MAX or self._in_flight_bytes + size_bytes > IN_FLIGHT_BYTES_MAX
            ):
                raise BufferFull(IN_FLIGHT_BYTES_MAX)
            try:
                sent = self.dealer.send(header, payload)
                if sent:
                    in_flight[opaque] = pending
                    self._none_late_ms = min(self._none_late_ms, pending[2])
                    self._in_flight_bytes += size_bytes
            except BaseException:  # a signal handler raised
                self.is_torn = True
                raise
            # a send that found no room may have used up the descriptor's signal nevertheless
            answers = self._drain() if self.dealer.must_drain else []
        if answers:
            _tell(answers)
        if not sent:
            raise BufferFull(IN_FLIGHT_BYTES_MAX)
        return True

    def send_oneway(self, request: Request, payload: Payload | None) -> bool:
        """Sends a request without a reply; False if the connection ended before or its queue is full."""
        header = encode_request(
            request, 0, timeout_ms=0, oneway=True, cluster_id=self.cluster_id, delegation=self.delegation
        )
        with self._lock:
            try:
                sent = not (self.ended or self.is_torn) and self.dealer.send(header, payload)
            except BaseException:
                self.is_torn = True
                raise
            answers = [] if self.ended else self._drain()
        _tell(answers)
        return sent

    def on_readable(self) -> None:
        """I/O thread: the socket's descriptor signals that messages may have come."""
        with self._lock:
            answers = [] if self.ended else self._drain()
        _tell(answers)

    def expire(self, now_ms: int) -> None:
        """I/O thread: fails requests past their deadline; a later reply to them is discarded."""
        if not self._in_flight or now_ms < self._none_late_ms:
            return  # a consumer may have thousands in flight, and this runs at each wake-up of the thread
        answers: list[_Answer] = []
        with self._lock:
            late = [opaque for opaque, pending in self._in_flight.items() if pending[2] <= now_ms]
            for opaque in late:
                on_reply, request_class, _, timeout_ms, size_bytes = self._in_flight.pop(opaque)
                self._in_flight_bytes -= size_bytes
                error = RequestTimeout(f"{request_class.__name__} at {self.address}", timeout_ms)
                answers.append((on_reply, None, b"", error))
            in_flight = self._in_flight.values()
            self._none_late_ms = min((pending[2] for pending in in_flight), default=now_ms)
        _tell(answers)

    def end(self, error: ZenitError | None = None) -> None:
        """I/O thread: takes the last replies, closes the connection and fails what is in flight (default: with its `loss`)."""
        with self._lock:
            if self.ended:
                return
            answers = [*self._untold, *self._drain()]
            self.ended = True
            self._untold.clear()
            self.dealer.close()
            reason = error or self.dealer.loss()
            answers.extend((pending[0], None, b"", reason) for pending in self._in_flight.values())
            self._in_flight.clear()
            self._in_flight_bytes = 0
        _tell(answers)

    def _drain(self) -> list[_Answer]:
        """Takes the received messages; the lock is held."""
        answers: list[_Answer] = []
        receive = self.dealer.receive_nowait
        try:
            while not self.is_torn:
                try:
                    received = receive()
                    if received is None:
                        break
                    header = open_header(received[0])
                except RemoteProtocolError as error:
                    log.warning("a malformed reply address=%s reason=%s", self.address, error)
                    continue
                if is_request(header):
                    answers.append((partial(self._pushed, received[0]), None, received[1], None))
                else:
                    self._match(header, received[1], answers)
        except BaseException:
            self.is_torn = True
            self._untold += answers
            raise
        return answers

    def _match(self, header: Header, payload: bytes, answers: list[_Answer]) -> None:
        opaque = opaque_of(header)
        pending = self._in_flight.get(opaque)
        if pending is None:
            return  # its caller gave up
        try:
            answer = reply_of(header, pending[1].reply)
        except RemoteProtocolError as error:
            answer = error
        if isinstance(answer, ZenitError):
            told: _Answer = (pending[0], None, b"", answer)
        else:
            told = (pending[0], answer, payload, None)
        self._in_flight_bytes -= pending[4]
        answers += (told,)  # no handler of a signal runs between this and the next: `append` would be a place for one
        del self._in_flight[opaque]

    def _pushed(self, header: bytes, _: Reply | None, payload: bytes, __: ZenitError | None) -> None:
        self._on_request(self.address, header, payload)


class _Telling(threading.local):
    """The answers whose callbacks this thread has yet to run, while it runs callbacks."""

    answers: deque[_Answer] | None = None


_telling: Final = _Telling()


def _tell(answers: list[_Answer]) -> None:
    """Runs callbacks, without the lock; one that fails does not stop the others.

    A callback that sends may receive the next reply, whose callback may do the same. Answers received within a callback are
    handled after it; otherwise a fast broker would make callbacks nest until the stack ends.
    """
    if not answers:
        return
    if _telling.answers is not None:
        _telling.answers.extend(answers)
        return
    waiting = _telling.answers = deque(answers)
    try:
        _tell_all(waiting)
    except BaseException:  # a signal handler raised: the callers of the others wait too
        _tell_all(waiting)
        raise
    finally:
        _telling.answers = None


def _tell_all(waiting: deque[_Answer]) -> None:
    while waiting:
        on_reply, reply, payload, error = waiting.popleft()
        try:
            on_reply(reply, payload, error)
        except Exception:
            log.exception("a reply's callback failed")
