"""A small HTTP server for scrapes and health, in a thread of its own: `zenit-metrics`.

It answers one request a connection, GET and HEAD alone. Everything is bounded: connections, the head of a request, the
time until it has come and until the answer is taken. Who opens more connections than there are ends the oldest one. It
reads what other threads own without a lock, and lets them run between two slices of a long answer.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Self

from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import ConfigError
from ..model.plain_dataclass import dataclass
from .http_request import END, HEAD_BYTES_MAX, BadHttpRequest, HttpRequest, decode_head, encode_answer_head

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
REQUEST_MS_MAX: Final = 5_000
"""From the connection to the end of the request's head."""
ANSWER_MS_MAX: Final = 20_000
"""From there until the answer is taken."""
LOOK_MS: Final = 1_000
JOIN_S: Final = 5.0
RECEIVE_BYTES: Final = 4_096
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`body`: in slices."""

    status: int
    body: Iterable[str]
    content_type: str = TEXT


class _Visit:
    """One connection: first its request comes in, then the answer goes out."""

    __slots__ = ("ends_ms", "incoming", "outgoing", "socket")

    def __init__(self, connection: socket.socket, ends_ms: int) -> None:
        self.socket = connection
        self.ends_ms = ends_ms
        self.incoming = b""
        self.outgoing: memoryview | None = None


class HttpServer:
    """Listens from construction on, serves from `start` to `close`."""

    def __init__(self, bind: str, answer: Callable[[HttpRequest], HttpAnswer]) -> None:
        """`bind`: "host:port", port 0 = any free one. `answer`: called in the server's thread. Raises ConfigError."""
        host, _, port = bind.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host.strip("[]"), int(port)))
            self._listener.listen(CONNECTIONS_MAX)
        except OSError as error:
            self._listener.close()
            raise ConfigError("metrics.bind", bind, f"an address to listen at ({error.strerror or error})") from error
        self._listener.setblocking(False)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._answer = answer
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._bell, self._ringer = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._visits: dict[socket.socket, _Visit] = {}  # the oldest first
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="zenit-metrics", daemon=True)

    def start(self) -> Self:
        """Starts the thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends the thread and all connections."""
        self._stopping = True
        if self._thread.is_alive():
            self._ringer.send(b"!")
            self._thread.join(JOIN_S)
        for visit in list(self._visits.values()):
            self._end(visit)
        self._selector.close()
        for one in (self._listener, self._bell, self._ringer):
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.turn(LOOK_MS)
        except Exception:
            log.exception("metrics and health are served no longer")

    def turn(self, wait_ms: int) -> None:
        """One look at all connections; waits at most that long for something to happen."""
        for key, _ in self._selector.select(wait_ms / 1000):
            if key.fileobj is self._listener:
                self._take_new()
                continue
            visit = self._visits.get(key.fileobj)  # type: ignore[call-overload]  # a socket, as registered
            if visit is not None:
                self._go_on(visit)
        now_ms = monotonic_ms()
        for visit in [visit for visit in self._visits.values() if visit.ends_ms <= now_ms]:
            self._end(visit)

    def _take_new(self) -> None:
        with suppress(OSError):  # it is gone again
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            if len(self._visits) >= CONNECTIONS_MAX:
                self._end(next(iter(self._visits.values())))
            self._visits[connection] = _Visit(connection, monotonic_ms() + REQUEST_MS_MAX)
            self._selector.register(connection, selectors.EVENT_READ)

    def _go_on(self, visit: _Visit) -> None:
        try:
            if visit.outgoing is None:
                self._receive(visit)
            if visit.outgoing is not None:
                self._send(visit, visit.outgoing)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end(visit)

    def _receive(self, visit: _Visit) -> None:
        data = visit.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        if not data:
            self._end(visit)
            return
        visit.incoming += data
        head, found, _ = visit.incoming.partition(END)
        if not found and len(visit.incoming) <= HEAD_BYTES_MAX:
            return
        visit.outgoing = memoryview(self._reply_to(head))
        visit.ends_ms = monotonic_ms() + ANSWER_MS_MAX
        self._selector.modify(visit.socket, selectors.EVENT_WRITE)

    def _send(self, visit: _Visit, outgoing: memoryview) -> None:
        visit.outgoing = outgoing = outgoing[visit.socket.send(outgoing) :]
        if not outgoing:
            with suppress(OSError):
                visit.socket.shutdown(socket.SHUT_WR)
            self._end(visit)

    def _reply_to(self, head: bytes) -> bytes:
        try:
            request = decode_head(head)
        except BadHttpRequest as error:
            return _encoded(HttpAnswer(error.status, (f"{error.why}\n",)), is_head=False)
        try:
            return _encoded(self._answer(request), is_head=request.is_head)
        except Exception:  # a defect in a reader: the next page is served all the same
            log.exception("a page of metrics failed path=%s", request.path)
            return _encoded(HttpAnswer(500, ("a defect of ours: see the log\n",)), is_head=request.is_head)

    def _end(self, visit: _Visit) -> None:
        self._visits.pop(visit.socket, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(visit.socket)
        visit.socket.close()


def _encoded(answer: HttpAnswer, *, is_head: bool) -> bytes:
    parts = []
    for part in answer.body:
        parts.append(part.encode())
        sleep_ms(0)  # other threads run first
    body = b"".join(parts)
    return encode_answer_head(answer.status, answer.content_type, len(body)) + (b"" if is_head else body)
