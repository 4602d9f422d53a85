"""The frames of a gRPC client that asks the same over and over: as RFC 9113 and RFC 7541 have them, whole and in parts."""

from __future__ import annotations

import pytest

from zenitmq.bench.proxy.http2_frames import CallHeaders, call_frames, messages_of, preface, read_frames
from zenitmq.model.errors import RemoteProtocolError
from zenitmq.proxy.http2.frames import DATA, END_STREAM, HEADERS, frame


def test_headers_are_texts_at_first_and_numbers_then() -> None:
    headers = CallHeaders([("te", "trailers"), ("a", "b")])
    begin = b"\x83\x86\x04\x02/x"
    assert headers.block("/x") == begin + b"\x40\x02te\x08trailers" + b"\x40\x01a\x01b"
    assert headers.block("/x") == begin + b"\xbf\xbe"  # 63 is the older one


def test_a_call_is_two_frames() -> None:
    encoded = call_frames(3, b"\x83", b"hi")
    assert encoded == b"\0\0\x01\x01\x04\0\0\0\x03\x83" + b"\0\0\x07\0\x01\0\0\0\x03" + b"\0\0\0\0\x02hi"
    assert preface().startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x0c\x04\0\0\0\0\0")


def test_frames_come_whole_whatever_the_pieces() -> None:
    data = frame(HEADERS, 4, 1, b"h") + frame(DATA, END_STREAM, 1, b"body")
    found, buffer = [], bytearray()
    for at in range(len(data)):
        buffer += data[at : at + 1]
        found += read_frames(buffer)
    assert found == [(HEADERS, 4, 1, b"h"), (DATA, END_STREAM, 1, b"body")]
    assert not buffer


def test_messages_of_an_answer() -> None:
    one, two = b"\0\0\0\0\x01a", b"\0\0\0\0\0"
    assert list(messages_of(one + two)) == [b"a", b""]
    for bad in (one[:3], one[:5], b"\x01" + one[1:]):
        with pytest.raises(RemoteProtocolError):
            list(messages_of(bad))
