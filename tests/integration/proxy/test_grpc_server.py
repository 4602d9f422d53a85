"""The gRPC server alone: calls that do not keep to the rules, halves of them, clients that are silent or do not read."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import gzip
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import h2.config
import h2.connection
import h2.events
import pytest
from classic_kit import new_certificate

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import RemoteProtocolError
from zenitmq.proxy import client_links, grpc_server
from zenitmq.proxy.config import ProxyConfig, ProxyLimits
from zenitmq.proxy.event_loop import run_on_loop
from zenitmq.proxy.grpc_server import GrpcServer
from zenitmq.proxy.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW,
    PING,
    PREFACE,
    frame,
    window_update,
)
from zenitmq.proxy.http2.frames import settings as settings_frame
from zenitmq.proxy.http2.grpc_messages import PREFIX, encode_message
from zenitmq.proxy.http2.headers import encode_headers
from zenitmq.proxy.schema import SERVICE, Method, decoder, message_class, methods
from zenitmq.proxy.v2.calls import Answers
from zenitmq.proxy.v2.methods import CallFacts
from zenitmq.proxy.v2.status import CallRefused, Code

pytestmark = pytest.mark.timeout(60)

WAIT_MS = 15_000
BEGIN = PREFACE + settings_frame({})
_Heartbeat, _Response = message_class("HeartbeatRequest"), message_class("HeartbeatResponse")


class Echo:
    """Answers with the request's own text. See GrpcMethods."""

    def __init__(self) -> None:
        self.facts: list[CallFacts] = []
        self.ended: list[str] = []
        self.answer_bytes = 0
        self.commands = 0
        self.commands_in_one_turn = 0

    def all(self) -> list[Method]:
        return list(methods().values())

    def decode(self, method: Method, encoded: bytes) -> Any:
        try:
            return decoder(method.request)(encoded)
        except RemoteProtocolError as error:
            raise CallRefused(Code.BAD_REQUEST, str(error)) from None

    async def unary(self, method: Method, facts: CallFacts, encoded: bytes) -> Any:
        self.facts.append(facts)
        if method.name == "QueryRoute":  # goes on until its client gives it up
            try:
                await asyncio.sleep(30)
            finally:
                self.ended.append(method.name)
        if method.name == "QueryAssignment":
            raise asyncio.CancelledError
        answer = _Response()
        answer.status.code = Code.OK
        answer.status.message = decoder(_Heartbeat)(encoded).group.name or "x" * self.answer_bytes
        return answer

    async def stream(self, method: Method, facts: CallFacts, encoded: bytes, answers: Answers) -> None:
        if method.name == "PullMessage":
            raise ValueError("a fault of ours")
        raise CallRefused(Code.FORBIDDEN, "not you")

    async def telemetry(self, facts: CallFacts, commands: AsyncIterator[Any], answers: Answers) -> None:
        try:
            async for command in commands:
                if command.WhichOneof("command"):
                    await answers.write(command)
                self.commands += 1
                if self.commands == 1:
                    asyncio.get_running_loop().call_soon(self._note)
        finally:
            self.ended.append("Telemetry")

    def _note(self) -> None:
        self.commands_in_one_turn = self.commands

    def drain(self) -> None:
        self.ended.append("drain")


class Running:
    """`call` runs something on its loop."""

    def __init__(self) -> None:
        self.methods = Echo()
        self.server: GrpcServer
        self.loop: asyncio.AbstractEventLoop

    def call(self, work: Any) -> Any:
        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)


@contextmanager
def running(tls: tuple[Path, Path] | None = None, **limits: int) -> Iterator[Running]:
    """`tls`: a certificate and its key."""
    made, is_up = Running(), threading.Event()
    ends = asyncio.Event()

    async def serve() -> None:
        made.loop = asyncio.get_running_loop()
        config = ProxyConfig(port=0, drain_ms=0, limits=ProxyLimits(**limits))
        if tls is not None:
            config = dataclasses.replace(config, tls_port=0, tls_certificate=str(tls[0]), tls_key=str(tls[1]))
        made.server = GrpcServer(config, made.methods)
        looking = asyncio.create_task(made.server.look())
        is_up.set()
        await ends.wait()
        looking.cancel()
        await made.server.drain(drain_ms=0)

    thread = threading.Thread(target=lambda: run_on_loop(serve()))
    thread.start()
    is_up.wait(10)
    try:
        yield made
    finally:
        made.loop.call_soon_threadsafe(ends.set)
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running() as made:
        yield made


class Client:
    """h2's, over a socket."""

    def __init__(self, served: Running) -> None:
        self.socket = socket.create_connection(("127.0.0.1", served.server.port), 10)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.headers: dict[int, dict[str, str]] = {}
        self.data: dict[int, bytes] = {}
        self.open: set[int] = set()
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, data: bytes | None, path: str = "Heartbeat", *, ends: bool = True, **headers: str) -> int:
        """The stream of a call."""
        stream = self.h2.get_next_available_stream_id()
        pairs = {":method": "POST", ":scheme": "http", ":path": f"/{SERVICE}/{path}", ":authority": "x"}
        pairs |= {"content-type": "application/grpc", "te": "trailers"}
        pairs |= {name.replace("_", "-"): value for name, value in headers.items()}
        pairs = {name: value for name, value in pairs.items() if value}
        self.h2.send_headers(stream, list(pairs.items()), end_stream=data is None and ends)
        if data is not None:
            self.h2.send_data(stream, data, end_stream=ends)
        self.open.add(stream)
        self.headers[stream], self.data[stream] = {}, b""
        self.flush()
        return stream

    def read(self) -> None:
        """What comes next. Raises ConnectionResetError when nothing does any more."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        for event in self.h2.receive_data(data):
            number: Any = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                self.headers[number] |= {str(n, "ascii"): str(v, "ascii") for n, v in event.headers or ()}
            elif isinstance(event, h2.events.DataReceived):
                self.data[number] += event.data or b""
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                self.open.discard(number)
        self.flush()

    def status(self, stream: int) -> str:
        """What a call came to: its grpc-status, or the HTTP status."""
        while stream in self.open:
            self.read()
        return self.headers[stream].get("grpc-status") or self.headers[stream][":status"]

    def answer(self, stream: int) -> str:
        assert self.status(stream) == "0"
        packed, size = PREFIX.unpack_from(self.data[stream])
        assert (packed, size) == (0, len(self.data[stream]) - PREFIX.size)
        return str(_Response.FromString(self.data[stream][PREFIX.size :]).status.message)


def named(name: str) -> bytes:
    beat = _Heartbeat()
    beat.group.name = name
    return bytes(beat.SerializeToString())


def until(condition: Any) -> None:
    deadline_ms = monotonic_ms() + WAIT_MS
    while not condition():
        assert monotonic_ms() < deadline_ms
        sleep_ms(5)


def test_a_call_is_answered_with_what_its_client_says_of_it(served: Running) -> None:
    with Client(served) as client:
        first = client.ask(encode_message(named("one")), x_mq_client_id="me", grpc_timeout="1500m")
        second = client.ask(encode_message(named("two")))
        assert (client.answer(second), client.answer(first)) == ("two", "one")
    facts, other = served.methods.facts[-2:]
    assert facts.metadata["x-mq-client-id"] == "me"
    assert (facts.left_s, other.left_s) == (1.5, None)
    assert facts.peer.startswith("ipv4:127.0.0.1:")


def test_a_packed_request_is_unpacked(served: Running) -> None:
    packed = gzip.compress(named("packed" * 99))
    with Client(served) as client:
        stream = client.ask(PREFIX.pack(1, len(packed)) + packed, grpc_encoding="gzip")
        assert client.answer(stream) == "packed" * 99


def test_a_large_request_comes_in_as_many_windows_as_it_takes(served: Running) -> None:
    message = encode_message(named("y" * 3_000_000))
    with Client(served) as client:
        stream = client.ask(None, ends=False)
        while message:
            room = min(client.h2.local_flow_control_window(stream), 16_384)
            if not room:
                client.read()
                continue
            client.h2.send_data(stream, message[:room], end_stream=len(message) <= room)
            client.flush()
            message = message[room:]
        assert client.answer(stream) == "y" * 3_000_000
    until(lambda: not served.server.room.buffered)


@pytest.mark.parametrize(
    ("data", "headers", "status", "said"),
    [
        (b"", {"content_type": "text/html"}, "415", ""),
        (b"", {"content_type": ""}, "415", ""),
        (b"\0\0", {"path": "Nothing"}, "12", "there is no method"),
        (b"\0\0", {"grpc_encoding": "snappy"}, "12", "gzip"),
        (b"", {"grpc_timeout": "soon"}, "3", "digits"),
        (None, {}, "13", "one message"),
        (b"\0\0\0\0\5ab", {}, "13", "one message"),
        (encode_message(b"") * 2, {}, "13", "one message"),
        (b"\1\0\0\0\1x", {}, "13", "grpc-encoding"),
        (b"\0\x7f\0\0\0", {}, "8", "allowed"),
        (encode_message(b""), {"path": "ReceiveMessage"}, "7", "not you"),
        (encode_message(b""), {"path": "PullMessage"}, "13", "log"),
        (encode_message(b"\xff"), {"path": "Telemetry"}, "3", "cannot be decoded"),
        (b"\0\0\0\0\5ab", {"path": "Telemetry"}, "13", "cut short"),
    ],
)
def test_what_is_no_call_gets_its_status(
    served: Running, data: bytes | None, headers: dict[str, str], status: str, said: str
) -> None:
    with Client(served) as client:
        stream = client.ask(data, **headers)
        assert client.status(stream) == status
        assert said in client.headers[stream].get("grpc-message", "")
        assert client.answer(client.ask(encode_message(named("after")))) == "after"
    until(lambda: not served.server.room.buffered)


def test_a_stream_goes_both_ways_message_by_message(served: Running) -> None:
    command = message_class("TelemetryCommand")()
    with Client(served) as client:
        stream = client.ask(None, "Telemetry", ends=False)
        while not client.headers[stream]:  # some clients wait for them before they tell anything
            client.read()
        for text in ("a" * 30, "b" * 200_000):
            command.settings.user_agent.hostname = text
            message = encode_message(command.SerializeToString())
            for at in range(0, len(message), 16_000):
                client.h2.send_data(stream, message[at : at + 16_000])
            client.flush()
            while len(client.data[stream]) < len(message):
                client.read()
            assert client.data[stream] == message
            client.data[stream] = b""
        client.h2.end_stream(stream)
        client.flush()
        assert client.status(stream) == "0"


def test_who_gives_a_call_up_or_goes_ends_it(served: Running) -> None:
    served.methods.ended.clear()
    with Client(served) as client:
        stream = client.ask(encode_message(b""), "QueryRoute")
        client.ask(encode_message(b""), "QueryRoute")
        assert client.answer(client.ask(encode_message(named("x")))) == "x"
        client.h2.reset_stream(stream)
        client.flush()
        until(lambda: len(served.methods.ended) == 1)
    until(lambda: len(served.methods.ended) == 2)


def test_halves_of_requests_and_of_connections_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing, one whose frame does not end, one whose request does not; who is only there stays."""
    monkeypatch.setattr(client_links, "REQUEST_MS", 200)
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.02)
    block = encode_headers([(":method", "POST"), (":scheme", "http"), (":path", f"/{SERVICE}/Heartbeat")])
    call = frame(HEADERS, END_HEADERS, 1, block + encode_headers([("content-type", "application/grpc")]))
    with running() as served, Client(served) as good, ExitStack() as opened:
        for data in (b"", PREFACE[:5], BEGIN + b"\0\0\5", BEGIN + call, BEGIN + call + b"\0\0\5\0\0\0\0\0\1ab"):
            half = opened.enter_context(socket.create_connection(("127.0.0.1", served.server.port), 10))
            half.sendall(data)
            assert good.answer(good.ask(encode_message(named("a")))) == "a"
            with suppress(ConnectionResetError):
                while half.recv(1 << 16):
                    pass
        assert good.answer(good.ask(encode_message(named("b")))) == "b"
        until(lambda: not served.server.room.buffered)


def test_a_client_that_is_gone_is_asked_and_then_closed(served: Running) -> None:
    with Client(served) as lives, socket.create_connection(("127.0.0.1", served.server.port), 10) as gone:
        assert lives.answer(lives.ask(encode_message(named("a")))) == "a"
        gone.sendall(BEGIN)
        until(lambda: len(served.server.links) == 2)
        now_ms = monotonic_ms()
        links = list(served.server.links)
        for link in links:
            served.call(lambda link=link: link.look(now_ms + grpc_server.SILENT_MS + 100))
        data = b""
        while frame(PING, 0, 0, bytes(8)) not in data:
            data += gone.recv(1 << 16)
        lives.read()  # and answers
        for link in links:
            link.heard_ms -= client_links.IDLE_MS if link.peer.port == gone.getsockname()[1] else 0
            served.call(lambda link=link: link.look(monotonic_ms() + 50))
        with suppress(ConnectionResetError):
            while gone.recv(1 << 16):
                pass
        assert lives.answer(lives.ask(encode_message(named("b")))) == "b"


def test_parts_of_requests_have_a_bound_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one goes that holds the most for the longest time; what it held is free again."""
    with running(bytes_in_flight=16 << 20) as served, Client(served) as good, Client(served) as bad:
        assert good.answer(good.ask(encode_message(named("a")))) == "a"
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(40):
                stream = bad.ask(PREFIX.pack(0, 900_000), ends=False)
                left = 899_000
                while left:
                    room = min(bad.h2.local_flow_control_window(stream), 16_384, left)
                    if room:
                        bad.h2.send_data(stream, bytes(room))
                        bad.flush()
                        left -= room
                    else:
                        bad.read()
            raise AssertionError("it was not closed")
        assert good.answer(good.ask(encode_message(named("b")))) == "b"
        until(lambda: not served.server.room.buffered)


def test_a_client_that_asks_and_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as served, Client(served) as good, Client(served) as bad:
        monkeypatch.setattr(client_links, "LINK_BACKLOG_BYTES", 1 << 20)
        served.methods.answer_bytes = 300_000
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(1_000):
                bad.ask(encode_message(b""))
                sleep_ms(1)
            raise AssertionError("it was not cut off")
        assert len(good.answer(good.ask(encode_message(b"")))) == 300_000
        until(lambda: not served.server.backlog_bytes)


def test_who_speaks_something_else_is_told_and_closed(served: Running, caplog: pytest.LogCaptureFixture) -> None:
    """The log has it once: who does it on purpose fills no disk."""
    strange = (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", BEGIN + frame(PING, 0, 1, bytes(8)))
    for data in strange * 2:
        with socket.create_connection(("127.0.0.1", served.server.port), 10) as other:
            other.sendall(data)
            answer = b""
            with suppress(ConnectionResetError):
                while more := other.recv(1 << 16):
                    answer += more
        assert bytes((GOAWAY,)) in answer[3::1]
    assert "tls_port" in caplog.text
    assert "PROTOCOL_ERROR: no HTTP/2" in caplog.text
    assert len(caplog.records) == 2


def test_at_the_end_calls_are_ended_and_their_clients_told() -> None:
    with running() as served:
        client = Client(served)
        stream = client.ask(encode_message(b""), "QueryRoute")
        other = client.ask(None, "Telemetry", ends=False)
        assert client.answer(client.ask(encode_message(named("x")))) == "x"
    with client:
        data = b""
        with suppress(ConnectionResetError):
            while more := client.socket.recv(
                1 << 16
            ):  # h2 takes no frames of streams behind the first that tells the end
                data += more
        ends = frame(HEADERS, END_HEADERS | END_STREAM, stream)[3:] + b"\0\x07:status"
        assert ends in data
        assert data.count(b"grpc-status\x0214") == 2
        assert data.index(frame(GOAWAY, 0, 0)[3:]) < data.index(ends) < data.rindex(frame(GOAWAY, 0, 0)[3:])
        assert other > stream
    assert sorted(served.methods.ended) == ["QueryRoute", "Telemetry", "drain"]


def test_a_stream_that_is_refused_in_the_middle_ends_what_is_done_for_it(served: Running) -> None:
    """Else each would take a place among all calls for ever."""
    served.methods.ended.clear()
    with Client(served) as client:
        stream = client.ask(None, "Telemetry", ends=False)
        assert client.answer(client.ask(encode_message(named("x")))) == "x"
        client.h2.send_data(stream, b"\0\x7f\0\0\0")
        client.flush()
        assert client.status(stream) == "8"
        until(lambda: served.methods.ended == ["Telemetry"])


def test_a_call_that_is_cancelled_by_us_is_answered(served: Running) -> None:
    with Client(served) as client:
        assert client.status(client.ask(encode_message(b""), "QueryAssignment")) == "13"


def test_what_came_of_a_stream_takes_no_room_once_it_has_ended(served: Running) -> None:
    with Client(served) as client:
        stream = client.ask(encode_message(b"\xff") + PREFIX.pack(0, 9_000) + bytes(8_000), "Telemetry", ends=False)
        data = b""
        while b"grpc-status\x013" not in data:  # it sends nothing more
            data += client.socket.recv(1 << 16)
        until(lambda: not served.server.room.buffered)
        assert stream in client.open


def test_many_small_commands_leave_others_their_turn() -> None:
    with running() as served, Client(served) as client:
        stream = client.ask(encode_message(b"") * 3_000, "Telemetry")
        assert client.status(stream) == "0"
        assert served.methods.commands == 3_000
        assert 0 < served.methods.commands_in_one_turn <= grpc_server.TAKEN_AT_A_TIME


def test_calls_that_only_begin_take_room_too() -> None:
    with running(bytes_in_flight=16 << 20) as served, Client(served) as good:
        assert good.answer(good.ask(encode_message(named("a")))) == "a"
        call = [(":method", "POST"), (":scheme", "http"), (":path", f"/{SERVICE}/Heartbeat"), ("x", "y" * 12_000)]
        block = encode_headers([*call, ("content-type", "application/grpc")])
        with socket.create_connection(("127.0.0.1", served.server.port), 10) as bad:
            bad.sendall(BEGIN)
            with suppress(ConnectionResetError, BrokenPipeError):
                for number in range(1, 4_000, 2):
                    bad.sendall(frame(HEADERS, END_HEADERS, number, block))
                while bad.recv(1 << 16):
                    pass
        assert good.answer(good.ask(encode_message(named("b")))) == "b"
        until(lambda: not served.server.room.buffered)


def test_one_connection_leaves_others_room_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "CALLS_MAX", 8)
    monkeypatch.setattr(grpc_server, "CALLS_SHARED", 4)
    monkeypatch.setattr(grpc_server, "CALLS_SMALL", 2)
    with running() as served, Client(served) as good, Client(served) as greedy:
        for _ in range(4):
            greedy.ask(encode_message(b""), "QueryRoute")
        assert greedy.status(greedy.ask(encode_message(b""))) == "8"
        assert good.answer(good.ask(encode_message(named("a")))) == "a"


@contextmanager
def unread(served: Running) -> Iterator[tuple[socket.socket, grpc_server.GrpcLink]]:
    """A client that has asked for much, and has not read it; and its connection at the server."""
    served.methods.answer_bytes = 12_000_000
    has_tls = served.server.tls_port > 0
    port = served.server.tls_port if has_tls else served.server.port
    with ExitStack() as opened:
        client = opened.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        if has_tls:
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            client = opened.enter_context(trusting.wrap_socket(client))
        call = [(":method", "POST"), (":scheme", "http"), (":path", f"/{SERVICE}/Heartbeat")]
        block = encode_headers([*call, ("content-type", "application/grpc")])
        room = settings_frame({INITIAL_WINDOW: 1 << 30}) + window_update(0, 1 << 30)
        client.sendall(PREFACE + room + frame(HEADERS, END_HEADERS, 1, block))
        client.sendall(frame(DATA, END_STREAM, 1, encode_message(b"")))
        found: list[grpc_server.GrpcLink] = []

        def waits() -> bool:
            found.extend(link for link in served.server.links if link.peer.port == client.getsockname()[1])  # type: ignore[misc]
            return bool(found) and found[0].backlog_bytes > 1_000_000

        until(lambda: served.call(waits))
        yield client, found[0]


def test_who_never_reads_is_closed_in_the_end() -> None:
    """A connection that closes waits for what it has not sent, which may be for ever."""
    with running() as served, unread(served) as (_, link):

        def end_idle() -> bool:
            link.moved_ms = link.read_ms = monotonic_ms() - client_links.IDLE_MS - 1
            served.call(link.count_backlog)
            served.call(served.server.end_idle)
            return link.is_closing

        until(end_idle)
        assert served.server.links
        until(lambda: end_idle() and not served.server.links)
        assert not served.server.backlog_bytes


def test_what_a_client_of_tls_does_not_read_is_counted_and_comes_whole(tmp_path: Path) -> None:
    """TLS takes any amount at once, and says that nothing waits."""
    with running(tls=new_certificate(tmp_path)) as served, unread(served) as (client, link):
        served.call(link.close)
        assert served.call(lambda: link.is_closing)
        got = 0
        while more := client.recv(1 << 18):
            got += len(more)
        assert got > served.methods.answer_bytes
        until(lambda: not served.call(link.count_backlog))


def test_answers_that_nobody_reads_have_a_bound_for_all_together() -> None:
    """The one goes that has not read the most for the longest time."""
    with ExitStack() as opened:
        served = opened.enter_context(running(bytes_in_flight=16 << 20))
        links = [opened.enter_context(unread(served))[1] for _ in range(4)]
        until(lambda: links[0] not in served.server.links)
        assert links[-1] in served.server.links
        assert served.server.backlog_bytes <= 16 << 20


def test_who_reads_slowly_is_not_idle() -> None:
    with running() as served, unread(served) as (client, link):
        before = served.call(link.count_backlog)
        left = 12_000_000
        while link.read_ms == 0:
            left -= len(client.recv(1 << 18))
            link.heard_ms -= client_links.IDLE_MS
            served.call(lambda: link.note_reading(monotonic_ms()))
        assert served.call(link.count_backlog) < before
        served.call(lambda: link.look(monotonic_ms()))
        while left > 0:
            left -= len(client.recv(min(left, 1 << 18)))


class NoDescriptors:
    """Stands for a socket that is listened on."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.is_over = False

    def fileno(self) -> int:
        return self._listening.fileno()

    def accept(self) -> Any:
        if not self.is_over:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def close(self) -> None:
        self._listening.close()


def test_connections_above_the_limit_are_closed_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with running(connections=1) as served, Client(served) as first:
        assert first.answer(first.ask(encode_message(named("a")))) == "a"
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", served.server.port), 10) as other:
                assert not other.recv(1)
        assert caplog.text.count("limits.connections") == 1


def test_no_descriptors_are_told_and_tried_again_soon(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_links, "ACCEPT_AGAIN_S", 0.02)
    with running() as served:
        (door,) = served.server.doors
        none = NoDescriptors(door.listening)
        served.server.doors[:] = [dataclasses.replace(door, listening=none)]  # type: ignore[type-var]
        served.call(lambda: served.server.accept(served.server.doors[0]))
        with Client(served) as client:
            until(lambda: "ulimit -n" in caplog.text)
            none.is_over = True
            assert client.answer(client.ask(encode_message(named("a")))) == "a"
