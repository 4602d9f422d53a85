"""The client's sockets: a DEALER for one connection, a monitor that reports its end, and a SUB. Imports zmq.

A `Dealer` is one TCP connection for its whole life: it is never reconnected, but replaced. So a request cannot be sent
after its caller was told that it failed, and "lost" is final.
"""

from __future__ import annotations

import errno
import resource
import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

import zmq

from ..model.errors import (
    AuthenticationFailed,
    ClientClosed,
    ConnectionLost,
    HandshakeFailed,
    NoDescriptors,
    RemoteProtocolError,
    ZenitError,
)
from .base_socket import (
    connect_inside,
    connect_tcp,
    inside_context,
    is_inside,
    new_context,
    new_socket,
    plain_send,
)
from .direct.direct_dealer import NO_SUCH_USER, WANTS_KEY, DirectDealer
from .options import FRAMES_MAX
from .security.curve_socket import secure_client
from .security.key_ring import WITHOUT, KeyRing

Payload = bytes | bytearray | memoryview

_NOBLOCK: Final = int(zmq.NOBLOCK)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_MORE_NOBLOCK: Final = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENT: Final = struct.Struct("=HI")  # event, value

_Socket = TypeVar("_Socket")

_LOST: Final = int(
    zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


_REFUSED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_UNANSWERED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)

_OTHER_KEY: Final = (
    "ended the handshake: its public key is another one than we know (`zenit key trust` puts its present one into a key file), "
    "or it takes clients without keys only"
)


class ClientContext:
    """Creates a client's sockets, with one background thread of zmq. Any thread may ask for sockets."""

    def __init__(self, keys: KeyRing | None = None) -> None:
        """`keys`: None = it talks to servers that want none."""
        self._context = new_context()
        self._keys = keys

    def dealer(self, address: str, **options: int) -> Dealer:
        """A connection being made to "host:port"; `options`: of the socket, instead of those in its table.

        Raises InvalidParameter, ConnectionLost (no such host), ServerKeyUnknown, ClientClosed, NoDescriptors.
        """
        return self._made(lambda: Dealer(self._context_of(address), address, self._keys, **options))

    def caller(self, address: str) -> Dealer | DirectDealer:
        """The same for the calls of one thread, which looks at it only while it waits. Raises as `dealer` does."""
        if self._keys is not None or is_inside(address):
            return self.dealer(address)
        if self._context.closed:
            raise ClientClosed("client")
        return DirectDealer(address)

    def subscriber(self, address: str) -> Subscriber:
        """A subscription to everything that "host:port" publishes. Raises as `dealer` does."""
        return self._made(lambda: Subscriber(self._context_of(address), address, self._keys))

    def _context_of(self, address: str) -> zmq.Context[zmq.Socket[bytes]]:
        return inside_context() if is_inside(address) else self._context

    def _made(self, new_socket: Callable[[], _Socket]) -> _Socket:
        try:
            return new_socket()
        except zmq.ZMQError as error:
            if self._context.closed:
                raise ClientClosed("client") from error
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise NoDescriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) from error
            raise

    def close(self) -> None:
        """Ends the context; every socket must be closed before."""
        self._context.term()


class Dealer:
    """One connection. One thread at a time; the monitor may be used by another."""

    must_drain = True
    """Its descriptor signals what has come only once."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, keys: KeyRing | None, **options: int
    ) -> None:
        self.address = address
        self._keys = None if is_inside(address) else keys
        self._loss = 0  # the first event that says why the connection ended
        server_key = self._keys.key_of(address) if self._keys is not None else WITHOUT
        self._is_open = not server_key
        self._socket = new_socket(context, "DEALER", **options)
        self._is_inside = is_inside(address)
        try:
            self._monitor = new_socket(context, "SUB") if self._is_inside else self._socket.get_monitor_socket(_LOST)
        except BaseException:
            self._socket.close()
            raise
        try:
            if self._is_inside:
                connect_inside(self._socket, self._monitor, address)
            else:
                if self._keys is not None and server_key:
                    secure_client(self._socket, self._keys.pair, server_key)
                connect_tcp(self._socket, address)
        except BaseException:
            self.close()
            raise
        self._recv, self._send = self._socket.recv, plain_send(self._socket)
        poller = zmq.Poller()
        poller.register(self._socket, _POLLIN)
        self._poll = poller.poll

    @property
    def pollables(self) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
        """For a `Waiter`: the socket, and the monitor that `is_lost` reads."""
        return self._socket, self._monitor

    def fileno(self) -> int:
        """Readable when messages *may* have come, and only once: every user of the socket must drain it until it is empty."""
        return int(self._socket.get(zmq.FD))

    def monitor_fileno(self) -> int:
        """The same for `is_lost`."""
        return int(self._monitor.get(zmq.FD))

    def send(self, header: bytes, payload: Payload | None) -> bool:
        """Sends without waiting; the payload is copied. False if ZeroMQ's own queue is full."""
        try:
            if payload is None:
                self._send(header, _NOBLOCK)
            else:
                self._send(header, _MORE_NOBLOCK)
                self._send(payload, _NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_ms: int) -> tuple[bytes, bytes] | None:
        """(header, payload; several frames joined, b"" if there is none), or None if nothing came within `timeout_ms`."""
        # not by RCVTIMEO: that begins anew after each signal
        return self.receive_nowait() if self._poll(timeout_ms) else None

    def receive_nowait(self) -> tuple[bytes, bytes] | None:
        """The same, without waiting."""
        try:
            header = self._recv(_NOBLOCK, copy=False)  # a frame knows whether more follow; asking the socket costs 1 us
        except zmq.Again:
            return None
        return header.bytes, self._receive_payload() if header.more else b""

    def receive_view_nowait(self) -> tuple[bytes, bytes | memoryview] | None:
        """The same; a payload of one frame is a view of the received memory, not a copy."""
        try:
            header = self._recv(_NOBLOCK, copy=False)
        except zmq.Again:
            return None
        if not header.more:
            return header.bytes, b""
        frame = self._recv(0, copy=False)
        return header.bytes, self._joined(frame) if frame.more else memoryview(frame)  # type: ignore[arg-type]

    def has_more(self) -> bool:
        """True if another message has come. Cheaper than `receive_nowait` if the answer is no."""
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def _receive_payload(self) -> bytes:
        frame = self._recv(0, copy=False)
        return self._joined(frame) if frame.more else frame.bytes

    def _joined(self, frame: zmq.Frame) -> bytes:
        """This frame of a message and those that follow, joined."""
        frames: list[Any] = [frame]  # a frame is a buffer, though not typed as one
        while frame.more:
            frame = self._recv(0, copy=False)
            if len(frames) <= FRAMES_MAX:
                frames.append(frame)
        if len(frames) > FRAMES_MAX:
            raise RemoteProtocolError(f"a reply of more than {FRAMES_MAX} frames")
        return b"".join(frames)

    def is_lost(self) -> bool:
        """Reads the monitor: True after the connection was refused or ended. Does not wait."""
        while True:
            try:
                event = self._monitor.recv_multipart(_NOBLOCK)
            except zmq.Again:
                return bool(self._loss)
            if not self._loss:  # what follows is the end of the same connection
                self._loss = _EVENT.unpack(event[0])[0] & _LOST
                if self._loss & _UNANSWERED and self._keys is not None:
                    self._keys.on_failed(self.address)

    @property
    def is_unfit(self) -> bool:
        """True once `is_lost` has seen its end."""
        return bool(self._loss)

    def loss(self) -> ZenitError:
        """Why the connection ended, for those who waited for an answer."""
        if self._loss & _REFUSED:
            return AuthenticationFailed(self.address, NO_SUCH_USER)
        if self._loss & _UNANSWERED:
            return HandshakeFailed(self.address, WANTS_KEY if self._is_open else _OTHER_KEY)
        return ConnectionLost(self.address)

    def has_rested(self, now_ms: int) -> bool:  # noqa: ARG002
        """Never: ZeroMQ's own thread answers the server's pings."""
        return False

    def close(self) -> None:
        """Ends the connection at once."""
        if not self._socket.closed:
            if not self._is_inside:
                self._socket.disable_monitor()
            self._monitor.close()
            self._socket.close()

    def __del__(self) -> None:
        """For a socket whose creator was interrupted, so that nobody has it.

        If Python closed the sockets in another order, the monitor might be gone while the socket still has an event for it.
        zmq's background thread would then wait for a reader for ever, and with it every connection of the context.
        """
        if hasattr(self, "_monitor"):
            self.close()


class Subscriber:
    """All announcements of one publisher. One thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, keys: KeyRing | None) -> None:
        self._socket = new_socket(context, "SUB")
        try:
            server_key = keys.key_of(address) if keys is not None and not is_inside(address) else WITHOUT
            if keys is not None and server_key:
                secure_client(self._socket, keys.pair, server_key)
            self._socket.subscribe(b"")
            connect_tcp(self._socket, address)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """As `Dealer.fileno`."""
        return int(self._socket.get(zmq.FD))

    def receive_nowait(self) -> list[bytes] | None:
        """The frames of one announcement that has come, or None. [WELCOME]: the publisher hears us now."""
        try:
            return self._socket.recv_multipart(_NOBLOCK)
        except zmq.Again:
            return None

    def close(self) -> None:
        """Ends it."""
        self._socket.close()
