"""What a server reads of its clients: however it comes cut, the same messages; and what ends a connection."""

from __future__ import annotations

from random import Random

import pytest

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.remoting.direct.peer_reader import PeerMessage, PeerReader
from zenitmq.remoting.direct.zmtp import HELLO, MORE, command, frame_begin, ping
from zenitmq.remoting.options import FRAMES_MAX

FRAME_BYTES_MAX = 200_000
Read = tuple[bytes, bytes, bool, bool, int]
"""Header, payload, whether there is one, whether it is whole, its bytes."""


def sent(header: bytes, *payload: bytes) -> bytes:
    """A message on the wire."""
    frames = (header, *payload)
    flags = [MORE] * len(payload) + [0]
    return b"".join(frame_begin(len(frame), flag) + frame for frame, flag in zip(frames, flags, strict=True))


def expected(header: bytes, *payload: bytes) -> Read:
    whole = sum(map(len, payload)) <= FRAME_BYTES_MAX and len(payload) <= FRAMES_MAX
    return header, b"".join(payload) if whole else b"", bool(payload), whole, sum(map(len, payload))


class Reading:
    """Reads as a server does: into one buffer, which the next read writes over, or a large frame's rest into its own."""

    def __init__(self) -> None:
        self.reader = PeerReader(b"me", FRAME_BYTES_MAX)
        self.read: list[Read] = []
        self._buffer = bytearray(1 << 20)

    def take(self, data: bytes) -> None:
        came: list[PeerMessage] = []
        if self.reader.lacking >= 1 << 16:
            data, rest = data[: self.reader.lacking], data[self.reader.lacking :]
            self.reader.take(data, came.append)
        else:
            rest = b""
            self._buffer[: len(data)] = data
            self.reader.take(memoryview(self._buffer)[: len(data)], came.append)
        for identity, header, has_payload, chunks, size, is_whole in came:
            self.read.append((header, b"".join(map(bytes, chunks)), has_payload, is_whole, size))
            assert identity == b"me"
        self._buffer[: len(data)] = b"\xaa" * len(data)
        if rest:
            self.take(rest)


@pytest.mark.parametrize("seed", range(40))
def test_messages_are_the_same_however_they_come_cut(seed: int) -> None:
    draw = Random(seed)
    messages = [
        (
            draw.randbytes(draw.choice((1, 20, 300))),
            *(
                draw.randbytes(draw.choice((0, 1, 100, 20_000, 70_000, 150_000)))
                for _ in range(draw.choice((0, 0, 1, 1, 1, 2, 5)))
            ),
        )
        for _ in range(30)
    ]
    messages.insert(draw.randrange(30), (b"many", *[b"x"] * (FRAMES_MAX + draw.randrange(2))))
    stream = HELLO
    for message in messages:
        stream += sent(*message)
        if not draw.randrange(3):
            stream += ping(1000)
    reading, at = Reading(), 0
    while at < len(stream):
        size = draw.choice((1, 2, 3, 9, 64, 1000, 16_384, 65_536, 1 << 20)) if seed else 1 << 20
        reading.take(stream[at : at + size])
        at += size
    assert reading.read == [expected(*message) for message in messages]
    assert reading.reader.lacking == 0


def test_each_byte_by_itself() -> None:
    reading = Reading()
    messages = [(b"header",), (b"h", b"payload" * 50), (b"h", b"", b"x")]
    for byte in HELLO + b"".join(sent(*message) for message in messages):
        reading.take(bytes((byte,)))
    assert reading.read == [expected(*message) for message in messages]


def test_pings_are_answered() -> None:
    reading = Reading()
    reading.take(HELLO + command(b"PING", b"\0\x64context"))
    assert reading.reader.answers == command(b"PONG", b"context")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nUser-Agent: something\r\n\r\n",
        HELLO[:10] + b"\x02" + HELLO[11:],
        HELLO[:12] + b"CURVE" + HELLO[17:],
        HELLO[:64] + sent(b"before READY"),
        HELLO[:64] + command(b"PING", b"\0\0"),
        HELLO + frame_begin(FRAME_BYTES_MAX + 1, 0),
        HELLO + frame_begin(70_000, 4),
        HELLO + frame_begin((1 << 63) - 1, MORE),
        HELLO + b"\x07" + b"\xff" * 8,
        HELLO + ping(1000) * 20_000,
    ],
)
def test_what_ends_a_connection(said: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Reading().take(said)


def test_an_announced_size_takes_no_memory() -> None:
    reading = Reading()
    reading.take(HELLO + frame_begin(6, MORE) + b"header" + frame_begin(FRAME_BYTES_MAX, 0) + b"x")
    assert reading.reader.lacking == FRAME_BYTES_MAX - 1
    assert sum(map(len, reading.reader._chunks)) == 1
