"""What one client sends to a server without keys, in ZMTP (see zmtp.py): bytes in, messages out. Pure.

A message is one frame, our header, or several, with payload frames behind it. A frame is bounded, and so are the payload frames
of a message together: of a larger payload only the size is kept. Nothing is allocated for a size that is only announced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...model.errors import RemoteProtocolError
from ..options import FRAMES_MAX
from .zmtp import (
    COMMAND,
    COMMAND_BYTES_MAX,
    GREETING_BYTES,
    LONG,
    MORE,
    NotTaken,
    check_greeting,
    command,
    command_name,
    pong_of,
)

Chunk = bytes | bytearray | memoryview

_LONG_HEADER_BYTES: Final = 9
_SMALL_BYTES: Final = 16_384
_COPIED_BYTES: Final = 65_536
_OTHERS: Final = MORE | COMMAND
ANSWERS_BYTES_MAX: Final = 65_536


PeerMessage = tuple[bytes, bytes, bool, Sequence[Chunk], int, bool]
"""(identity, header, whether it has a payload, its chunks, its bytes, whether they are all there): chunks of a payload that had
more bytes than a message may have, or too many frames, are left out. Views among them are valid until the next read."""


class PeerReader:
    """From the client's greeting on. `is_open`: it has said what it is. `answers`: bytes to be sent to it; who sends clears
    it."""

    __slots__ = (
        "_chunks",
        "_frames",
        "_greeted",
        "_header",
        "_identity",
        "_lacking",
        "_max",
        "_more",
        "_needs",
        "_rest",
        "_size_bytes",
        "answers",
        "is_open",
    )

    def __init__(self, identity: bytes, frame_bytes_max: int) -> None:
        """`identity`: of its messages. `frame_bytes_max`: of a frame, and of a message's payload."""
        self._identity = identity
        self._max = frame_bytes_max
        self._rest = bytearray()  # of a frame that has not come whole
        self._needs = 0  # bytes that this frame has at least
        self._header: bytes | None = None  # of a message that has not come whole
        self._chunks: list[Chunk] = []  # of its payload
        self._frames = 0  # that the payload has
        self._size_bytes = 0  # of those, and of the one that has not come whole
        self._lacking = 0  # bytes that the latter lacks
        self._more = False  # another one follows it
        self._greeted = False
        self.is_open = False
        self.answers = b""

    @property
    def lacking(self) -> int:
        """Bytes that a payload frame lacks; 0 if none has begun."""
        return self._lacking

    def take(self, data: Chunk, on_message: Callable[[PeerMessage], object]) -> None:
        """Takes what has come, and gives each message that is whole with it. Raises RemoteProtocolError: the end."""
        view = memoryview(data)
        if self._rest:
            self._rest += view
            if len(self._rest) < self._needs:
                return
            view = memoryview(self._rest)
            self._rest = bytearray()
        at = 0
        if self._lacking:
            at = min(self._lacking, len(view))
            is_part = at < self._lacking
            self._keep_chunk(bytes(data) if is_part else view[:at])
            self._lacking -= at
            if is_part:
                return
            self._end_frame(on_message)
        elif not self._greeted:
            if len(view) < GREETING_BYTES:
                self._keep(view, GREETING_BYTES)
                return
            self._greet(bytes(view[:GREETING_BYTES]))
            at = GREETING_BYTES
        # many small frames are faster to take out of bytes
        at, needs = self._take_frames(bytes(view) if len(view) <= _COPIED_BYTES else view, at, on_message)
        if self._chunks:  # the next read takes their place
            self._chunks = [chunk if isinstance(chunk, bytearray) else bytes(chunk) for chunk in self._chunks]
        if needs:
            self._keep(view[at:], needs)

    def _take_frames(
        self, data: bytes | memoryview, at: int, on_message: Callable[[PeerMessage], object]
    ) -> tuple[int, int]:
        """From `at` on. (Where a frame begins that is not whole, the bytes that it has at least; 0: there is none.)"""
        end, identity = len(data), self._identity
        while at < end:
            if end - at < 2:
                return at, 2
            flags, size, begin = data[at], data[at + 1], at + 2
            if flags & LONG:
                begin = at + _LONG_HEADER_BYTES
                if begin > end:
                    return at, _LONG_HEADER_BYTES
                size = int.from_bytes(data[at + 1 : begin], "big")
            if size > self._max or (flags & COMMAND and size > COMMAND_BYTES_MAX):
                raise RemoteProtocolError(f"a frame of {size} bytes")
            stop = begin + size
            header = self._header
            if header is not None and not flags & _OTHERS and stop <= end and not self._frames:  # as most are
                self._header = None
                on_message((identity, header, True, (data[begin:stop],), size, True))
            elif header is not None and not flags & COMMAND:
                self._begin_frame(data[begin:stop], size, more=bool(flags & MORE))
                if stop > end:
                    return end, 0
                self._end_frame(on_message)
            elif stop > end:
                return at, stop - at
            elif flags & COMMAND:
                self._on_command(bytes(data[begin:stop]))
            elif not self.is_open:
                raise RemoteProtocolError("a message before READY")
            elif flags & MORE:
                self._header = bytes(data[begin:stop])
            else:
                on_message((identity, bytes(data[begin:stop]), False, (), 0, True))
            at = stop
        return at, 0

    def _greet(self, greeting: bytes) -> None:
        try:
            check_greeting(greeting)
        except NotTaken:
            raise RemoteProtocolError("a client with a key, where nobody needs one") from None
        self._greeted = True

    def _keep(self, rest: memoryview, needs: int) -> None:
        """The next frame, which begins with `rest`, has at least so many bytes."""
        self._rest += rest
        self._needs = needs

    # ---- payload frames

    @property
    def _is_whole(self) -> bool:
        return self._size_bytes <= self._max and self._frames <= FRAMES_MAX

    def _begin_frame(self, have: Chunk, size_bytes: int, *, more: bool) -> None:
        self._size_bytes += size_bytes
        self._frames += 1
        self._more = more
        self._lacking = size_bytes - len(have)
        self._keep_chunk(have)

    def _keep_chunk(self, chunk: Chunk) -> None:
        if not self._is_whole:
            self._chunks.clear()
        elif self._lacking and len(chunk) < _SMALL_BYTES:  # a frame that comes in little pieces is kept in one
            if not self._chunks or not isinstance(self._chunks[-1], bytearray):
                self._chunks.append(bytearray())
            self._chunks[-1] += chunk  # type: ignore[operator]  # it is a bytearray
        else:
            self._chunks.append(chunk)

    def _end_frame(self, on_message: Callable[[PeerMessage], object]) -> None:
        if self._more:
            return
        assert self._header is not None
        message = self._identity, self._header, True, self._chunks, self._size_bytes, self._is_whole
        self._header, self._chunks, self._frames, self._size_bytes = None, [], 0, 0
        on_message(message)

    def _on_command(self, body: bytes) -> None:
        name = command_name(body)
        if not self.is_open:
            if name != b"READY":
                raise RemoteProtocolError("a command before READY")
            self.is_open = True
        elif name == b"PING":
            self.answers += command(b"PONG", pong_of(body))
            if len(self.answers) > ANSWERS_BYTES_MAX:
                raise RemoteProtocolError("more pings than answers can leave")
