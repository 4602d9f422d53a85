"""The server's sockets: a ROUTER for clients, its wake-up from other threads, and a PUB. Imports zmq.

Each belongs to one thread, except the wake-up, which any thread may use under its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import zmq

from .base_socket import (
    WELCOME,
    Pollable,
    begin_inside,
    bind_tcp,
    end_context,
    end_inside,
    inside_context,
    is_inside,
    new_context,
    new_socket,
    plain_send,
    unbind_inside,
)
from .options import FRAMES_MAX
from .security.curve_socket import FRAME_OVERHEAD_BYTES, ServerSecurity, peer_address, user_key

Payload = bytes | memoryview | zmq.Frame
"""One outgoing frame: bytes, which are copied at each send, or a `shared_payload`, which was copied once."""

_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE)
_MORE_NOBLOCK: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)


def _context_for(bind: str) -> zmq.Context[zmq.Socket[bytes]]:
    return inside_context() if is_inside(bind) else new_context()


def shared_payload(data: bytes | memoryview) -> Payload:
    """A payload for several receivers."""
    return zmq.Frame(data, copy=True)


class RouterSocket:
    """Receives [identity, header, payload...] and sends the same; one blocking receive serves TCP and the wake-up."""

    is_ready = False
    """What has come, a `Waiter` sees."""

    def __init__(
        self,
        bind: str,
        frame_bytes_max: int,
        security: ServerSecurity | None = None,
        open_bind: str = "",
        *,
        only_servers: bool = False,
        is_open: bool = False,
    ) -> None:
        """`security`: only who is let in comes in, and `peer_key` says who sent the last message. `open_bind`: a second address
        for those without a key; `is_open`: the only one is for them."""
        self._security = None if is_inside(bind) else security
        self._context = self._security.context if self._security is not None else _context_for(bind)
        overhead_bytes = 0 if self._security is None else FRAME_OVERHEAD_BYTES
        self._socket = new_socket(self._context, "ROUTER", MAXMSGSIZE=frame_bytes_max + overhead_bytes)
        self._last: zmq.Frame | None = None  # the header of the last message, if its sender matters
        self._wake = new_socket(self._context, "WAKE")
        self._wake_lock = threading.RLock()  # re-entrant: a signal handler may ring while the same thread does
        self._timeout_ms = -1
        self.dropped_slow = 0  # replies to a peer that does not read
        self.dropped_gone = 0  # replies to a peer that is gone
        self.address = self.open_address = ""  # until it is bound
        try:
            if self._security is not None:
                self._security.secure(self._socket, only_servers=only_servers)
                if is_open:
                    self._security.open_up(self._socket)
            self.address = bind_tcp(self._socket, bind)
            if self._security is not None and open_bind:
                self._security.open_up(self._socket)
                self.open_address = bind_tcp(self._socket, open_bind)
            wake = f"inproc://wake-{id(self)}"
            self._socket.bind(wake)
            self._wake.connect(wake)
            if is_inside(bind):
                begin_inside(bind)
        except BaseException:
            self.close()
            raise
        self._recv, self._get, self._send = self._socket.recv, self._socket.get, plain_send(self._socket)

    @property
    def pollable(self) -> zmq.Socket[bytes]:
        """For a `Waiter`."""
        return self._socket

    def receive(self, timeout_ms: int) -> tuple[bytes, bytes, bool] | None:
        """(identity, header, whether payload frames follow), or None if nothing came within `timeout_ms`."""
        if timeout_ms != self._timeout_ms:
            self._socket.set(zmq.RCVTIMEO, timeout_ms)
            self._timeout_ms = timeout_ms
        try:
            identity = self._recv()
        except zmq.Again:
            return None
        header = self._recv(0, copy=False)  # a frame object knows whether more follow; asking the socket costs 1 us
        if self._security is not None:
            self._last = header
        return identity, header.bytes, header.more

    def receive_nowait(self) -> tuple[bytes, bytes, bool] | None:
        """The same, without waiting (all frames of a message arrive together)."""
        try:
            identity = self._recv(_NOBLOCK)
        except zmq.Again:
            return None
        header = self._recv(0, copy=False)
        if self._security is not None:
            self._last = header
        return identity, header.bytes, header.more

    @property
    def peer_key(self) -> str:
        """The key of who sent the last message; "" for a wake-up, and where nobody needs one."""
        return "" if self._last is None else user_key(self._last)

    @property
    def peer_address(self) -> str:
        """The IP address of who sent the last message."""
        return "" if self._last is None else peer_address(self._last)

    def has_more(self) -> bool:
        """True if another message has come. Cheaper than `receive_nowait` if the answer is no."""
        return bool(int(self._get(_EVENTS)) & _POLLIN)

    def receive_payload(self, room: memoryview) -> tuple[int, bool]:
        """Receives the remaining frames contiguously into `room`; returns (their total size in bytes, whether they fit).

        If they were too large or too many, they are consumed, but not complete in `room`.
        """
        receive, room_bytes = self._recv, len(room)
        size = frames = 0
        more = True
        while more:
            frame = receive(0, copy=False)  # a frame knows whether more follow; asking the socket would double the cost
            begin, size = size, size + len(frame)
            if size <= room_bytes:
                room[begin:size] = memoryview(frame)  # type: ignore[arg-type]  # it is a buffer, though not typed as one
            more = frame.more
            frames += 1
        return size, size <= room_bytes and frames <= FRAMES_MAX

    def skip_payload(self) -> None:
        """Consumes the remaining frames of the message."""
        while self._recv(0, copy=False).more:
            pass

    def send(self, identity: bytes, header: bytes, payload: Sequence[Payload]) -> bool:
        """Sends without waiting; False (counted) if the peer is gone or does not read."""
        send = self._send
        try:
            send(identity, _MORE_NOBLOCK)
        except zmq.Again:
            self.dropped_slow += 1
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self.dropped_gone += 1
            return False
        if not payload:
            send(header, _NOBLOCK)
            return True
        send(header, _MORE_NOBLOCK)
        for index in range(len(payload) - 1):
            send(payload[index], _MORE_NOBLOCK)
        send(payload[-1], _NOBLOCK)
        return True

    def flush(self) -> None:
        """Nothing to do: ZeroMQ has what was sent."""

    def ring(self) -> None:
        """Makes the receiving thread receive an empty header. Any thread. If the queue is full, it will wake up anyway."""
        with self._wake_lock:
            if self._wake.closed:
                return
            try:
                self._wake.send(b"", _NOBLOCK)
            except zmq.Again:
                return

    def close(self) -> None:
        """Owner thread, within the linger time. Queued replies to connected peers are still sent."""
        with self._wake_lock:
            self._wake.close()
        end_inside(self.address)
        unbind_inside(self._socket, self.address)
        self._socket.close()
        if self._security is None:
            end_context(self._context)


class PubSocket:
    """Publishes to all subscribers; never waits; a slow subscriber loses announcements.

    Who connects is heard once zmq's commands are worked off, which waiting for `pollable` does: then it gets WELCOME.
    """

    def __init__(self, bind: str, security: ServerSecurity | None = None) -> None:
        self._security = None if is_inside(bind) else security
        self._context = self._security.context if self._security is not None else _context_for(bind)
        self._socket = new_socket(self._context, "PUB")
        self.address = ""  # until it is bound
        try:
            if self._security is not None:
                self._security.secure(self._socket)
            self._socket.set(zmq.XPUB_WELCOME_MSG, WELCOME)
            self.address = bind_tcp(self._socket, bind)
        except BaseException:
            self.close()
            raise

    @property
    def pollable(self) -> Pollable:
        """For a `Waiter`; never readable."""
        return self._socket

    def send(self, topic: bytes, body: bytes) -> None:
        """One announcement: two frames."""
        self._socket.send_multipart((topic, body), _NOBLOCK)

    def close(self) -> None:
        """Owner thread, within the linger time."""
        unbind_inside(self._socket, self.address)
        self._socket.close()
        if self._security is None:
            end_context(self._context)
