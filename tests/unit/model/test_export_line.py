"""Lines of an export: any message comes back as it was, and anything else is refused with a reason."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.export_line import (
    ExportedMessage,
    decode_head,
    decode_line,
    encode_end,
    encode_head,
    encode_message,
    host_bytes,
    host_text,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
MESSAGES = st.builds(
    ExportedMessage,
    topic=st.text(st.characters(codec="utf-8")),
    queue_id=INT64,
    queue_offset=INT64,
    physical_offset=INT64,
    message_id=st.text(st.characters(codec="utf-8")),
    properties=st.one_of(
        st.binary(max_size=60),
        st.dictionaries(st.text("ab\x7fé", min_size=1), st.text("xy \n\u2028", min_size=1), max_size=3).map(
            lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
        ),
    ),
    body=st.one_of(st.binary(max_size=60), st.text(st.characters(codec="utf-8")).map(str.encode)),
    flag=INT64,
    sys_flag=INT64,
    born_at_ms=INT64,
    born_host=HOSTS,
    stored_at_ms=INT64,
    store_host=HOSTS,
    reconsume_times=INT64,
    prepared_transaction_offset=INT64,
)
PLAIN = ExportedMessage(
    topic="orders",
    queue_id=3,
    queue_offset=7,
    physical_offset=4096,
    message_id="0A",
    properties=b"TAGS\x01buy\x02KEYS\x01a b\x02region\x01eu\x02",
    body=b'{"price": 1}',
    flag=5,
    sys_flag=0,
    born_at_ms=1_700_000_000_000,
    born_host=bytes([127, 0, 0, 1]) + (4711).to_bytes(4, "big"),
    stored_at_ms=1_700_000_000_005,
    store_host=bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big"),
    reconsume_times=0,
    prepared_transaction_offset=0,
)
LINE = (
    b'{"topic":"orders","queue_id":3,"queue_offset":7,"physical_offset":4096,"message_id":"0A","tags":"buy",'
    b'"keys":["a","b"],"properties":{"TAGS":"buy","KEYS":"a b","region":"eu"},"body":"{\\"price\\": 1}","flag":5,'
    b'"sys_flag":0,"born_at_ms":1700000000000,"stored_at_ms":1700000000005,"reconsume_times":0,'
    b'"prepared_transaction_offset":0,"born_host":"127.0.0.1:4711","store_host":"127.0.0.1:10911"}\n'
)


def test_the_line_of_a_message() -> None:
    assert encode_message(PLAIN) == LINE
    assert decode_line(LINE) == PLAIN


@given(MESSAGES)
def test_any_message_comes_back(message: ExportedMessage) -> None:
    line = encode_message(message)
    assert line.count(b"\n") == 1
    assert decode_line(line) == message


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.integers())))
def test_the_head_comes_back(topics) -> None:
    assert decode_head(encode_head(topics)) == topics


def test_a_line_that_was_cut_anywhere_is_refused() -> None:
    for line in (LINE, encode_end({"messages": 1})):
        for size in range(len(line)):
            with pytest.raises(ValueError):
                decode_line(line[:size])


@given(st.binary(max_size=50), st.integers(0, len(LINE) - 1))
def test_wrong_bytes_are_refused_or_are_a_message(data: bytes, at: int) -> None:
    with suppress(ValueError):
        decode_line(LINE[:at] + data + LINE[at + len(data) :])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"queue_id": "3"}, "queue_id"),
        ({"queue_id": True}, "queue_id"),
        ({"queue_offset": 1 << 63}, "queue_offset"),
        ({"topic": None}, "topic"),
        ({"body": 1}, "body"),
        ({"body": "\ud800"}, "half a character"),
        ({"body_base64": "?"}, "body_base64"),
        ({"properties": {"a": 1}}, "properties"),
        ({"properties": {"a\x01": "b"}}, "properties"),
        ({"properties": {"a": "\ud800"}}, "properties"),
        ({"properties": {"a": "b" * 40_000}}, "properties"),
        ({"properties_base64": 1}, "properties_base64"),
        ({"born_host": "127.0.0.1"}, "no address"),
        ({"born_host": "nobody:1"}, "no address"),
        ({"born_host": "127.0.0.1:99999999999"}, "no address"),
        ({"end": 1}, "end"),
    ],
)
def test_a_wrong_field_is_named(change: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_line(json.dumps(json.loads(LINE) | change).encode() + b"\n")


@pytest.mark.parametrize("line", [b"", b"[]\n", b"{}\n", b'{"zenit_export":2,"topics":{}}\n', b'{"zenit_export":1}\n'])
def test_another_head_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode_head(line)


def test_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(ValueError, match="no JSON"):
        decode_line(b"[" * 200_000 + b"\n")


@given(HOSTS)
def test_addresses_come_back(host: bytes) -> None:
    assert host_bytes(host_text(host)) == host


def test_a_body_of_control_characters_is_not_written_six_times_as_long() -> None:
    line = encode_message(
        ExportedMessage(**{name: getattr(PLAIN, name) for name in PLAIN.__slots__} | {"body": bytes(999)})
    )
    assert len(line) < 2000
