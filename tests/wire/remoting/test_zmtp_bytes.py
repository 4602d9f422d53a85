"""ZeroMQ's own bytes: what a client says, and what it reads of a server, whole, byte by byte and together."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.remoting.direct.zmtp import GREETING, HELLO, MORE, FrameReader, NotTaken, command, frame_begin
from zenitmq.remoting.options import FRAMES_MAX

SERVER_GREETING = bytes.fromhex("ff00000000000000017f0301") + b"NULL" + bytes(48)
READY = bytes.fromhex(
    "042905524541445 90b536f636b65742d547970650000000 6524f55544552084964656e74697479 00000000".replace(" ", "")
)
HELLO_HEX = (
    "ff00000000000000007f 0301 4e554c4c" + "00" * 16 + "00" + "00" * 31 + "04 29 05 5245414459"
    " 0b 536f636b65742d54797065 00000006 4445414c4552 08 4964656e74697479 00000000"
)

MESSAGES = [
    (b"\x00\x02ab", (b"ab", b"")),
    (b"\x01\x01a\x00\x03bcd", (b"a", b"bcd")),
    (b"\x01\x01a\x01\x01b\x00\x02cd", (b"a", b"bcd")),
    (b"\x02" + (300).to_bytes(8, "big") + b"x" * 300, (b"x" * 300, b"")),
    (b"\x01\x00\x00\x00", (b"", b"")),
]


def opened(frame_bytes_max: int = 1 << 20) -> FrameReader:
    reader = FrameReader(frame_bytes_max)
    reader.feed(SERVER_GREETING + READY)
    assert reader.next_message() is None
    assert reader.is_open
    return reader


def test_what_a_client_says_first() -> None:
    assert bytes.fromhex(HELLO_HEX.replace(" ", "")) == HELLO
    assert len(GREETING) == 64


def test_the_begin_of_a_frame() -> None:
    assert frame_begin(255, MORE) == b"\x01\xff"
    assert frame_begin(256, 0) == b"\x02" + (256).to_bytes(8, "big")
    assert command(b"PONG", b"c") == b"\x04\x06\x04PONGc"


@pytest.mark.parametrize(("data", "message"), MESSAGES)
def test_messages_whole_in_pieces_and_with_a_tail(data: bytes, message: tuple[bytes, bytes]) -> None:
    whole = opened()
    whole.feed(data + data + data[:1])
    assert [whole.next_message() for _ in range(3)] == [message, message, None]
    slow = FrameReader(1 << 20)
    found = []
    for byte in SERVER_GREETING + READY + data + data:
        slow.feed(bytes((byte,)))
        found.append(slow.next_message())
    assert [each for each in found if each is not None] == [message, message]
    assert found[-1] == message


def test_what_a_frame_lacks_is_told() -> None:
    reader = opened()
    reader.feed(b"\x02" + (1000).to_bytes(8, "big") + b"x" * 10)
    assert reader.next_message() is None
    assert reader.lacking == 990


def test_pings_are_answered_and_other_commands_ignored() -> None:
    reader = opened()
    reader.feed(
        command(b"PING", b"\x00\x64") + command(b"PING", b"\x00\x64ctx") + command(b"OTHER") + b"\x04\x00\x00\x01a"
    )
    assert reader.next_message() == (b"a", b"")
    assert reader.answers == command(b"PONG") + command(b"PONG", b"ctx")


@pytest.mark.parametrize(
    ("data", "is_told"),
    [
        (bytes.fromhex("ff00000000000000017f0301") + b"CURVE" + bytes(47), False),
        (SERVER_GREETING + command(b"ERROR", b"\x03400"), True),
    ],
)
def test_who_does_not_take_us_is_told_apart(data: bytes, is_told: bool) -> None:
    reader = FrameReader(1 << 20)
    reader.feed(data)
    with pytest.raises(NotTaken) as refused:
        reader.next_message()
    assert refused.value.is_told == is_told
    assert not reader.is_open


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n" + bytes(64),
        bytes.fromhex("ff00000000000000017f01") + bytes(53),  # ZMTP 2
        SERVER_GREETING + b"\x00\x01a",  # a message too early
        SERVER_GREETING + command(b"PING", b"\x00\x00"),
        SERVER_GREETING + READY + b"\x02" + (1 << 21).to_bytes(8, "big"),
        SERVER_GREETING + READY + b"\x06" + (1 << 17).to_bytes(8, "big"),  # a command of 128 KiB
        SERVER_GREETING + READY + b"\x01\x00" * (FRAMES_MAX + 2),
        SERVER_GREETING + READY + command(b"PING", b"\x00\x00" + b"c" * 16) * 4000,
    ],
)
def test_wrong_bytes_are_one_error(data: bytes) -> None:
    reader = FrameReader(1 << 20)
    reader.feed(data)
    with pytest.raises(RemoteProtocolError):
        reader.next_message()


def test_nothing_is_kept_of_what_has_been_read() -> None:
    """A connection may rest for long after a large reply."""
    reader, body = opened(), bytes(100_000)
    frame = frame_begin(len(body), 0) + body
    for pieces in ((frame,), (frame[:5], frame[5:60_000], frame[60_000:])):
        for piece in pieces:
            reader.feed(piece)
        assert reader.next_message() == (body, b"")
        assert not reader._data
        assert not reader._parts
