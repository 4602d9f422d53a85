"""Synchronous calls: each thread has its own connection to each address, so a call needs no switch between threads.

The caller blocks in its own socket in slices; only between slices it checks whether the connection ended or the client was
closed. A connection is closed when its thread ends, when it is lost, or when the client closes.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from ..model.clock import monotonic_ms
from ..model.errors import ClientClosed, RequestTimeout, ZenitError
from .client_socket import ClientContext, Dealer
from .commands import Reply, Request, RequestFor
from .direct.direct_dealer import DirectDealer, Payload
from .header import Header, encode_request, is_request, opaque_of, open_header, reply_of
from .io_thread import check_may_wait

SLICE_MS_MIN: Final = 5
SLICE_MS_MAX: Final = 50
"""The longest wait before a caller checks the connection; the wait doubles each time up to this."""

FRESH_MS: Final = 100
"""A connection that answered so recently counts as alive; if it is not, the call fails like one in flight."""

NESTED: Final = "+"
"""Marks a thread's second connection to an address, for a call made while the first waits."""

OPAQUE_MAX: Final = 0x7FFFFFFF  # RocketMQ's opaque is a signed 32-bit integer

_Reply = TypeVar("_Reply", bound=Reply)

OnRequest = Callable[[str, bytes, bytes], None]
"""(address, header, payload) of a request that a server sent."""


def opaques() -> Iterator[int]:
    """Request numbers of a connection: from 1 to OPAQUE_MAX, then from 1 again. One iterator serves all threads.

    Not `itertools.cycle`: that keeps every number it gave out, 40 bytes per request.
    """
    return itertools.chain.from_iterable(itertools.repeat(range(1, OPAQUE_MAX + 1)))


class SyncConnection:
    """One thread's connection to one address; only a closing client ever waits for the lock."""

    def __init__(self, dealer: Dealer | DirectDealer, on_request: OnRequest) -> None:
        self._dealer = dealer
        self._on_request = on_request
        self._opaques = opaques()
        self._lock = threading.Lock()
        self._used_ms = 0  # begin of the last call that was answered
        self._gave_up: RequestTimeout | None = None
        self.in_call = False
        self.is_torn = False
        """An exchange did not come to its end: the connection is not used again."""
        self.closed = False
        self.closing = False  # set by the closing client, read between slices

    def call(
        self,
        request: RequestFor[_Reply],
        payload: Payload | None,
        timeout_ms: int,
        now_ms: int,
        cluster_id: str,
        delegation: str,
    ) -> tuple[_Reply, bytes]:
        """Sends and waits. Raises the reply's error, RequestTimeout, ConnectionLost, AuthenticationFailed, ClientClosed,
        RemoteProtocolError."""
        opaque = next(self._opaques)
        frame = encode_request(request, opaque, timeout_ms=timeout_ms, cluster_id=cluster_id, delegation=delegation)
        pushed: list[tuple[bytes, bytes]] = []
        try:
            header, body = self._exchange(request, opaque, frame, payload, timeout_ms, now_ms, pushed)
        finally:  # they were meant for us whether the call succeeds or not
            for pushed_header, pushed_body in pushed:
                self._on_request(self._dealer.address, pushed_header, pushed_body)
        answer: Any = reply_of(header, request.reply)  # of the request's reply class
        if isinstance(answer, ZenitError):
            try:
                raise answer
            finally:  # its traceback would keep this frame and all callers alive until a garbage collection
                del answer
        return answer, body

    def _exchange(
        self,
        request: Request,
        opaque: int,
        frame: bytes,
        payload: Payload | None,
        timeout_ms: int,
        now_ms: int,
        pushed: list[tuple[bytes, bytes]],
    ) -> tuple[Header, bytes]:
        """Sends the request and receives its reply, under the lock."""
        with self._lock:
            if self.closed:
                raise ClientClosed("client")
            self.in_call = True
            try:
                if not self._dealer.send(frame, payload):
                    self._dealer.is_lost()  # reads why, if it has ended before this request
                    raise self._dealer.loss()
                answer = self._await(request, opaque, now_ms + timeout_ms, timeout_ms, pushed)
            except RequestTimeout as error:
                self.is_torn = error is not self._gave_up  # else a signal handler raised it, perhaps within a message
                raise
            except BaseException:
                self.is_torn = True
                raise
            finally:
                self.in_call = False
                self._gave_up = None
            self._used_ms = now_ms
        return answer

    def _await(
        self, request: Request, opaque: int, give_up_ms: int, timeout_ms: int, pushed: list[tuple[bytes, bytes]]
    ) -> tuple[Header, bytes]:
        """The reply to `opaque`. Drops late replies to calls that timed out; adds the server's own requests to `pushed`."""
        receive, slice_ms = self._dealer.receive, SLICE_MS_MIN
        while True:
            received = receive(slice_ms)
            if received is not None:
                header = open_header(received[0])
                if is_request(header):
                    pushed.append(received)
                elif opaque_of(header) == opaque:
                    return header, received[1]
            left_ms = self._time_left_ms(request, give_up_ms, timeout_ms)
            slice_ms = min(2 * slice_ms, SLICE_MS_MAX, left_ms)

    def _time_left_ms(self, request: Request, give_up_ms: int, timeout_ms: int) -> int:
        """The time left after a slice without a reply, at least 1; raises if waiting is pointless."""
        if self.closing:
            raise ClientClosed("client")
        if self._dealer.is_lost():
            raise self._dealer.loss()
        left_ms = give_up_ms - monotonic_ms()
        if left_ms <= 0:
            self._gave_up = RequestTimeout(f"{type(request).__name__} at {self._dealer.address}", timeout_ms)
            raise self._gave_up
        return left_ms

    def is_stale(self, now_ms: int) -> bool:
        """Between calls: True if the connection has ended, or may end soon. To save time, not checked again for a while."""
        if self.is_torn:
            return True
        if now_ms - self._used_ms <= FRESH_MS:
            return False
        return self._dealer.has_rested(now_ms) or self._dealer.is_lost() or self._dealer.is_unfit

    def close(self, wait_ms: int = -1) -> bool:
        """Closes; False if its thread is still inside a call after `wait_ms` (-1 = no limit)."""
        self.closing = True
        if not self._lock.acquire(timeout=wait_ms / 1000 if wait_ms >= 0 else -1):
            return False
        try:
            self.closed = True
            self._dealer.close()
        finally:
            self._lock.release()
        return True


class _OneThread:
    """The connections of one thread; when the thread ends, this object is freed and closes them."""

    __slots__ = ("__weakref__", "connections")

    def __init__(self) -> None:
        self.connections: dict[str, SyncConnection] = {}


def _close_all(connections: dict[str, SyncConnection], pid: int) -> None:
    """Closes the connections, except in a child forked from process `pid`.

    There a lock may be held by a thread that does not exist, and the sockets belong to the parent.
    """
    if os.getpid() != pid:
        return
    for connection in connections.values():
        connection.close()


class SyncCalls:
    """The synchronous connections of all threads of one client."""

    def __init__(self, context: ClientContext, on_request: OnRequest) -> None:
        self.cluster_id = ""  # of the server's cluster; "" = not known yet
        self.delegation = ""  # see RemotingClient.act_for
        self._context = context
        self._on_request = on_request
        self._local = threading.local()
        self._lock = threading.Lock()
        self._threads: weakref.WeakSet[_OneThread] = weakref.WeakSet()
        self._closed = False

    def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """See `RemotingClient.call`."""
        now_ms = monotonic_ms()
        connection = self._connection(address, now_ms)
        try:
            return connection.call(request, payload, timeout_ms, now_ms, self.cluster_id, self.delegation)
        finally:
            if connection.is_torn:
                self._drop(connection)

    def _connection(self, address: str, now_ms: int) -> SyncConnection:
        """The calling thread's connection; a new one if there is none, or none that is alive and free.

        One is not free if a signal handler makes a call while the interrupted thread waits for its own reply.
        """
        mine: _OneThread | None = getattr(self._local, "mine", None)
        if mine is None:
            mine = self._new_thread()
        connection = mine.connections.get(address)
        if connection is not None and connection.in_call:
            return self._connection(f"{address}{NESTED}", now_ms)
        if connection is not None and not connection.is_stale(now_ms):
            return connection
        if connection is not None:
            self._drop(connection)
        connection = SyncConnection(self._context.caller(address.rstrip(NESTED)), self._on_request)
        with self._lock:
            if not self._closed:
                mine.connections[address] = connection
                return connection
        connection.close()
        raise ClientClosed("client")

    def _new_thread(self) -> _OneThread:
        check_may_wait("a call that waits")
        mine = _OneThread()
        weakref.finalize(mine, _close_all, mine.connections, os.getpid()).atexit = False
        with self._lock:
            self._threads.add(mine)
        self._local.mine = mine
        return mine

    def _drop(self, connection: SyncConnection) -> None:
        with self._lock:
            connections: dict[str, SyncConnection] = self._local.mine.connections
            for key in [key for key, kept in connections.items() if kept is connection]:
                del connections[key]
        connection.close()

    def close(self, deadline_ms: int) -> bool:
        """Closes all connections until `deadline_ms` (monotonic); False if a thread is still inside a call then."""
        with self._lock:
            self._closed = True
            open_ones = [connection for thread in self._threads for connection in thread.connections.values()]
            for thread in (
                self._threads
            ):  # threads may live on, and the finalizers at their ends would keep this client from being freed
                thread.connections.clear()
        for connection in open_ones:
            connection.closing = True
        still_open = [c for c in open_ones if not c.close(max(deadline_ms - monotonic_ms(), 0))]
        return not still_open
