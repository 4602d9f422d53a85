"""Headers: as HPACK's own library packs them, cut anywhere, and what a request has to say."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.proxy.http2.frames import ConnectionFault, Http2Code
from zenitmq.proxy.http2.headers import HEADERS_BYTES_MAX, HeaderDecoder, encode_headers, request_fields

NAMES = st.sampled_from(["x-mq-client-id", "authorization", ":path", "te", "é", "x" * 200])
VALUES = st.sampled_from(["", "trailers", "a" * 150, "ünïcode"]) | st.text(st.characters(codec="utf-8"), max_size=40)
LISTS = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=8), min_size=1, max_size=12)
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/a/b"), (":authority", "x"), ("te", "trailers")]


@given(LISTS, st.booleans(), st.lists(st.sampled_from([0, 64, 200, 4096]), max_size=3))
def test_what_the_library_packs_is_read_as_the_library_reads_it(
    lists: list[list[tuple[str, str]]], is_packed: bool, sizes: list[int]
) -> None:
    """With what it learns, forgets, and is told to forget."""
    encoder, ours, theirs = hpack.Encoder(), HeaderDecoder(), hpack.Decoder()
    for number, headers in enumerate(lists):
        if number < len(sizes):
            encoder.header_table_size = sizes[number]
        block = encoder.encode(headers, huffman=is_packed)
        assert ours.decode(block) == headers == [tuple(one) for one in theirs.decode(block)]


@given(LISTS, st.data())
def test_what_is_cut_or_changed_is_refused_or_read_as_the_library_reads_it(
    lists: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    encoder, ours, theirs = hpack.Encoder(), HeaderDecoder(), hpack.Decoder()
    for headers in lists:
        block = bytearray(encoder.encode(headers))
        if block and data.draw(st.booleans()):
            block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
        try:
            expected = [tuple(one) for one in theirs.decode(bytes(block))]
        except hpack.HPACKError:
            with pytest.raises(ConnectionFault):
                ours.decode(bytes(block))
            return
        assert ours.decode(bytes(block)) == expected


def code_of(block: bytes) -> Http2Code:
    with pytest.raises(ConnectionFault) as refused:
        HeaderDecoder().decode(block)
    return refused.value.code


def test_what_cannot_be_unpacked_ends_the_connection() -> None:
    for block in (b"\x80", b"\xbe", b"\x40", b"\x40\x05ab", b"\xff\xff\xff\xff\xff\xff", b"\x3f\xff\x7f", b"\x83\x20"):
        assert code_of(block) is Http2Code.COMPRESSION_ERROR
    assert code_of(b"\x00\x01a\x02\xff\xfe") is Http2Code.COMPRESSION_ERROR  # no UTF-8
    assert code_of(b"\x00\x01a\x82\xff\xff") is Http2Code.COMPRESSION_ERROR  # no code of Huffman's


def test_few_bytes_do_not_become_many() -> None:
    """A text that is learned, then told of by one byte each."""
    bomb = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4_000 + b"\xbe" * (HEADERS_BYTES_MAX // 4_000)
    assert code_of(bomb) is Http2Code.ENHANCE_YOUR_CALM


@given(st.lists(st.tuples(st.sampled_from(["grpc-status", "grpc-message"]), st.text(max_size=600)), max_size=4))
def test_answers_are_read_by_the_library(headers: list[tuple[str, str]]) -> None:
    clean = [(name, value.encode(errors="replace").decode()) for name, value in headers]
    assert [tuple(one) for one in hpack.Decoder().decode(encode_headers(clean))] == clean


def test_a_request_says_what_it_has_to_and_nothing_of_http_1() -> None:
    assert request_fields(REQUEST) == dict(REQUEST)
    assert request_fields([*REQUEST, ("x", "1"), ("x", "2")]) == {**dict(REQUEST), "x": "2"}
    for wrong in (
        REQUEST[1:],
        [*REQUEST, (":path", "/c")],
        [*REQUEST, (":status", "200")],
        [REQUEST[-1], *REQUEST[:-1]],
        [*REQUEST, ("X-Upper", "1")],
        [*REQUEST, ("connection", "close")],
        [*REQUEST, ("x-mq-client-id", "a\nWARNING b")],
        [*REQUEST, ("x", "a\r")],
        [*REQUEST, ("x", "\0")],
        [*REQUEST[:4], ("te", "gzip")],
        [(":method", "POST"), (":scheme", "http"), (":path", "")],
        [],
    ):
        assert request_fields(wrong) is None, wrong
