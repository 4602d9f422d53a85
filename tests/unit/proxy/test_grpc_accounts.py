"""What the gRPC server counts of its connections, whatever frames come, however calls and connections end: nothing is left."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from zenitmq.proxy import client_links
from zenitmq.proxy.client_links import PIECE_BYTES
from zenitmq.proxy.config import NO_PORT, ProxyConfig
from zenitmq.proxy.event_loop import run_on_loop
from zenitmq.proxy.grpc_server import GrpcLink, GrpcServer
from zenitmq.proxy.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW,
    NUMBER_MAX,
    PING,
    PREFACE,
    Http2Code,
    frame,
    reset,
    settings,
    window_update,
)
from zenitmq.proxy.http2.grpc_messages import PREFIX, encode_message
from zenitmq.proxy.http2.headers import encode_headers
from zenitmq.proxy.schema import SERVICE, Method, message_class, methods
from zenitmq.proxy.v2.calls import Answers
from zenitmq.proxy.v2.methods import CallFacts
from zenitmq.proxy.v2.status import CallRefused, Code

SEEDS, STEPS, TURNS = 150, 150, 10
PATHS = ("Heartbeat", "QueryRoute", "Telemetry", "ReceiveMessage", "PullMessage", "QueryAssignment", "Nothing")
_Response, _Command = message_class("HeartbeatResponse"), message_class("TelemetryCommand")


class Played:
    """Answers, waits, refuses or fails, by a method's name. See GrpcMethods."""

    def __init__(self) -> None:
        self.answer = _Response()

    def all(self) -> list[Method]:
        return list(methods().values())

    def decode(self, method: Method, encoded: bytes) -> Any:
        if not encoded:
            raise CallRefused(Code.BAD_REQUEST, "nothing")
        return encoded

    async def unary(self, method: Method, facts: CallFacts, encoded: bytes) -> Any:
        if method.name == "QueryRoute":
            await asyncio.sleep(60)
        if method.name == "QueryAssignment":
            raise ValueError
        return self.answer

    async def stream(self, method: Method, facts: CallFacts, encoded: bytes, answers: Answers) -> None:
        for _ in range(3):
            await answers.write(self.answer)
        if method.name == "PullMessage":
            raise CallRefused(Code.FORBIDDEN, "not you")

    async def telemetry(self, facts: CallFacts, commands: AsyncIterator[Any], answers: Answers) -> None:
        async for _ in commands:
            await answers.write(self.answer)

    def drain(self) -> None:
        pass


class Transport(asyncio.Transport):
    """Keeps some of what is written until `drain`."""

    def __init__(self, link: GrpcLink, draw: Random, *, has_tls: bool) -> None:
        super().__init__({"peername": ("127.0.0.1", 1234), "sslcontext": has_tls or None})
        self._link = link
        self._draw = draw
        self._kept_bytes = 0
        self._is_closing = self.is_paused = self.is_lost = False

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._kept_bytes

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.is_lost
        if self._draw.random() < 0.3:
            self._kept_bytes += len(data)
            if self._kept_bytes > 2_000 and not self._link._is_unread:
                self._link.pause_writing()

    def drain(self) -> None:
        self._kept_bytes = 0
        if self._link._is_unread:
            self._link.resume_writing()
        if self._is_closing:
            self.lose()

    def close(self) -> None:
        self._is_closing = True
        if not self._kept_bytes:
            asyncio.get_running_loop().call_soon(self.lose)

    def abort(self) -> None:
        self._is_closing = True
        asyncio.get_running_loop().call_soon(self.lose)

    def lose(self) -> None:
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self._link.connection_lost(None)


class Frames:
    """What a client might send, and what none does."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._last = -1

    def _call(self) -> bytes:
        self._last += 2
        path = f"/{SERVICE}/{self._draw.choice(PATHS)}"
        pairs = [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")]
        flags = END_HEADERS | (self._draw.random() < 0.2)
        return frame(HEADERS, flags, self._last, encode_headers(pairs))

    def _of_one(self) -> int:
        """A stream's number, nearly always of one that has begun."""
        draw = self._draw
        return max(1, self._last - 2 * draw.randrange(6)) if draw.random() < 0.995 else draw.randrange(20)

    def next(self) -> bytes:
        draw = self._draw
        if self._last < 1 or draw.random() < 0.3:
            return self._call()
        number = self._of_one()
        several = encode_message(b"x") * draw.choice((1, 1, 2, 200))
        data = draw.choice(
            (several, several, encode_message(bytes(5_000)), PREFIX.pack(0, NUMBER_MAX), b"\0\0\0\0\5a", b"")
        )
        kinds: tuple[Callable[[], bytes], ...] = (
            lambda: frame(DATA, draw.random() < 0.5, number, data),
            lambda: frame(DATA, END_STREAM, number, encode_message(b"y")),
            lambda: window_update(draw.choice((0, number)), draw.choice((1, 300, 5_000))),
            lambda: settings({INITIAL_WINDOW: draw.choice((0, 1, 100, 70_000))}),
            lambda: reset(number, Http2Code.CANCEL),
            lambda: frame(PING, 0, 0, bytes(8)),
            lambda: window_update(number, draw.choice((0, NUMBER_MAX))),
            lambda: frame(HEADERS, END_HEADERS | END_STREAM, number, encode_headers([("trailer", "1")])),
            lambda: frame(
                draw.randrange(12), draw.randrange(256), draw.randrange(8), draw.randbytes(draw.choice((4, 8)))
            ),
        )
        return draw.choice(kinds if draw.random() < 0.05 else kinds[:6])()


def check(link: GrpcLink, server: GrpcServer) -> None:
    connection = link._connection
    assert link._parts_bytes == sum(call.counted_bytes for call in link.calls.values())
    assert set(link._coming) | set(link._writing) <= set(link.calls)
    waiting = {number: stream.unsent for number, stream in connection.streams.items() if stream.unsent}
    assert connection.unsent_bytes == sum(len(one) for unsent in waiting.values() for one in unsent)
    assert waiting.keys() == connection._ready.keys() | connection._stalled.keys()
    assert not connection._ready.keys() & connection._stalled.keys()
    assert link.is_closing or link.held.buffered == connection.held_bytes + link._parts_bytes + len(link._later)
    assert server.room.buffered == sum(each.held.buffered for each in server.links)
    assert server.backlog_bytes == sum(each.backlog_bytes for each in server.links)


async def play(server: GrpcServer, methods_of: Played, draw: Random) -> None:
    methods_of.answer.status.message = "x" * draw.choice((0, 50, 3_000, 100_000))
    link = GrpcLink(server)
    transport = Transport(link, draw, has_tls=draw.random() < 0.4)
    link.connection_made(transport)
    link.data_received(PREFACE + settings({INITIAL_WINDOW: draw.choice((0, 10, 100, 65_535))}))
    frames, pieces = Frames(draw), b""
    for _ in range(draw.randrange(STEPS)):
        pieces += frames.next()
        if draw.random() < 0.6 and not (transport.is_paused or transport.is_closing()):
            cut = draw.randrange(len(pieces)) + 1 if draw.random() < 0.3 else len(pieces)
            link.data_received(pieces[:cut])
            pieces = pieces[cut:]
        if draw.random() < 0.4:
            await asyncio.sleep(0)
        if draw.random() < 0.3:
            transport.drain()
        if transport.is_lost:
            break
        check(link, server)
    draw.choice((transport.lose, transport.abort, link.close, lambda: link.shut_out("it is time")))()
    for _ in range(TURNS):
        await asyncio.sleep(0)
        transport.drain()
    assert transport.is_lost
    assert not server._tasks
    assert (len(link.calls), len(link._coming), len(link._writing), link._parts_bytes) == (0, 0, 0, 0)
    assert (len(server.links), server.room.buffered, server.backlog_bytes) == (0, 0, 0)


@pytest.mark.parametrize("piece_bytes", [PIECE_BYTES, 100])
def test_nothing_is_left_however_calls_and_connections_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(client_links, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(client_links, "TURN_NS", 0)
    caplog.set_level(logging.CRITICAL)

    async def run() -> None:
        played = Played()
        server = GrpcServer(ProxyConfig(port=NO_PORT), played)
        loop, failed = asyncio.get_running_loop(), list[Any]()
        loop.set_exception_handler(lambda _, context: failed.append(context))
        for seed in range(SEEDS):
            try:
                await play(server, played, Random(f"{piece_bytes} {seed}"))
                assert not failed
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise

    run_on_loop(run())


def test_a_flood_of_calls_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are taken some at a time, in their order, and nothing more is read meanwhile."""
    monkeypatch.setattr(client_links, "TURN_NS", 0)

    async def run() -> None:
        server = GrpcServer(ProxyConfig(port=NO_PORT), Played())
        link = GrpcLink(server)
        transport = Transport(link, Random(1), has_tls=False)
        link.connection_made(transport)
        path = (":path", f"/{SERVICE}/QueryRoute")
        block = encode_headers([(":method", "POST"), (":scheme", "http"), path, ("content-type", "application/grpc")])
        calls = [
            frame(HEADERS, END_HEADERS, number, block) + frame(DATA, END_STREAM, number, encode_message(b""))
            for number in range(1, 4_001, 2)
        ]
        link.data_received(PREFACE + settings({}) + b"".join(calls))
        seen = [len(link.calls)]
        while transport.is_paused:
            check(link, server)
            await asyncio.sleep(0)
            transport.drain()
            seen.append(len(link.calls))
        assert seen[-1] == len(calls) == 2_000
        assert list(link.calls) == sorted(link.calls)
        assert max(after - before for before, after in itertools.pairwise(seen)) <= PIECE_BYTES // len(calls[0]) + 1
        transport.lose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not server._tasks

    run_on_loop(run())
