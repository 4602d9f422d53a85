"""Messages as text: the JSON object, --format, and bodies that are no text."""

from __future__ import annotations

import pytest

from zenitmq.cli.message_text import compile_format, message_document, record_document
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import StoredMessage, decode_record, encode_record

PROPERTIES = {"UNIQ_KEY": "7F0000010001", "KEYS": "o-17 acme", "TAGS": "buy", "region": "eu"}


def message(body: bytes) -> StoredMessage:
    record = encode_record(
        topic=b"trades",
        body=body,
        properties=encode_properties(PROPERTIES),
        queue_id=3,
        queue_offset=41,
        physical_offset=4096,
        flag=7,
        born_timestamp_ms=1_700_000_000_000,
        store_timestamp_ms=1_700_000_000_123,
        reconsume_times=2,
    )
    return decode_record(record, "broker-a")


def test_the_json_object_has_the_promised_fields() -> None:
    assert message_document(message("sold ✓".encode())) == {
        "topic": "trades",
        "queue_id": 3,
        "broker_name": "broker-a",
        "queue_offset": 41,
        "message_id": "7F0000010001",
        "offset_message_id": "00000000000000000000000000001000",
        "tags": "buy",
        "keys": ["o-17", "acme"],
        "properties": PROPERTIES,
        "body": "sold ✓",
        "born_at_ms": 1_700_000_000_000,
        "stored_at_ms": 1_700_000_000_123,
        "reconsume_times": 2,
    }


def test_a_record_tells_where_it_lies_too() -> None:
    stored = message(b"x")
    extra = {"physical_offset": 4096, "size_bytes": stored.size_bytes, "sys_flag": 0, "flag": 7}
    assert record_document(stored) == message_document(stored) | extra


def test_a_body_that_is_no_text_goes_out_in_base64() -> None:
    document = message_document(message(b"\xff\x00"))
    assert document["body_base64"] == "/wA="
    assert "body" not in document


def test_a_damaged_body_is_shown_as_it_is_stored_and_named() -> None:
    record = bytearray(encode_record(topic=b"trades", body=b"money"))
    at = record.index(b"money")
    record[at : at + 5] = b"honey"
    document = message_document(decode_record(bytes(record)))
    assert document["body_base64"] == "aG9uZXk="
    assert "damaged" in document


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{body}", b"\xff\x00\n"),
        ("{queue_id}:{queue_offset} {body}", b"3:41 \xff\x00\n"),
        ("{keys}\\t{tags}\\t{message_id}", b"o-17 acme\tbuy\t7F0000010001\n"),
        ("{{{topic}}}", b"{trades}\n"),
        ("{stored_at}", b"2023-11-14T22:13:20.123+00:00\n"),
        ("", b"\n"),
    ],
)
def test_a_format_prints_what_it_names(text: str, line: bytes) -> None:
    assert compile_format(text)(message(b"\xff\x00")) == line


@pytest.mark.parametrize("text", ["{nonsense}", "{}", "{body", "{queue_id:>5}", "{topic!r}", "{keys[0]}"])
def test_a_format_that_names_nothing_known_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="--format"):
        compile_format(text)
