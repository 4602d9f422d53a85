"""A connection of HTTP/2, with h2's client at its other end, and by frames that no client sends."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.proxy.http2 import connection as connection_module
from zenitmq.proxy.http2.connection import CONNECTION_WINDOW, STREAM_WINDOW, STREAMS_MAX, Http2Connection, Http2Stream
from zenitmq.proxy.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    INITIAL_WINDOW,
    NUMBER_MAX,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RESET,
    SETTINGS,
    WINDOW_UPDATE,
    ConnectionFault,
    Http2Code,
    frame,
    window_update,
)
from zenitmq.proxy.http2.frames import settings as settings_frame
from zenitmq.proxy.http2.headers import encode_headers

REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/p"), (":authority", "x"), ("te", "trailers")]
ANSWER = encode_headers(((":status", "200"),))
TRAILERS = encode_headers((("grpc-status", "0"),))
BLOCK = encode_headers(REQUEST)
BEGIN = PREFACE + settings_frame({})


class Told:
    """What a connection tells of its streams."""

    def __init__(self) -> None:
        self.requests: dict[int, Http2Stream] = {}
        self.data: dict[int, bytes] = {}
        self.resets: list[int] = []

    def on_request(self, stream: Http2Stream, fields: dict[str, str]) -> None:
        assert fields[":path"] == "/p"
        self.requests[stream.number] = stream
        self.data[stream.number] = b""

    def on_data(self, stream: Http2Stream, data: bytes) -> None:
        self.data[stream.number] += data

    def on_reset(self, stream: Http2Stream) -> None:
        self.resets.append(stream.number)


class Pair:
    """Our server and h2's client."""

    def __init__(self, **told: int) -> None:
        self.told = Told()
        self.server = Http2Connection(self.told)
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        values = {h2.settings.SettingCodes[name]: value for name, value in told.items()}
        self.client.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self.client.max_inbound_frame_size = self.client.local_settings.max_frame_size
        self.client.initiate_connection()
        self.answers: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.move()

    def move(self, piece: int = 1 << 20) -> list[Any]:
        """Until nothing goes either way."""
        events: list[Any] = []
        while True:
            up = self.client.data_to_send()
            for at in range(0, len(up), piece):
                self.server.receive(up[at : at + piece])
            down = b"".join(self.server.output)
            self.server.output.clear()
            if not up and not down:
                return events
            for event in self.client.receive_data(down):
                events.append(event)
                if isinstance(event, h2.events.DataReceived):
                    assert event.stream_id is not None
                    self.answers[event.stream_id] = self.answers.get(event.stream_id, b"") + (event.data or b"")
                    self.client.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    assert event.stream_id is not None
                    self.ended.append(event.stream_id)

    def ask(self, number: int, body: bytes) -> None:
        """As far as the server gives room."""
        self.client.send_headers(number, REQUEST)
        self.pour(number, body)

    def pour(self, number: int, body: bytes) -> None:
        while body:
            room = min(self.client.local_flow_control_window(number), 16_384)
            if not room:
                self.move()
                stream = self.told.requests[number]
                self.server.give_room(stream, stream.received - stream.taken)
                self.move()
                continue
            self.client.send_data(number, body[:room])
            body = body[room:]
        self.client.end_stream(number)

    def answer(self, number: int, *parts: bytes) -> None:
        stream = self.told.requests[number]
        self.server.send_headers(stream, ANSWER)
        for part in parts:
            self.server.send_data(stream, part)
        self.server.end(stream, TRAILERS)


@given(
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 200_000)), min_size=1, max_size=4),
    st.sampled_from([1, 7, 1_000, 1 << 20]),
    st.sampled_from([1_000, 65_535, 1 << 20]),
    st.sampled_from([16_384, 100_000]),
)
@settings(max_examples=12)
def test_requests_and_answers_are_whole_whatever_the_windows(
    bodies: list[tuple[int, int]], piece: int, window: int, frame_bytes: int
) -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=window, MAX_FRAME_SIZE=frame_bytes)
    for number, (size, _) in enumerate(bodies):
        pair.ask(1 + 2 * number, bytes([number]) * (size if piece > 7 else size % 5_000))
    pair.move(piece)
    for number, (size, answer) in enumerate(bodies):
        assert pair.told.requests[1 + 2 * number].is_ended
        assert pair.told.data[1 + 2 * number] == bytes([number]) * (size if piece > 7 else size % 5_000)
        pair.answer(1 + 2 * number, b"a" * answer, b"b" * 3)
    pair.move()
    assert sorted(pair.ended) == sorted(pair.told.requests)
    for number, (_, answer) in enumerate(bodies):
        assert pair.answers[1 + 2 * number] == b"a" * answer + b"b" * 3
    assert not pair.server.streams
    assert not pair.server.unsent_bytes


def test_an_answer_waits_for_room_and_is_given_up_with_its_stream() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=10)
    pair.ask(1, b"one")
    pair.ask(3, b"two")
    pair.move()
    for number in (1, 3):
        stream = pair.told.requests[number]
        pair.server.send_headers(stream, ANSWER)
        pair.server.send_data(stream, b"x" * 25)
        pair.server.end(stream, TRAILERS)
    assert pair.server.unsent_bytes == 30
    pair.client.receive_data(b"".join(pair.server.output))
    pair.server.output.clear()
    pair.client.reset_stream(1, Http2Code.CANCEL)
    pair.client.increment_flow_control_window(5, 3)
    pair.server.receive(pair.client.data_to_send())
    assert pair.told.resets == [1]
    assert pair.server.unsent_bytes == 10
    pair.client.increment_flow_control_window(10, 3)
    pair.move()
    assert pair.ended == [3]
    assert not pair.server.streams


def test_a_change_of_the_first_window_counts_for_streams_that_have_begun() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=10)
    pair.ask(1, b"")
    pair.move()
    pair.answer(1, b"x" * 100)
    for size in (0, 50, 1_000):
        pair.client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
        pair.move()
    assert pair.answers[1] == b"x" * 100


def test_an_answer_before_the_request_has_ended_ends_it() -> None:
    pair = Pair()
    pair.client.send_headers(1, REQUEST)
    pair.client.send_data(1, b"half")
    pair.move()
    pair.answer(1, b"no")
    events = pair.move()
    assert [event.error_code for event in events if isinstance(event, h2.events.StreamReset)] == [Http2Code.NO_ERROR]


def test_the_end_is_told_twice() -> None:
    pair = Pair()
    pair.ask(1, b"x")
    pair.server.announce_end()
    pair.client.send_headers(3, REQUEST)  # it was on its way
    pair.server.receive(pair.client.data_to_send())
    assert sorted(pair.told.requests) == [1, 3]
    pair.server.refuse_new()
    pair.server.receive(frame(HEADERS, END_HEADERS, 5, BLOCK))
    assert frame(RESET, 0, 5, struct.pack(">I", Http2Code.REFUSED_STREAM)) in b"".join(pair.server.output)
    pair.server.ping()
    assert pair.server.output[-1] == frame(PING, 0, 0, bytes(8))


# ---- what no client sends


def begun(*more: bytes) -> tuple[Http2Connection, Told]:
    told = Told()
    server = Http2Connection(told)
    server.receive(BEGIN + b"".join(more))
    return server, told


def fault_of(*frames: bytes) -> Http2Code:
    with pytest.raises(ConnectionFault) as fault:
        begun(*frames)
    return fault.value.code


def resets_of(server: Http2Connection) -> list[tuple[int, int]]:
    """(stream, code) of those that the server ended."""
    sent = b"".join(server.output)
    return [
        (int.from_bytes(sent[at + 5 : at + 9], "big"), sent[at + 12]) for at in frames_at(sent) if sent[at + 3] == RESET
    ]


def frames_at(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        yield at
        at += 9 + int.from_bytes(data[at : at + 3], "big")


OPEN = frame(HEADERS, END_HEADERS, 1, BLOCK)
ENDED = frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)
PROTOCOL, SIZE, FLOW = Http2Code.PROTOCOL_ERROR, Http2Code.FRAME_SIZE_ERROR, Http2Code.FLOW_CONTROL_ERROR


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((frame(HEADERS, END_HEADERS, 2, BLOCK),), PROTOCOL),
        ((frame(HEADERS, END_HEADERS, 0, BLOCK),), PROTOCOL),
        ((frame(DATA, 0, 0, b"x"),), PROTOCOL),
        ((frame(DATA, 0, 1, b"x"),), PROTOCOL),
        ((frame(DATA, 0, 2, b"x"),), PROTOCOL),
        ((OPEN, frame(DATA, PADDED, 1, b"")), PROTOCOL),
        ((OPEN, frame(DATA, PADDED, 1, b"\x03ab")), PROTOCOL),
        ((b"\x00\x40\x01\0\0\0\0\0\1",), SIZE),
        ((frame(HEADERS, 0, 1, BLOCK[:5]), frame(PING, 0, 0, bytes(8))), PROTOCOL),
        ((frame(HEADERS, 0, 1, BLOCK[:5]), frame(CONTINUATION, END_HEADERS, 3, BLOCK[5:])), PROTOCOL),
        ((frame(CONTINUATION, END_HEADERS, 1, BLOCK),), PROTOCOL),
        ((frame(HEADERS, 0, 1, b""), *[frame(CONTINUATION, 0, 1, b"")] * 8_000), Http2Code.ENHANCE_YOUR_CALM),
        ((frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"abc"),), SIZE),
        ((frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0\0\0\1\0" + BLOCK),), PROTOCOL),
        ((frame(HEADERS, END_HEADERS, 1, b"\x80"),), Http2Code.COMPRESSION_ERROR),
        ((ENDED, frame(RESET, 0, 1, bytes(4)), OPEN), Http2Code.STREAM_CLOSED),
        ((frame(RESET, 0, 1, bytes(4)),), PROTOCOL),
        ((frame(RESET, 0, 0, bytes(4)),), PROTOCOL),
        ((OPEN, frame(RESET, 0, 1, bytes(3))), SIZE),
        ((frame(SETTINGS, 0, 1, b""),), PROTOCOL),
        ((frame(SETTINGS, 0, 0, bytes(5)),), SIZE),
        ((frame(SETTINGS, ACK, 0, bytes(6)),), SIZE),
        ((settings_frame({2: 2}),), PROTOCOL),
        ((settings_frame({INITIAL_WINDOW: NUMBER_MAX + 1}),), FLOW),
        ((settings_frame({5: 100}),), PROTOCOL),
        ((frame(PING, 0, 1, bytes(8)),), PROTOCOL),
        ((frame(PING, 0, 0, bytes(7)),), SIZE),
        ((frame(GOAWAY, 0, 1, bytes(8)),), PROTOCOL),
        ((frame(GOAWAY, 0, 0, bytes(7)),), SIZE),
        ((frame(PRIORITY, 0, 0, bytes(5)),), PROTOCOL),
        ((frame(PUSH_PROMISE, 0, 1, bytes(5)),), PROTOCOL),
        ((window_update(0, 0),), PROTOCOL),
        ((window_update(0, NUMBER_MAX),), FLOW),
        ((window_update(1, 5),), PROTOCOL),
        ((frame(WINDOW_UPDATE, 0, 0, bytes(3)),), SIZE),
    ],
)
def test_what_breaks_the_rules_of_a_connection_ends_it(frames: tuple[bytes, ...], code: Http2Code) -> None:
    assert fault_of(*frames) is code


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((frame(HEADERS, END_HEADERS, 1, BLOCK[:5]),), None),
        ((frame(HEADERS, END_HEADERS, 1, encode_headers(REQUEST[1:])),), PROTOCOL),
        ((ENDED, frame(DATA, 0, 1, b"x")), Http2Code.STREAM_CLOSED),
        ((OPEN, OPEN), PROTOCOL),
        ((ENDED, ENDED), Http2Code.STREAM_CLOSED),
        ((OPEN, frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)), PROTOCOL),
        ((OPEN, frame(PRIORITY, 0, 1, bytes(4))), SIZE),
        ((OPEN, frame(PRIORITY, 0, 1, b"\0\0\0\1\0")), PROTOCOL),
        ((OPEN, window_update(1, 0)), PROTOCOL),
        ((OPEN, window_update(1, NUMBER_MAX)), FLOW),
    ],
)
def test_what_breaks_the_rules_of_a_stream_ends_that(frames: tuple[bytes, ...], code: Http2Code | None) -> None:
    if code is None:
        assert fault_of(*frames) is Http2Code.COMPRESSION_ERROR
        return
    server, told = begun(*frames)
    assert resets_of(server) == [(1, code)]
    assert told.resets == [1] * len(told.requests)
    server.receive(frame(HEADERS, END_HEADERS | END_STREAM, 3, BLOCK))
    assert 3 in told.requests


def test_what_means_nothing_is_let_pass() -> None:
    padded = bytes([3]) + BLOCK + bytes(3)
    server, told = begun(
        frame(77, 0xFF, 9, b"unknown"),
        settings_frame({99: 1}),
        frame(PRIORITY, 0, 7, b"\0\0\0\3\0"),
        frame(HEADERS, END_HEADERS | PADDED, 1, padded),
        frame(DATA, PADDED, 1, b"\x02hi\0\0"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers((("trailer", "1"),))),
        frame(GOAWAY, 0, 0, bytes(8)),
    )
    assert told.data == {1: b"hi"}
    assert told.requests[1].is_ended
    assert resets_of(server) == []


def test_who_speaks_something_else_is_told_from_who_has_not_finished() -> None:
    for data in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nXX"):
        with pytest.raises(ConnectionFault):
            Http2Connection(Told()).receive(data)
    server = Http2Connection(Told())
    for byte in BEGIN[:30]:
        server.receive(bytes((byte,)))
    assert server.is_begun
    assert server.held_bytes == 6
    with pytest.raises(ConnectionFault, match="settings"):
        Http2Connection(Told()).receive(PREFACE + frame(PING, 0, 0, bytes(8)))


def test_more_than_a_window_is_not_taken() -> None:
    full = frame(DATA, 0, 1, bytes(16_384))
    server, told = begun(OPEN)
    for _ in range(STREAM_WINDOW // 16_384):
        server.receive(full)
    assert resets_of(server) == []
    server.receive(full)
    assert resets_of(server) == [(1, FLOW)]
    server.output.clear()
    for _ in range(CONNECTION_WINDOW // 16_384):  # of a stream that has ended: the connection's window opens again
        server.receive(full)
    assert sum(1 for at in frames_at(b"".join(server.output)) if b"".join(server.output)[at + 3] == WINDOW_UPDATE) == 2
    assert told.resets == [1]


def limited(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> Callable[..., Any]:
    monkeypatch.setattr(connection_module, name, value)
    return begun


def test_streams_at_a_time_and_those_begun_to_be_ended_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STREAMS_MAX == 10_000
    server, told = limited(monkeypatch, "STREAMS_MAX", 2)(
        *(frame(HEADERS, END_HEADERS, number, BLOCK) for number in (1, 3, 5))
    )
    assert resets_of(server) == [(5, Http2Code.REFUSED_STREAM)]
    assert sorted(told.requests) == [1, 3]
    monkeypatch.undo()
    pairs = [
        frame(HEADERS, END_HEADERS, number, BLOCK) + frame(RESET, 0, number, struct.pack(">I", Http2Code.CANCEL))
        for number in range(1, 2 * 1_001 + 1, 2)
    ]
    server, _ = begun(*pairs[:1_000])
    with pytest.raises(ConnectionFault) as fault:
        server.receive(pairs[1_000])
    assert fault.value.code is Http2Code.ENHANCE_YOUR_CALM
    server.fail(fault.value)
    assert server.output[-1][3] == GOAWAY


def test_who_is_answered_may_end_as_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    server, told = limited(monkeypatch, "RESETS_MAX", 1)()
    for number in range(1, 41, 4):
        server.receive(frame(HEADERS, END_HEADERS | END_STREAM, number, BLOCK))
        server.end(told.requests[number], TRAILERS)
        server.receive(frame(HEADERS, END_HEADERS, number + 2, BLOCK) + frame(RESET, 0, number + 2, bytes(4)))
    assert len(told.resets) == 10


def frames_of(server: Http2Connection, kind: int) -> list[int]:
    """The payload's bytes of each frame of a kind that is to be sent."""
    data = b"".join(server.output)
    return [int.from_bytes(data[at : at + 3], "big") for at in frames_at(data) if data[at + 3] == kind]


def take(server: Http2Connection, *pieces: bytes) -> None:
    for piece in pieces:
        server.receive(piece)


FREE = {
    "ping": frame(PING, 0, 0, bytes(8)),
    "settings": settings_frame({}),
    "priority": frame(PRIORITY, 0, 1, b"\0\0\0\3\0"),
    "empty data": frame(DATA, 0, 1),
    "padding": frame(DATA, PADDED, 1, b"\1\0"),
    "room": window_update(0, 1),
    "room of a stream": window_update(1, 1),
    "unknown": frame(77, 0, 0, b""),
    "end of what has ended": frame(RESET, 0, 3, bytes(4)),
    "data of what has ended": frame(DATA, 0, 3),
}


@pytest.mark.parametrize("name", FREE)
def test_a_flood_of_frames_that_carry_nothing_ends_the_connection(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ended = frame(HEADERS, END_HEADERS, 3, BLOCK) + frame(RESET, 0, 3, bytes(4))
    server, _ = limited(monkeypatch, "FREE_FRAMES_MAX", 100)(OPEN, ended)
    for _ in range(5):  # time goes by
        server.receive(FREE[name] * 90)
        server.forgive()
    with pytest.raises(ConnectionFault) as fault:
        server.receive(FREE[name] * 101)
    assert fault.value.code is Http2Code.ENHANCE_YOUR_CALM


def test_who_is_answered_may_give_room_for_it_and_ask_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    server, told = limited(monkeypatch, "FREE_FRAMES_MAX", 10)()
    for number in range(1, 400, 2):
        server.receive(frame(HEADERS, END_HEADERS | END_STREAM, number, BLOCK))
        server.send_data(told.requests[number], b"hi")
        server.receive(window_update(0, 2) + window_update(number, 2) + FREE["ping"] * 4)
        server.end(told.requests[number], TRAILERS)


def test_settings_count_with_each_stream_that_they_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """One frame of few bytes has us look at each of them."""
    server, told = limited(monkeypatch, "FREE_FRAMES_MAX", 1_000)(settings_frame({INITIAL_WINDOW: 0}))
    for number in range(1, 200, 2):
        server.receive(frame(HEADERS, END_HEADERS | END_STREAM, number, BLOCK))
        server.send_data(told.requests[number], bytes(100))
    with pytest.raises(ConnectionFault, match="flood"):
        take(server, *(settings_frame({INITIAL_WINDOW: window}) for window in range(20)))


def test_room_that_comes_in_crumbs_is_used_as_a_whole() -> None:
    server, told = begun(settings_frame({INITIAL_WINDOW: 0}), frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK))
    server.send_data(told.requests[1], bytes(500))
    server.output.clear()
    server.receive(window_update(1, 1) * 200)
    assert frames_of(server, DATA) == [200]


def test_streams_take_turns_whatever_room_there_is() -> None:
    server, told = begun(settings_frame({INITIAL_WINDOW: NUMBER_MAX}))
    for number in (1, 3, 5):
        server.receive(frame(HEADERS, END_HEADERS | END_STREAM, number, BLOCK))
        server.send_data(told.requests[number], bytes(100_000))
    server.output.clear()
    for _ in range(4):
        server.receive(window_update(0, 16_384))
    data = b"".join(server.output)
    assert [int.from_bytes(data[at + 5 : at + 9], "big") for at in frames_at(data)] == [1, 3, 5, 1]


def test_what_waits_counts_with_what_a_stream_takes() -> None:
    server, told = begun(settings_frame({INITIAL_WINDOW: 0}), OPEN, frame(HEADERS, END_HEADERS, 3, BLOCK))
    for number in (1, 3):
        server.send_data(told.requests[number], b"hi")
        server.end(told.requests[number], TRAILERS)
    assert server.waiting_bytes == 2 * (2 + connection_module.UNSENT_STREAM_BYTES)
    server.receive(frame(RESET, 0, 1, bytes(4)) + window_update(3, 2))
    assert not server.waiting_bytes
    assert not server.streams


def test_who_has_its_streams_ended_by_breaking_rules_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server, told = limited(monkeypatch, "RESETS_MAX", 3)()
    calls = {number: frame(HEADERS, END_HEADERS | END_STREAM, number, BLOCK) for number in range(1, 20, 2)}
    with pytest.raises(ConnectionFault) as fault:
        take(server, *(call + window_update(number, 0) for number, call in calls.items()))
    assert fault.value.code is Http2Code.ENHANCE_YOUR_CALM
    assert len(told.resets) == 3
