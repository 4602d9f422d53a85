"""A server's socket without keys: plain TCP that speaks ZMTP itself, read and written by the thread of the request loop.

Its clients may use ZeroMQ. It saves the hand-overs between that thread and one of ZeroMQ's, two a request, and with them most
of what a single request costs: one read takes all that a connection has sent, one write all that it is answered in a turn.

Bounds: a connection is read up to 128 KiB at once, or 1 MiB if it sends large messages, all together up to 4 MiB, and who was
put off for that is first the next time; a frame, and the payload of a message, as PeerReader says; of what a client does not
read UNSENT_BYTES_MAX are kept, and of what all do not read about UNSENT_ALL_BYTES_MAX, then replies to it are lost, and
counted. A client that does not say within five seconds what it is, or is silent for six and answers no ping, is gone. What has
come is read only as fast as the loop takes it, and what nobody has read yet is not silence.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import select
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import ConfigError, HostNotFound, InvalidParameter, RemoteProtocolError
from ..addresses import split_address
from ..base_socket import resolve, set_tcp_options
from ..options import SOCKET_TABLES
from .peer_reader import PeerMessage, PeerReader
from .zmtp import MORE, SERVER_HELLO, frame_begin, ping

log = logging.getLogger(__name__)

Payload = bytes | memoryview

_OPTIONS: Final = {option.name: option.value for option in SOCKET_TABLES["ROUTER"]}
LOOK_MS: Final = 1000
"""Between two calls of `look`."""
_PING_LOOKS: Final = _OPTIONS["HEARTBEAT_IVL"] // LOOK_MS
_SILENT_LOOKS: Final = _PING_LOOKS + _OPTIONS["HEARTBEAT_TIMEOUT"] // LOOK_MS
_GREET_LOOKS: Final = _OPTIONS["HANDSHAKE_IVL"] // LOOK_MS
_PING: Final = ping(_OPTIONS["HEARTBEAT_TTL"])
UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
UNSENT_ALL_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of all clients together: above it each keeps UNSENT_SHARE_BYTES only."""
UNSENT_SHARE_BYTES: Final = 1024 * 1024
_UNSENT_ANSWERS_MAX: Final = 65_536
_READ_BYTES: Final = 1 << 22
_SHARE_BYTES: Final = 1 << 17  # of a connection; it is read the next time if there is less room
_LARGE_SHARE_BYTES: Final = 1 << 20  # of one with large messages, which are copied once less if they come whole
_LARGE_BYTES: Final = 1 << 15
_ALONE_BYTES: Final = 1 << 16
_ACCEPTS_MAX: Final = 64  # in one turn
_JOINED_BYTES_MAX: Final = 65_536  # larger payloads are not copied behind their headers
_PARTS_MAX: Final = 1000  # of one call of the kernel, which takes 1024
_QUIETLY: Final = socket.MSG_NOSIGNAL
_IN: Final = select.EPOLLIN
_BOTH: Final = select.EPOLLIN | select.EPOLLOUT
_RUNG: Final[PeerMessage] = (b"", b"", False, (), 0, True)
_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)


class _Peer:
    """One connection."""

    __slots__ = (
        "identity",
        "is_dirty",
        "parts",
        "parts_bytes",
        "reader",
        "share_bytes",
        "silent_looks",
        "socket",
        "unsent",
        "unsent_counted",
        "waits",
    )

    def __init__(self, connection: socket.socket, identity: bytes, frame_bytes_max: int) -> None:
        self.socket = connection
        self.identity = identity
        self.reader = PeerReader(identity, frame_bytes_max)
        self.silent_looks = 0
        self.share_bytes = _SHARE_BYTES
        self.parts: list[Payload] = [SERVER_HELLO]  # for the next `flush`
        self.parts_bytes = len(SERVER_HELLO)
        self.unsent = bytearray()  # what the network did not take
        self.unsent_counted = 0  # bytes of it that are counted with all clients'
        self.waits = False  # until it takes more
        self.is_dirty = False


class DirectRouter:
    """Receives [identity, header, payload...] and sends the same. One thread, but for `ring`."""

    peer_key = peer_address = open_address = ""
    """Nobody asks who sent a message."""

    def __init__(self, bind: str, frame_bytes_max: int) -> None:
        """Raises ConfigError."""
        self._frame_bytes_max = frame_bytes_max
        self.dropped_slow = self.dropped_gone = 0
        self._unsent_bytes = 0  # of all clients
        self._peers: dict[bytes, _Peer] = {}
        self._by_descriptor: dict[int, _Peer] = {}
        self._dirty: list[_Peer] = []
        self._messages: deque[PeerMessage] = deque()
        self._last: PeerMessage | None = None
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._identities = count(secrets.randbits(31))
        self._put_off: dict[int, int] = {}  # descriptors that the last reading had no room for, with their places
        self._is_full = False  # no connection is taken before the next look
        self._pid = os.getpid()
        self._wake_lock = threading.RLock()  # re-entrant: a signal handler may ring while the same thread does
        with ExitStack() as made:
            self._listener = made.enter_context(_listen(bind))
            self.address = f"{bind.rpartition(':')[0]}:{self._listener.getsockname()[1]}"
            self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            for descriptor in (self._wake_read, self._wake_write):
                made.callback(os.close, descriptor)
            self._poller = select.epoll()
            made.pop_all()
        self._poller.register(self._listener, _IN)
        self._poller.register(self._wake_read, _IN)
        self._poll = self._poller.poll

    @property
    def pollable(self) -> int:
        """For a `Waiter`: readable while something has come."""
        return self._poller.fileno()

    # ---- receiving

    def receive(self, timeout_ms: int) -> tuple[bytes, bytes, bool] | None:
        """(identity, header, whether a payload follows), or None if nothing came within `timeout_ms`, or no message whole."""
        if not self._messages:
            self._read_all(timeout_ms / 1000)
        return self.receive_next()

    def receive_nowait(self) -> tuple[bytes, bytes, bool] | None:
        """The same, without waiting."""
        if not self._messages:
            self._read_all(0)
        return self.receive_next()

    def receive_next(self) -> tuple[bytes, bytes, bool] | None:
        """The next message of what was read."""
        if not self._messages:
            return None
        message = self._last = self._messages.popleft()
        return message[:3]

    @property
    def is_ready(self) -> bool:
        """Whether messages that were read wait."""
        return bool(self._messages)

    def has_more(self) -> bool:
        """The same: what has come was read together."""
        return bool(self._messages)

    def receive_payload(self, room: memoryview) -> tuple[int, bool]:
        """Copies the payload of the last message into `room`: (its bytes, whether it fits, whole)."""
        assert self._last is not None
        _, _, _, chunks, size, is_whole = self._last
        if not is_whole or size > len(room):
            return size, False
        begin = 0
        for chunk in chunks:
            end = begin + len(chunk)
            room[begin:end] = chunk
            begin = end
        return size, True

    def skip_payload(self) -> None:
        """Does without the payload of the last message."""

    def _read_all(self, timeout_s: float) -> None:
        """Reads what connections have sent, as far as there is room for it."""
        used = 0
        ready = self._poll(timeout_s)
        if self._put_off:
            ready.sort(key=self._place)
            self._put_off = {}
        for descriptor, events in ready:
            peer = self._by_descriptor.get(descriptor)
            if peer is None:
                if descriptor == self._wake_read:
                    self._on_wake()
                elif not self._is_full:
                    self._accept()
                continue
            if events & select.EPOLLOUT:
                self._write(peer)
            if not events & ~select.EPOLLOUT:
                continue
            if used <= _READ_BYTES - peer.share_bytes:
                used += self._read(peer, self._buffer[used : used + peer.share_bytes])
            else:
                self._put_off[descriptor] = len(self._put_off)

    def _place(self, event: tuple[int, int]) -> int:
        """Who was put off the last time is first now."""
        return self._put_off.get(event[0], len(self._put_off))

    def _on_wake(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
        self._messages.appendleft(_RUNG)  # what other threads want waits for no client

    def _read(self, peer: _Peer, room: memoryview) -> int:
        """The number of bytes that messages have in `room` now."""
        reader = peer.reader
        data: bytes | memoryview
        try:
            if reader.lacking < _ALONE_BYTES:
                data = room[: peer.socket.recv_into(room)]
            else:  # of a large frame, which `room` would be in the way of
                data = peer.socket.recv(min(reader.lacking, _READ_BYTES))
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        size = len(data) if isinstance(data, memoryview) else 0
        if not data:
            self._end(peer)
            return 0
        before = len(self._messages)
        try:
            reader.take(data, self._messages.append)
        except RemoteProtocolError as error:
            log.debug("a connection was ended peer=%s error=%s", peer.identity.hex(), error)
            self._end(peer)
            return size  # messages before that count
        if size:
            is_large = size > _LARGE_BYTES * (len(self._messages) - before)
            peer.share_bytes = _LARGE_SHARE_BYTES if is_large and size > _LARGE_BYTES else _SHARE_BYTES
        if reader.is_open:  # one that says by and by what it is has no more time
            peer.silent_looks = 0
        if reader.answers:
            answers, reader.answers = reader.answers, b""
            if len(peer.unsent) + peer.parts_bytes <= _UNSENT_ANSWERS_MAX:  # one that reads nothing needs none
                self._put(peer, answers)
        return size

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                connection, _ = self._listener.accept()
                self._begin(connection)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _FULL:
                    log.warning("no connection can be taken error=%s", error)
                    self._is_full = True
                    self._poller.unregister(self._listener)
                    return  # else it has ended already

    def _begin(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)
            set_tcp_options(connection, "ROUTER")
            self._poller.register(connection, _IN)
        except BaseException:
            connection.close()
            raise
        identity = b"\0" + (next(self._identities) & 0xFFFFFFFF).to_bytes(4, "big")
        peer = _Peer(connection, identity, self._frame_bytes_max)
        self._peers[identity] = self._by_descriptor[connection.fileno()] = peer
        self._write(peer)

    def _end(self, peer: _Peer) -> None:
        """What came before counts."""
        if self._peers.pop(peer.identity, None) is None:
            return
        del self._by_descriptor[peer.socket.fileno()]
        self._poller.unregister(peer.socket)
        _shut(peer.socket)
        peer.parts.clear()
        peer.unsent.clear()
        self._count_unsent(peer)

    # ---- sending

    def send(self, identity: bytes, header: bytes, payload: Sequence[Payload]) -> bool:
        """Sends at the next `flush`, up to which `payload` must stay as it is; False (counted) if the peer is gone or does not
        read."""
        peer = self._peers.get(identity)
        if peer is None:
            self.dropped_gone += 1
            return False
        limit = UNSENT_BYTES_MAX if self._unsent_bytes <= UNSENT_ALL_BYTES_MAX else UNSENT_SHARE_BYTES
        if len(peer.unsent) + peer.parts_bytes > limit:
            self.dropped_slow += 1
            return False
        if not payload:
            self._put(peer, frame_begin(len(header), 0) + header)
            return True
        self._put(peer, frame_begin(len(header), MORE) + header)
        last = len(payload) - 1
        for index, part in enumerate(payload):
            self._put(peer, frame_begin(len(part), MORE if index < last else 0))
            if part:
                self._put(peer, part)
        return True

    def _put(self, peer: _Peer, part: Payload) -> None:
        peer.parts.append(part)
        peer.parts_bytes += len(part)
        if not peer.is_dirty:
            peer.is_dirty = True
            self._dirty.append(peer)

    def flush(self) -> None:
        """Hands to the network what was sent; what it does not take is copied, and goes when it does."""
        for peer in self._dirty:
            peer.is_dirty = False
            if peer.identity in self._peers:
                self._write(peer)
        self._dirty.clear()

    def _write(self, peer: _Peer) -> None:
        parts, peer.parts, size = peer.parts, [], peer.parts_bytes
        peer.parts_bytes = 0
        try:
            if peer.unsent:
                peer.unsent += b"".join(parts)
                while peer.unsent:
                    del peer.unsent[: peer.socket.send(peer.unsent, _QUIETLY)]
                    peer.silent_looks = 0  # it reads: a large reply on a slow network
            elif size <= _JOINED_BYTES_MAX:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                sent = peer.socket.send(data, _QUIETLY) if size else 0
                peer.unsent += data[sent:]
            else:
                self._write_parts(peer, parts)
        except BlockingIOError:
            if not peer.unsent:
                peer.unsent += b"".join(parts)
        except OSError:
            self._end(peer)
            return
        if peer.unsent or peer.waits:
            self._count_unsent(peer)
        if bool(peer.unsent) is not peer.waits:
            peer.waits = not peer.waits
            self._poller.modify(peer.socket, _BOTH if peer.waits else _IN)

    def _count_unsent(self, peer: _Peer) -> None:
        self._unsent_bytes += len(peer.unsent) - peer.unsent_counted
        peer.unsent_counted = len(peer.unsent)

    def _write_parts(self, peer: _Peer, parts: list[Payload]) -> None:
        """Without a copy of what the network takes at once."""
        for begin in range(0, len(parts), _PARTS_MAX):
            some = parts[begin : begin + _PARTS_MAX]
            size = sum(map(len, some))
            try:
                sent = peer.socket.sendmsg(some, (), _QUIETLY)
            except BlockingIOError:
                sent = 0
            if sent < size:
                rest = b"".join(parts[begin:])
                peer.unsent += memoryview(rest)[sent:]
                return

    # ---- from time to time, and from other threads

    def look(self) -> None:
        """To be called each LOOK_MS: pings who is silent, ends who does not answer, takes connections again."""
        for peer in list(self._peers.values()):
            peer.silent_looks += 1
            if peer.silent_looks > (_SILENT_LOOKS if peer.reader.is_open else _GREET_LOOKS) and not _has_come(peer):
                self._end(peer)
            elif peer.silent_looks == _PING_LOOKS and peer.reader.is_open:
                self._put(peer, _PING)
        if self._is_full:
            self._is_full = False
            self._poller.register(self._listener, _IN)

    def ring(self) -> None:
        """Makes the receiving thread receive an empty header. Any thread."""
        with self._wake_lock:
            if self._wake_write < 0:
                return
            try:
                os.write(self._wake_write, b"!")
            except BlockingIOError:
                return  # it will wake up anyway

    def close(self) -> None:
        """Owner thread, within the linger time: what was sent before goes out to whoever reads."""
        with self._wake_lock:
            if self._wake_write < 0:
                return
            os.close(self._wake_write)
            self._wake_write = -1
        if os.getpid() == self._pid:
            self._end_all()
        else:  # in a forked child, which has them too, they are the parent's
            for peer in self._peers.values():
                peer.socket.close()
        self._listener.close()
        self._poller.close()
        os.close(self._wake_read)

    def _end_all(self) -> None:
        _shut(self._listener)
        self.flush()
        waiting = {peer.socket.fileno(): peer for peer in self._peers.values() if peer.unsent}
        poller = select.poll()
        for descriptor in waiting:
            poller.register(descriptor, select.POLLOUT)
        until_ms = monotonic_ms() + _OPTIONS["LINGER"]
        while waiting and (left_ms := until_ms - monotonic_ms()) > 0:
            for descriptor, _ in poller.poll(left_ms):
                self._write(waiting[descriptor])
                if not waiting[descriptor].unsent:
                    poller.unregister(descriptor)
                    del waiting[descriptor]
        for peer in list(self._peers.values()):
            self._end(peer)


def _shut(ended: socket.socket) -> None:
    """Ends it also where a forked child has it."""
    with suppress(OSError):  # the other side was first
        ended.shutdown(socket.SHUT_RDWR)
    ended.close()


def _has_come(peer: _Peer) -> bool:
    """Whether it has sent what nobody has read: the loop was busy for long, or stood still."""
    poller = select.poll()
    poller.register(peer.socket, select.POLLIN)
    return bool(poller.poll(0))


def _listen(bind: str) -> socket.socket:
    """Raises ConfigError."""
    made: socket.socket | None = None
    try:
        host, port = split_address(bind)
        number = "::" if host == "*" else resolve(bind).removeprefix("tcp://").rpartition(":")[0].strip("[]")
        family = socket.AF_INET6 if ":" in number else socket.AF_INET
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if host != "*" or error.errno != errno.EAFNOSUPPORT:
                raise
            number, family = "0.0.0.0", socket.AF_INET  # noqa: S104  # every address of a machine without IPv6
            made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((number, int(port)))
        made.listen(_OPTIONS["BACKLOG"])
        made.setblocking(False)
    except (OSError, InvalidParameter, HostNotFound, OverflowError) as error:
        if made is not None:
            made.close()
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError("bind", bind, f"HOST:PORT, a free port of an address of this machine ({reason})") from error
    return made
