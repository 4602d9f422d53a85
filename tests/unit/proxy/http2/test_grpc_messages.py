"""Messages, whole and in pieces, packed and not; deadlines; what a call came to."""

from __future__ import annotations

import gzip
import zlib
from urllib.parse import unquote

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.proxy.http2 import grpc_messages
from zenitmq.proxy.http2.grpc_messages import (
    MESSAGE_BYTES_MAX,
    PREFIX,
    GrpcRefused,
    GrpcStatus,
    MessageReader,
    encode_message,
    only_trailers,
    timeout_s,
    trailers,
)


def taken(reader: MessageReader) -> list[bytes]:
    found = []
    while (message := reader.take()) is not None:
        found.append(message)
    return found


def status_of(call: object) -> GrpcStatus:
    with pytest.raises(GrpcRefused) as refused:
        call()  # type: ignore[operator]
    return refused.value.status


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(1, 20), max_size=30))
def test_messages_come_whole_whatever_the_pieces(messages: list[bytes], sizes: list[int]) -> None:
    data = b"".join(map(encode_message, messages))
    reader, found = MessageReader(""), []
    for size in [*sizes, len(data)]:
        reader.add(data[:size])
        assert reader.has_message == (reader.held_bytes >= 5 and reader.held_bytes >= 5 + len(messages[len(found)]))
        found += taken(reader)
        data = data[size:]
    assert found == messages
    assert not reader.held_bytes


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_packed_messages_are_unpacked(encoding: str, pack: object) -> None:
    packed = pack(b"hello" * 99)  # type: ignore[operator]
    reader = MessageReader(encoding)
    reader.add(PREFIX.pack(1, len(packed)) + packed + encode_message(b"plain"))
    assert taken(reader) == [b"hello" * 99, b"plain"]
    for wrong in (packed[:-3], packed + b"more", b"rubbish"):
        reader = MessageReader(encoding)
        reader.add(PREFIX.pack(1, len(wrong)) + wrong)
        assert status_of(reader.take) is GrpcStatus.INTERNAL


def test_what_is_too_large_or_packed_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of(lambda: MessageReader("snappy")) is GrpcStatus.UNIMPLEMENTED
    reader = MessageReader("identity")
    reader.add(PREFIX.pack(1, 2) + b"hi")
    assert status_of(reader.take) is GrpcStatus.INTERNAL
    assert (
        status_of(lambda: MessageReader("").add(PREFIX.pack(0, MESSAGE_BYTES_MAX + 1))) is GrpcStatus.RESOURCE_EXHAUSTED
    )
    reader = MessageReader("")
    reader.add(encode_message(b"a") + PREFIX.pack(0, MESSAGE_BYTES_MAX + 1) + b"x")
    assert reader.take() == b"a"
    few = gzip.compress(bytes(2 * grpc_messages.UNPACKED_FREE_BYTES))
    reader = MessageReader("gzip")
    reader.add(PREFIX.pack(1, len(few)) + few)
    assert status_of(reader.take) is GrpcStatus.RESOURCE_EXHAUSTED
    monkeypatch.setattr(grpc_messages, "MESSAGE_BYTES_MAX", 1_000)
    bomb = gzip.compress(bytes(1_001))
    reader = MessageReader("gzip")
    reader.add(PREFIX.pack(1, len(bomb)) + bomb)
    assert status_of(reader.take) is GrpcStatus.RESOURCE_EXHAUSTED


def test_deadlines() -> None:
    assert timeout_s("") is None
    assert (timeout_s("2999m"), timeout_s("60S"), timeout_s("1H")) == (pytest.approx(2.999), 60.0, 3600.0)
    for wrong in ("5", "S", "123456789S", "1x", "-1S", "٣S", "1.5S"):
        assert status_of(lambda wrong=wrong: timeout_s(wrong)) is GrpcStatus.INVALID_ARGUMENT


def test_what_a_call_came_to_is_told_in_plain_characters() -> None:
    told = dict(hpack.Decoder().decode(trailers(GrpcStatus.UNAVAILABLE, "50 % of\n“it”")))
    assert told["grpc-status"] == "14"
    assert told["grpc-message"].isascii()
    assert unquote(told["grpc-message"]) == "50 % of\n“it”"
    unknown = dict(hpack.Decoder().decode(only_trailers(GrpcStatus.UNIMPLEMENTED, "no")))
    assert (unknown[":status"], unknown["grpc-accept-encoding"]) == ("200", "identity,gzip,deflate")
    assert dict(hpack.Decoder().decode(trailers(GrpcStatus.OK))) == {"grpc-status": "0"}
