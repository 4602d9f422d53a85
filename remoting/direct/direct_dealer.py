"""One thread's connection to a server without keys: plain TCP that speaks ZMTP itself (zmtp.py), without a thread of ZeroMQ.

It saves two hand-overs a call: the caller's thread writes to the network itself, and is woken by it. Between calls nobody looks
at the connection, and the server's pings wait. One that has rested for a while is not used again, since the server may be about
to end it. Like a `Dealer` it is never reconnected: "lost" is final.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    HandshakeFailed,
    NoDescriptors,
    RemoteProtocolError,
    ZenitError,
)
from ..base_socket import resolve_peer, set_tcp_options
from ..options import SOCKET_TABLES
from .zmtp import HELLO, MORE, FrameReader, NotTaken, frame_begin

Payload = bytes | bytearray | memoryview

NO_SUCH_USER: Final = (
    "it does not know the key, or the user is disabled; once that is mended, it works without a restart"
)
WANTS_KEY: Final = "ended the handshake: does it want a key? Give the key file as key=, --user or $ZENIT_KEY"

_OPTIONS: Final = {option.name: option.value for option in SOCKET_TABLES["DEALER"]}
_CONNECT_MS: Final = _OPTIONS["CONNECT_TIMEOUT"]
_GREET_MS: Final = _OPTIONS["HANDSHAKE_IVL"]
SILENCE_MS: Final = _OPTIONS["HEARTBEAT_TIMEOUT"]
REST_MS: Final = SILENCE_MS - _OPTIONS["HEARTBEAT_IVL"]
"""The server ends a connection whose pings wait for SILENCE_MS: one that has rested for so long is not used again."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""If more waits for a server that does not read, nothing more is taken."""
_UNSENT_ANSWERS_MAX: Final = 65_536
_READ_BYTES: Final = 65_536
_READ_BYTES_MAX: Final = 1 << 20
_READS_MAX: Final = 16  # then the caller looks at its deadline, or the loop at its other work
_LAST_READS_MAX: Final = 1024  # of one that cannot send any more
_JOINED_BYTES_MAX: Final = 65_536  # a larger payload is not copied behind its header
_QUIETLY: Final = socket.MSG_NOSIGNAL  # a program may let SIGPIPE end it


class DirectDealer:
    """One connection. One thread at a time. Its socket never waits; `poll` does, whose time runs on during signal handlers."""

    must_drain = False
    """A loop that watches it is told again of what it left."""

    def __init__(self, address: str, *, is_watched: bool = False) -> None:
        """Begins to connect to "host:port". `is_watched`: by an event loop, so nobody waits in `receive`. Raises
        InvalidParameter, HostNotFound, NoDescriptors."""
        self.address = address
        self._is_watched = is_watched
        host, _, port = resolve_peer(address).removeprefix("tcp://").rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        self._reader = FrameReader(_OPTIONS["MAXMSGSIZE"])
        self._unsent = bytearray(HELLO)
        self._early = bytearray()  # messages that wait for the server's READY
        self._loss: ZenitError | None = None
        self._held: tuple[bytes, bytes] | None = None  # a message that came before the connection ended
        self._is_connected = False
        self._was_short = False  # the last read took all that had come
        self._is_quick = False  # open, nothing unsent: what is to be sent is sent at once
        self._begun_ms = self._heard_ms = monotonic_ms()
        try:
            self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise NoDescriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) from error
            raise ConnectionLost(address) from error  # this system does not know such addresses
        try:
            set_tcp_options(self._socket, "DEALER")
            self._socket.setblocking(False)
            status = self._socket.connect_ex((host, int(port)))
        except BaseException:
            self._socket.close()
            raise
        if status not in (0, errno.EINPROGRESS):
            self._lose()
        self._recv, self._send = self._socket.recv, self._socket.send
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        self._poll = poller.poll

    # ---- sending

    def send(self, header: bytes, payload: Payload | None) -> bool:
        """Sends without waiting; what the network does not take at once is copied. False if it is lost, or too much waits.

        One that is watched sends at the next `flush`, so that several requests leave together.
        """
        if self._loss is not None or len(self._unsent) + len(self._early) > UNSENT_BYTES_MAX:
            return False
        if payload is None:
            parts: tuple[Payload, ...] = (frame_begin(len(header), 0), header)
        else:
            size = memoryview(payload).nbytes
            parts = (frame_begin(len(header), MORE), header, frame_begin(size, 0), payload)
            if size > _JOINED_BYTES_MAX and self._is_quick:
                self._send_parts(parts)
                return self._loss is None
        data = b"".join(parts)
        if self._is_quick:
            self._send_now(data)
        elif self._reader.is_open:
            self._unsent += data
            if not self._is_watched:
                self._flush()
        else:
            self._early += data
        return self._loss is None

    def _send_now(self, data: bytes) -> None:
        try:
            sent = self._send(data, _QUIETLY)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail_to_send()
            return
        if sent < len(data):
            self._keep(data[sent:])

    def _send_parts(self, parts: tuple[Payload, ...]) -> None:
        try:
            sent = self._socket.sendmsg(parts, (), _QUIETLY)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail_to_send()
            return
        data = b"".join(parts) if sent < sum(memoryview(part).nbytes for part in parts) else b""
        if data:
            self._keep(data[sent:])

    def _keep(self, rest: bytes) -> None:
        """The network takes no more now."""
        self._unsent += rest
        self._is_quick = False

    def _fail_to_send(self) -> None:
        """It has ended; what the server answered before counts."""
        if self._is_connected:
            for _ in range(_LAST_READS_MAX):
                if self._loss is not None or not self._read_once():
                    break
        self._lose()

    def _flush(self) -> None:
        """Sends what waits, as far as the network takes it."""
        while self._unsent and self._loss is None:
            try:
                sent = self._send(self._unsent, _QUIETLY)
            except BlockingIOError:
                return
            except OSError:  # also why it could not connect
                self._fail_to_send()
                return
            self._is_connected = True
            del self._unsent[:sent]

    # ---- receiving

    def receive(self, timeout_ms: int) -> tuple[bytes, bytes] | None:
        """(header, payload; several frames joined, b"" if there is none), or None if none came whole within `timeout_ms`, or it
        is lost. Waits once: after a part of a message, the caller looks at its deadline. Raises RemoteProtocolError; it is
        lost then."""
        message = self._next_message()
        if message is None and self._loss is None and self._wait(timeout_ms):
            for _ in range(_READS_MAX):
                if not self._read_once():
                    return None
                message = self._next_message()
                if message is not None:
                    return message
        return message

    def receive_nowait(self) -> tuple[bytes, bytes] | None:
        """The next message of what `read` has taken. Raises RemoteProtocolError; it is lost then."""
        return self._next_message()

    def read(self) -> None:
        """For an event loop: takes what has come, or a part if it is much; `receive_nowait` gives the messages."""
        for _ in range(_READS_MAX):
            if self._loss is not None or not self._read_once() or self._was_short:
                return

    def _wait(self, timeout_ms: int) -> bool:
        """True if something has come within `timeout_ms`; also sends."""
        if self._is_quick:
            return bool(self._poll(timeout_ms))
        waits_to_send = self._unsent or not self._is_connected
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | (select.POLLOUT if waits_to_send else 0))
        if not poller.poll(timeout_ms):
            return False
        self._flush()
        return self._loss is None

    def _read_waiting(self) -> None:
        """Takes what has come, without waiting."""
        for _ in range(_READS_MAX):
            if not self._read_once():
                return

    def _read_once(self) -> bool:
        """False if nothing has come, or it has ended."""
        size = self._read_bytes()
        try:
            data = self._recv(size)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.ENOTCONN and not self._is_connected:
                return False
            data = b""
        if not data:
            self._lose()
            return False
        self._was_short = len(data) < size
        self._heard_ms = monotonic_ms()
        self._reader.feed(data)
        return True

    def _read_bytes(self) -> int:
        lacking = self._reader.lacking
        return _READ_BYTES if lacking < _READ_BYTES else min(lacking, _READ_BYTES_MAX)

    def _next_message(self) -> tuple[bytes, bytes] | None:
        """The next of what has come; pings are answered. Raises RemoteProtocolError."""
        if self._held is not None:
            held, self._held = self._held, None
            return held
        reader = self._reader
        try:
            message = reader.next_message()
        except NotTaken as refused:
            reader.stop()
            self._lose(refused)
            return None
        except RemoteProtocolError:
            reader.stop()
            self._lose()
            raise
        if reader.answers:
            answers, reader.answers = reader.answers, b""
            if self._is_quick:
                self._send_now(answers)
            elif len(self._unsent) <= _UNSENT_ANSWERS_MAX:  # a server that reads nothing needs none
                self._unsent += answers
        if not self._is_quick and self._loss is None:
            if reader.is_open and self._early:
                self._unsent += self._early
                self._early.clear()
            self._flush()
            if reader.is_open and not self._unsent and not self._is_watched:
                self._is_quick = True
        return message

    # ---- for an event loop

    def fileno(self) -> int:
        """Readable while something has come, or it has ended."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has something to send."""
        return bool(self._unsent)

    def flush(self) -> bool:
        """Sends what the network takes now; True if something is left."""
        self._flush()
        return self._loss is None and bool(self._unsent)

    @property
    def is_unfit(self) -> bool:
        """True once it has ended: it takes nothing more, though answers may be left."""
        return self._loss is not None

    @property
    def has_ended(self) -> bool:
        """True once its end has been seen, and what came before that has been received."""
        return self._loss is not None and self._held is None

    # ---- its end

    def is_lost(self) -> bool:
        """Looks at the connection: True after it was refused or ended, or the server is silent for too long. Does not wait."""
        if self._loss is None:
            self._read_waiting()
        if self._loss is None:
            now_ms = monotonic_ms()
            if not self._reader.is_open:
                limit_ms = _CONNECT_MS + (_GREET_MS if self._is_connected else 0)
                if now_ms - self._begun_ms > limit_ms:  # nobody serves there yet: one that wants a key says so at once
                    self._loss = ConnectionLost(self.address)
            elif now_ms - self._heard_ms > SILENCE_MS:
                self._lose()
        if self._loss is not None and self._held is None:
            self._held = self._last_message()
        return self._loss is not None and self._held is None

    def _last_message(self) -> tuple[bytes, bytes] | None:
        try:
            return self._next_message()
        except RemoteProtocolError:
            return None

    def has_rested(self, now_ms: int) -> bool:
        """True if nobody has looked at it for so long that the server may be about to end it."""
        return now_ms - self._heard_ms > REST_MS

    def loss(self) -> ZenitError:
        """Why the connection ended, for those who waited for an answer."""
        return self._loss if self._loss is not None else ConnectionLost(self.address)

    def _lose(self, refused: NotTaken | None = None) -> None:
        """It has ended; the first reason counts."""
        if self._loss is not None:
            return
        if refused is not None and refused.is_told:
            self._loss = AuthenticationFailed(self.address, NO_SUCH_USER)
        elif refused is not None or (self._is_connected and not self._reader.is_open):
            self._loss = HandshakeFailed(self.address, WANTS_KEY)
        else:
            self._loss = ConnectionLost(self.address)

    def close(self) -> None:
        """Ends the connection at once."""
        self._socket.close()

    def __del__(self) -> None:
        """For one whose creator was interrupted, so that nobody has it."""
        if hasattr(self, "_socket"):
            self.close()
