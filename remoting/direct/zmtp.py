"""ZMTP 3.1, ZeroMQ's protocol, as far as clients and servers without keys need it to speak it themselves. Pure.

    greeting (64 bytes)   ff 00*8 7f | 3 1 | "NULL" padded to 20 | 0 | 00*31          each side sends one
    frame                 flags | size, 1 byte | body      flags: 1 = more frames follow, 2 = the size has 8 bytes, 4 = command
    command               a frame whose body is: length of its name | name | data

After the greetings each side sends the command READY with the type of its socket; a server that takes nobody answers ERROR
instead. Then messages follow, and the commands PING (time to live | context) and PONG (context). A message is one frame or
several; ours has a header and perhaps a payload. Here is what both sides share, and what a client reads (a server:
peer_reader.py). What a server sends is bounded: the size of a frame, of a command, and how many frames a message has. Nothing
is allocated for a size that is only announced.
"""

from __future__ import annotations

from typing import Final

from ...model.errors import RemoteProtocolError
from ..options import FRAMES_MAX

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4

GREETING_BYTES: Final = 64
COMMAND_BYTES_MAX: Final = 65_536
_SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
_SIGNATURE_ENDS: Final = (0, 9)  # what is between them is of no meaning
_MECHANISM: Final = slice(12, 32)
_NULL: Final = b"NULL".ljust(20, b"\0")
_MAJOR_AT: Final = 10
_MAJOR: Final = 3
_SHORT_MAX: Final = 255
_LONG_HEADER_BYTES: Final = 9
_PING_DATA_AT: Final = 7  # behind the name and the time to live
_CONTEXT_BYTES_MAX: Final = 16
_NEVER: Final = 1 << 62  # more bytes than will come


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def command(name: bytes, data: bytes = b"") -> bytes:
    """The frame of a command."""
    return frame_begin(1 + len(name) + len(data), COMMAND) + bytes((len(name),)) + name + data


def frame_begin(size_bytes: int, flags: int) -> bytes:
    """What stands before a body of this size."""
    if size_bytes <= _SHORT_MAX:
        return bytes((flags, size_bytes))
    return bytes((flags | LONG,)) + size_bytes.to_bytes(8, "big")


GREETING: Final = _SIGNATURE + bytes((_MAJOR, 1)) + _NULL + bytes(32)
HELLO: Final = GREETING + command(b"READY", _property(b"Socket-Type", b"DEALER") + _property(b"Identity", b""))
"""All that a client says before its first message, without waiting for the server's part; messages wait for its READY."""

SERVER_HELLO: Final = GREETING + command(b"READY", _property(b"Socket-Type", b"ROUTER") + _property(b"Identity", b""))
"""The server's part."""


def ping(time_to_live_ms: int) -> bytes:
    """A look whether the other side is there, which may end the connection if it hears nothing for so long."""
    return command(b"PING", (time_to_live_ms // 100).to_bytes(2, "big"))


def check_greeting(greeting: bytes) -> None:
    """Raises RemoteProtocolError; NotTaken where the other side wants another mechanism."""
    if any(greeting[at] != _SIGNATURE[at] for at in _SIGNATURE_ENDS) or greeting[_MAJOR_AT] < _MAJOR:
        raise RemoteProtocolError("a greeting that is not of ZMTP 3")
    if greeting[_MECHANISM] != _NULL:
        raise NotTaken(is_told=False)


def command_name(body: bytes) -> bytes:
    """Of a command."""
    return body[1 : 1 + body[0]] if body else b""


def pong_of(ping_body: bytes) -> bytes:
    """The data of the answer to a ping."""
    return ping_body[_PING_DATA_AT : _PING_DATA_AT + _CONTEXT_BYTES_MAX]


class NotTaken(Exception):
    """The server does not take us. `is_told`: it said so itself; else it speaks with those only who have a key."""

    def __init__(self, *, is_told: bool) -> None:
        super().__init__(is_told)
        self.is_told = is_told


class FrameReader:
    """What a server sends, from its greeting on: bytes in, messages out. One thread.

    `is_open`: the server has taken us. `answers`: bytes to be sent to it, answers to its pings; whoever sends clears it.
    """

    __slots__ = ("_at", "_data", "_frames", "_greeted", "_lacking", "_max", "_parts", "answers", "is_open")

    def __init__(self, frame_bytes_max: int) -> None:
        self._max = frame_bytes_max
        self._data = b""  # not parsed from `_at` on
        self._at = 0
        self._parts: list[bytes] = []  # of a frame that has not come whole
        self._lacking = 0  # bytes that it lacks at least
        self._frames: list[bytes] = []  # of the present message
        self._greeted = False
        self.is_open = False
        self.answers = b""

    @property
    def lacking(self) -> int:
        """Bytes that the next frame lacks at least; 0 if that is not known."""
        return self._lacking

    def feed(self, data: bytes) -> None:
        """Takes what has come. Nothing is parsed before `next_message`."""
        if self._lacking > len(data):
            self._parts.append(data)
            self._lacking -= len(data)
        elif self._parts:
            self._parts.append(data)
            self._data, self._at = b"".join(self._parts), 0
            self._parts.clear()
            self._lacking = 0
        elif self._at == len(self._data):
            self._data, self._at = data, 0
        else:
            self._data, self._at = self._data[self._at :] + data, 0

    def next_message(self) -> tuple[bytes, bytes] | None:
        """(header, payload; several frames joined), or None until more has come. Answers pings on the way.

        Raises RemoteProtocolError; NotTaken, before `is_open`. After either, `stop`.
        """
        while not self._lacking:
            if not self._greeted:
                self._take_greeting()
                continue
            data, at = self._data, self._at
            have = len(data) - at
            if have < 2:
                if have:
                    self._wait_for(2)
                return None
            flags, size, begin = data[at], data[at + 1], at + 2
            if flags & LONG:
                if have < _LONG_HEADER_BYTES:
                    self._wait_for(_LONG_HEADER_BYTES)
                    return None
                begin = at + _LONG_HEADER_BYTES
                size = int.from_bytes(data[at + 1 : begin], "big")
            if size > self._max or (flags & COMMAND and size > COMMAND_BYTES_MAX):
                raise RemoteProtocolError(f"a frame of {size} bytes")
            end = begin + size
            if end > len(data):
                self._wait_for(end - at)
                return None
            body = data[begin:end]
            if end == len(data):
                self._data, self._at = b"", 0  # a connection that rests keeps nothing of a large reply
            else:
                self._at = end
            if flags & COMMAND:
                self._on_command(body)
            elif not self.is_open:
                raise RemoteProtocolError("a message before READY")
            elif flags & MORE or self._frames:
                message = self._with_frame(body, more=bool(flags & MORE))
                if message is not None:
                    return message
            else:
                return body, b""
        return None

    def stop(self) -> None:
        """Parses nothing more: what is left may be the same wrong bytes."""
        self._lacking = _NEVER
        self._data, self._at = b"", 0

    def _wait_for(self, size_bytes: int) -> None:
        """The next frame has at least this many bytes."""
        rest = self._data[self._at :]
        self._data, self._at = b"", 0
        self._lacking = size_bytes - len(rest)
        self._parts = [rest]

    def _with_frame(self, body: bytes, *, more: bool) -> tuple[bytes, bytes] | None:
        """A frame of a message of several; the message if it is the last one."""
        frames = self._frames
        frames.append(body)
        if len(frames) > FRAMES_MAX + 1:
            raise RemoteProtocolError(f"a reply of more than {FRAMES_MAX} frames")
        if more:
            return None
        self._frames = []
        return frames[0], frames[1] if len(frames) == 2 else b"".join(frames[1:])

    def _take_greeting(self) -> None:
        if len(self._data) - self._at < GREETING_BYTES:
            self._wait_for(GREETING_BYTES)
        else:
            check_greeting(self._data[self._at : self._at + GREETING_BYTES])
            self._greeted = True
            self._at += GREETING_BYTES

    def _on_command(self, body: bytes) -> None:
        name = command_name(body)
        if not self.is_open:
            if name == b"ERROR":
                raise NotTaken(is_told=True)
            if name != b"READY":
                raise RemoteProtocolError("a command before READY")
            self.is_open = True
        elif name == b"PING":
            self.answers += command(b"PONG", pong_of(body))
            if len(self.answers) > COMMAND_BYTES_MAX:
                raise RemoteProtocolError("more pings than answers can leave")
