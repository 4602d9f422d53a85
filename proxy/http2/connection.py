"""One connection of HTTP/2 as its server sees it: frames, streams, windows, limits. Pure.

`receive` takes the bytes that came, and tells `StreamEvents` of streams; what is to be sent lies in `output`. Flow control
holds both ways: it is a fault if more than a window comes, and what does not fit the client's window waits in `unsent`.
A stream's window opens again when who takes its data says so; the connection's at once, since the server counts all bytes of
requests that are not whole yet, for all its connections.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from typing import Final, Protocol

from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    FRAME_BYTES_MAX,
    FRAME_MAX,
    GOAWAY,
    HAS_PRIORITY,
    HEADER,
    HEADER_BYTES,
    HEADER_LIST_MAX,
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
    STREAMS_AT_A_TIME,
    WINDOW_BYTES,
    WINDOW_UPDATE,
    ConnectionFault,
    Http2Code,
    frame,
    go_away,
    reset,
    settings,
    window_update,
)
from .headers import HEADERS_BYTES_MAX, HeaderDecoder, Headers, request_fields

STREAMS_MAX: Final = 10_000
"""Of one connection at a time."""
STREAM_WINDOW: Final = 1024 * 1024
"""So much may come of one stream before it is taken."""
CONNECTION_WINDOW: Final = 4 * 1024 * 1024
SENT_BYTES_MAX: Final = 64 * 1024
"""The longest frame that is sent, where the client takes longer ones."""
BLOCK_BYTES_MAX: Final = HEADERS_BYTES_MAX
"""Of the frames that carry one request's headers."""
RESETS_MAX: Final = 1_000
"""Of streams that a client may end, or break the rules of so that we end them, beyond those it was answered: to begin and end
them costs it nothing, and us a call each."""
FREE_FRAMES_MAX: Final = 20_000
"""Of those that carry nothing (pings, settings, room, ends of what has ended), beyond what calls explain: they cost us more
than who sends them. `forgive` allows as many anew."""
FRAMES_EXPLAINED: Final = 8
"""By a request, and by a frame of an answer: who reads it gives room, and some ask how long it took."""
CRUMB_BYTES: Final = 1024
"""A frame that is smaller, because the client gave no more room, explains nothing."""
UNSENT_STREAM_BYTES: Final = 1024
"""What a stream takes whose answer waits, beside its bytes."""

_SETTING: Final = struct.Struct(">HI")
_BEGIN: Final = settings(
    {STREAMS_AT_A_TIME: STREAMS_MAX, INITIAL_WINDOW: STREAM_WINDOW, HEADER_LIST_MAX: HEADERS_BYTES_MAX}
) + window_update(0, CONNECTION_WINDOW - WINDOW_BYTES)
_MALFORMED: Final = Http2Code.PROTOCOL_ERROR


class Http2Stream:
    """One request and its answer. `unsent`: what waits for the client's room."""

    __slots__ = ("credit", "header_bytes", "is_ended", "number", "received", "taken", "trailers", "unsent")

    def __init__(self, number: int, header_bytes: int) -> None:
        self.number = number
        self.header_bytes = header_bytes
        """Of the request, as they came."""
        self.credit = 0
        """What it may send, beyond the window that new streams have."""
        self.is_ended = False
        """By the client: nothing more comes."""
        self.received = 0
        """Bytes since its window was opened last."""
        self.taken = 0
        self.unsent: deque[memoryview] = deque()
        self.trailers = b""
        """Which end it, once all is sent."""


class StreamEvents(Protocol):
    """Who is told of a connection's streams."""

    def on_request(self, stream: Http2Stream, fields: dict[str, str]) -> None:
        """One began. `fields`: its headers by name."""

    def on_data(self, stream: Http2Stream, data: bytes) -> None:
        """Some of its bytes came; `stream.is_ended` says whether these are the last."""

    def on_reset(self, stream: Http2Stream) -> None:
        """It ended before it was answered."""


class _HeaderBlock:
    """The headers of a request, until they have come as a whole."""

    __slots__ = ("flags", "number", "parts", "size_bytes")

    def __init__(self, number: int, flags: int, first: bytes) -> None:
        self.number = number
        self.flags = flags
        self.parts = [first]
        self.size_bytes = len(first) + HEADER_BYTES

    def add(self, part: bytes) -> None:
        """Raises ConnectionFault."""
        self.parts.append(part)
        self.size_bytes += len(part) + HEADER_BYTES  # a flood of empty ones is one too
        if self.size_bytes > BLOCK_BYTES_MAX:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, f"headers of more than {BLOCK_BYTES_MAX} bytes")


class Http2Connection:
    """See the file's head. `output`: what is to be sent; who sends it clears it."""

    def __init__(self, events: StreamEvents) -> None:
        self._events = events
        self._decoder = HeaderDecoder()
        self._rest = b""
        self._is_begun = False
        self._is_first_frame = True
        self._block: _HeaderBlock | None = None
        self._last = 0
        self._received = 0
        self._window = WINDOW_BYTES
        self._stream_window = WINDOW_BYTES
        self._frame_max = FRAME_BYTES
        self._ready: OrderedDict[int, Http2Stream] = OrderedDict()
        self._stalled: dict[int, Http2Stream] = {}
        self._has_new_room = False
        self._resets_left = RESETS_MAX
        self._free_frames_left = FREE_FRAMES_MAX
        self._is_refusing = False
        self.streams: dict[int, Http2Stream] = {}
        self.unsent_bytes = 0
        """Of the answers of all streams."""
        self.output: list[bytes] = [_BEGIN]

    @property
    def held_bytes(self) -> int:
        """Of frames and headers that have not come as a whole."""
        return len(self._rest) + (self._block.size_bytes if self._block is not None else 0)

    @property
    def waiting_bytes(self) -> int:
        """What answers take for which the client has given no room yet."""
        return self.unsent_bytes + UNSENT_STREAM_BYTES * (len(self._ready) + len(self._stalled))

    @property
    def is_begun(self) -> bool:
        """Whether the client has said that it speaks HTTP/2."""
        return self._is_begun

    # ---- what comes

    def receive(self, data: bytes) -> None:
        """Raises ConnectionFault, with which the connection ends (`fail`)."""
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        if not self._is_begun:
            if data[: len(PREFACE)] != PREFACE[:size]:
                raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "no HTTP/2")
            if size < len(PREFACE):
                self._rest = data
                return
            self._is_begun, at = True, len(PREFACE)
        self._rest = b""
        while size - at >= HEADER_BYTES:
            high, low, kind, flags, number = HEADER.unpack_from(data, at)
            length = high << 8 | low
            if length > FRAME_BYTES:
                raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin, end = at + HEADER_BYTES, at + HEADER_BYTES + length
            if end > size:
                break
            self._on_frame(kind, flags, number & NUMBER_MAX, data[begin:end])
            at = end
        self._rest = data[at:]
        if self._has_new_room:  # once, however many frames gave it: each may wake as many streams as there are
            self._has_new_room = False
            self._pump()

    def _on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (kind != CONTINUATION or number != self._block.number):
            raise ConnectionFault(_MALFORMED, "headers that do not end")
        if self._is_first_frame:
            if kind != SETTINGS or flags & ACK:
                raise ConnectionFault(_MALFORMED, "the first frame tells no settings")
            self._is_first_frame = False
        if kind == DATA:
            self._on_data(number, flags, payload)
        elif kind == HEADERS:
            self._on_headers(number, flags, payload)
        else:
            if kind != CONTINUATION:
                self._spend_frames(1)
            if (take := self._TAKEN_BY.get(kind)) is not None:  # what is unknown means nothing
                take(self, number, flags, payload)

    def _spend_frames(self, count: int) -> None:
        """Raises ConnectionFault."""
        self._free_frames_left -= count
        if self._free_frames_left < 0:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, "a flood of frames that carry nothing")

    def _explain_frames(self) -> None:
        self._free_frames_left = min(FREE_FRAMES_MAX, self._free_frames_left + FRAMES_EXPLAINED)

    def _spend_reset(self) -> None:
        """Raises ConnectionFault."""
        self._resets_left -= 1
        if self._resets_left < 0:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, "streams that are begun to be ended")

    def _on_data(self, number: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received > CONNECTION_WINDOW:
            raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, "more came than was allowed")
        if self._received >= CONNECTION_WINDOW // 2:
            self.output.append(window_update(0, self._received))
            self._received = 0
        if flags & PADDED:
            payload = _unpadded(payload)
        if not payload:
            self._spend_frames(1)
        stream = self.streams.get(number)
        if stream is None or stream.is_ended:
            self._check_known(number)
            self._refuse(number, Http2Code.STREAM_CLOSED)
            return
        stream.taken += size - len(payload)
        stream.received += size
        if stream.received > STREAM_WINDOW:
            self._refuse(number, Http2Code.FLOW_CONTROL_ERROR)
            return
        stream.is_ended = bool(flags & END_STREAM)
        self._events.on_data(stream, payload)

    def _on_headers(self, number: int, flags: int, payload: bytes) -> None:
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & HAS_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "headers without the priority that they announce")
            if int.from_bytes(payload[:4], "big") & NUMBER_MAX == number:
                raise ConnectionFault(_MALFORMED, "a stream that depends on itself")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._on_block(number, flags, payload)
        else:
            self._block = _HeaderBlock(number, flags, payload)

    def _on_continuation(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        block = self._block
        if block is None:
            raise ConnectionFault(_MALFORMED, "the rest of no headers")
        block.add(payload)
        if flags & END_HEADERS:
            self._block = None
            self._on_block(block.number, block.flags, b"".join(block.parts))

    def _on_block(self, number: int, flags: int, block: bytes) -> None:
        stream = self.streams.get(number)
        if stream is None:
            if number % 2 == 0:
                raise ConnectionFault(_MALFORMED, f"a client's stream with the number {number}")
            if number <= self._last:
                raise ConnectionFault(Http2Code.STREAM_CLOSED, "headers of a stream that has ended")
        headers = self._decoder.decode(block)
        if stream is not None:
            self._on_trailers(stream, flags, headers)
            return
        self._last = number
        fields = request_fields(headers)
        if fields is None:
            self._refuse(number, _MALFORMED)
        elif self._is_refusing or len(self.streams) >= STREAMS_MAX:
            self._refuse(number, Http2Code.REFUSED_STREAM)
        else:
            self._explain_frames()
            stream = self.streams[number] = Http2Stream(number, len(block))
            stream.is_ended = bool(flags & END_STREAM)
            self._events.on_request(stream, fields)

    def _on_trailers(self, stream: Http2Stream, flags: int, headers: Headers) -> None:
        if stream.is_ended:
            self._refuse(stream.number, Http2Code.STREAM_CLOSED)
        elif not flags & END_STREAM or any(name[:1] == ":" for name, _ in headers):
            self._refuse(stream.number, _MALFORMED)
        else:
            stream.is_ended = True
            self._events.on_data(stream, b"")

    def _on_priority(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        if not number:
            raise ConnectionFault(_MALFORMED, "a priority of no stream")
        if len(payload) != 5:
            self._refuse(number, Http2Code.FRAME_SIZE_ERROR)
        elif int.from_bytes(payload[:4], "big") & NUMBER_MAX == number:
            self._refuse(number, _MALFORMED)

    def _on_reset(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        if len(payload) != 4:
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "the end of a stream without a code")
        self._check_known(number)
        stream = self._drop(number)
        if stream is not None:
            self._spend_reset()
            self._events.on_reset(stream)

    def _on_settings(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(_MALFORMED, "settings of one stream")
        if len(payload) % _SETTING.size or (flags & ACK and payload):
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "settings that are cut short")
        if flags & ACK:
            return
        for name, value in _SETTING.iter_unpack(payload):
            if name == ENABLE_PUSH and value > 1:
                raise ConnectionFault(_MALFORMED, f"push {value}")
            if name == INITIAL_WINDOW:
                if value > NUMBER_MAX:
                    raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
                self._stream_window = value
            elif name == FRAME_MAX:
                if not FRAME_BYTES <= value <= FRAME_BYTES_MAX:
                    raise ConnectionFault(_MALFORMED, f"frames of {value} bytes")
                self._frame_max = min(value, SENT_BYTES_MAX)
        self.output.append(frame(SETTINGS, ACK, 0))
        self._spend_frames(len(self._stalled))
        self._ready |= self._stalled
        self._stalled.clear()
        self._has_new_room = True

    def _on_ping(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(_MALFORMED, "a ping of one stream")
        if len(payload) != 8:
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, f"a ping of {len(payload)} bytes")
        if not flags & ACK:
            self.output.append(frame(PING, ACK, 0, payload))

    def _on_go_away(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        """It begins no more streams, and closes by itself."""
        if number:
            raise ConnectionFault(_MALFORMED, "the end of all streams, told of one")
        if len(payload) < 8:
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "the end of all streams, cut short")

    def _on_window_update(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        if len(payload) != 4:
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "room of no size")
        more = int.from_bytes(payload, "big") & NUMBER_MAX
        if not number:
            self._window += more
            if not more:
                raise ConnectionFault(_MALFORMED, "room of 0 bytes")
            if self._window > NUMBER_MAX:
                raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, f"room of {self._window} bytes")
            self._has_new_room = True
            return
        stream = self.streams.get(number)
        if stream is None:
            self._check_known(number)
            return
        stream.credit += more
        if not more or self._stream_window + stream.credit > NUMBER_MAX:
            self._refuse(number, Http2Code.FLOW_CONTROL_ERROR if more else _MALFORMED)
        elif self._stalled.pop(number, None) is not None:
            self._ready[number] = stream
            self._has_new_room = True

    def _on_push_promise(self, number: int, flags: int, payload: bytes) -> None:  # noqa: ARG002
        raise ConnectionFault(_MALFORMED, "a client that pushes")

    def _check_known(self, number: int) -> None:
        """That a stream has begun once. Raises ConnectionFault."""
        if number > self._last or number % 2 == 0:
            raise ConnectionFault(_MALFORMED, f"stream {number}, which has not begun")

    def _refuse(self, number: int, code: Http2Code) -> None:
        """The client is at fault. Raises ConnectionFault where it is too often."""
        stream = self._drop(number)
        self.output.append(reset(number, code))
        if stream is not None:
            self._spend_reset()
            self._events.on_reset(stream)

    def _drop(self, number: int) -> Http2Stream | None:
        stream = self.streams.pop(number, None)
        if stream is not None and stream.unsent:
            self.unsent_bytes -= sum(map(len, stream.unsent))
            stream.unsent.clear()
            self._ready.pop(number, None)
            self._stalled.pop(number, None)
        return stream

    _TAKEN_BY: Final = {
        PRIORITY: _on_priority,
        RESET: _on_reset,
        SETTINGS: _on_settings,
        PING: _on_ping,
        GOAWAY: _on_go_away,
        WINDOW_UPDATE: _on_window_update,
        CONTINUATION: _on_continuation,
        PUSH_PROMISE: _on_push_promise,
    }

    # ---- what goes

    def give_room(self, stream: Http2Stream, size_bytes: int) -> None:
        """So much of what came was taken: as much more may come."""
        stream.taken += size_bytes
        if stream.taken >= STREAM_WINDOW // 2 and not stream.is_ended:
            self.output.append(window_update(stream.number, stream.taken))
            stream.received -= stream.taken
            stream.taken = 0

    def send_headers(self, stream: Http2Stream, block: bytes) -> None:
        """Those before the data of an answer, encoded."""
        self.output.append(frame(HEADERS, END_HEADERS, stream.number, block))

    def send_data(self, stream: Http2Stream, data: bytes) -> None:
        """Goes out as far as the client has room; the rest waits. What waits may still be ended (`end`)."""
        size = len(data)
        if not stream.unsent and size <= min(self._frame_max, self._window, self._stream_window + stream.credit):
            self._explain_frames()
            self._send_frame(stream, data)
            return
        stream.unsent.append(memoryview(data))
        self.unsent_bytes += size
        if stream.number not in self._stalled:
            self._ready[stream.number] = stream
            self._pump()

    def end(self, stream: Http2Stream, trailers: bytes) -> None:
        """The answer's last headers, after all its data."""
        if stream.unsent:
            stream.trailers = trailers
        elif self.streams.pop(stream.number, None) is not None:
            self._resets_left = min(RESETS_MAX, self._resets_left + 1)
            self.output.append(frame(HEADERS, END_HEADERS | END_STREAM, stream.number, trailers))
            if not stream.is_ended:
                self.output.append(reset(stream.number, Http2Code.NO_ERROR))  # the rest of the request is not wanted

    def refuse_new(self) -> None:
        """Streams that begin from now on are for another connection."""
        self._is_refusing = True
        self.output.append(go_away(self._last, Http2Code.NO_ERROR))

    def announce_end(self) -> None:
        """The client is to begin new streams elsewhere; those on their way here are served."""
        self.output.append(go_away(NUMBER_MAX, Http2Code.NO_ERROR))

    def fail(self, fault: ConnectionFault) -> None:
        """Tells the client why the connection ends."""
        self.output.append(go_away(self._last, fault.code, fault.message))

    def ping(self) -> None:
        """Asks whether the client is there."""
        self.output.append(frame(PING, 0, 0, bytes(8)))

    def forgive(self) -> None:
        """Now and then: time has passed, in which some frames may come that carry nothing."""
        self._free_frames_left = FREE_FRAMES_MAX

    def _pump(self) -> None:
        """Sends what waits, a frame of each stream in turn, as far as there is room."""
        while self._ready and self._window > 0:
            self._send_some(self._ready.popitem(last=False)[1])

    def _send_some(self, stream: Http2Stream) -> None:
        room = min(self._frame_max, self._window, self._stream_window + stream.credit)
        if room <= 0:
            self._stalled[stream.number] = stream
            return
        data = stream.unsent.popleft()
        if len(data) > room:
            stream.unsent.appendleft(data[room:])
            data = data[:room]
            if room >= CRUMB_BYTES:
                self._explain_frames()
        else:
            self._explain_frames()
        self.unsent_bytes -= len(data)
        self._send_frame(stream, data)
        if stream.unsent:
            self._ready[stream.number] = stream
        elif stream.trailers:
            self.end(stream, stream.trailers)

    def _send_frame(self, stream: Http2Stream, data: bytes | memoryview) -> None:
        self._window -= len(data)
        stream.credit -= len(data)
        self.output.append(frame(DATA, 0, stream.number, data))


def _unpadded(payload: bytes) -> bytes:
    """Raises ConnectionFault."""
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(_MALFORMED, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
