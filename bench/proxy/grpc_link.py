"""One connection of a gRPC client that costs little: an event loop's Protocol over http2_frames."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from ...model.errors import ConnectionLost, RemoteProtocolError
from ...proxy.http2.frames import (
    ACK,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    RESET,
    SETTINGS,
    WINDOW_BYTES,
    WINDOW_UPDATE,
    frame,
    window_update,
)
from ...proxy.http2.grpc_messages import PREFIX
from .http2_frames import CallHeaders, call_frames, preface, read_frames

GIVE_BACK_BYTES: Final = 1 << 20

OnEnd = Callable[[bytes], None]
"""What came in all the answer's DATA frames."""


class LoadLink(asyncio.Protocol):
    """Calls have one message each. On the event loop. `error`: why it ended."""

    def __init__(self, client_id: str) -> None:
        self._headers = CallHeaders(
            [
                (":authority", "bench"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("user-agent", "zenit-bench"),
                ("x-mq-client-id", client_id),
                ("x-mq-language", "JAVA"),
                ("x-mq-client-version", "5.0.8"),
                ("x-mq-protocol", "v2"),
                ("x-mq-date-time", "20260101T000000Z"),
                ("grpc-timeout", "60S"),
            ]
        )
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._window = WINDOW_BYTES
        self._taken = 0
        self._next_stream = 1
        self._calls: dict[int, tuple[list[bytes], OnEnd]] = {}
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._unsent: list[bytes] = []
        self.error: Exception | None = None

    @property
    def open_calls(self) -> int:
        """That are not answered."""
        return len(self._calls)

    def call(self, path: str, message: bytes, on_end: OnEnd, *, is_open: bool = False) -> None:
        """Sends a call; `on_end` is told of its answer. `is_open`: a stream that goes on."""
        stream = self._next_stream
        self._next_stream += 2
        self._calls[stream] = [], on_end
        encoded = call_frames(stream, self._headers.block(path), message, is_open=is_open)
        self._waiting.append((len(message) + PREFIX.size, encoded))
        self._send()

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.abort()

    # ---- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._write(preface())

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        if self.error is None:
            self.error = exc or ConnectionLost("the proxy")

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._buffer += data
        for kind, flags, stream, payload in read_frames(self._buffer):
            if kind == DATA:
                self._on_data(stream, flags, payload)
            elif kind == HEADERS:
                if flags & END_STREAM:
                    self._end(stream)
            elif kind == WINDOW_UPDATE:
                if not stream:
                    self._window += int.from_bytes(payload, "big")
                    self._send()
            elif kind in (SETTINGS, PING):
                if not flags & ACK:
                    self._write(frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind in (RESET, GOAWAY):
                self.error = RemoteProtocolError(f"the proxy ended a call or all: frame {kind} {payload[:200]!r}")
                self.close()

    def _on_data(self, stream: int, flags: int, payload: bytes) -> None:
        self._taken += len(payload)
        if self._taken >= GIVE_BACK_BYTES:
            self._write(window_update(0, self._taken))
            self._taken = 0
        call = self._calls.get(stream)
        if call is not None:
            call[0].append(payload)
        if flags & END_STREAM:
            self._end(stream)

    def _end(self, stream: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            parts, on_end = call
            on_end(parts[0] if len(parts) == 1 else b"".join(parts))

    def _send(self) -> None:
        """As far as the server has room."""
        while self._waiting and self._waiting[0][0] <= self._window:
            size_bytes, encoded = self._waiting.popleft()
            self._window -= size_bytes
            self._write(encoded)

    def _write(self, data: bytes) -> None:
        """Goes out with what else is written in this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))


async def connect_links(address: str, client_ids: Sequence[str], at_a_time: int = 64) -> list[LoadLink]:
    """One connection each. Raises OSError."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    links: list[LoadLink] = []
    for begin in range(0, len(client_ids), at_a_time):
        ids = client_ids[begin : begin + at_a_time]
        opened = await asyncio.gather(
            *(loop.create_connection(lambda name=name: LoadLink(name), host.strip("[]"), int(port)) for name in ids)  # type: ignore[misc]
        )
        links += [link for _, link in opened]
    return links
