"""Trace records byte for byte, as RocketMQ 5 writes and reads them; older and shorter forms; wrong bytes."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.tracing.trace_format import (
    ConsumeCode,
    Consumed,
    Delivered,
    Published,
    Recalled,
    TracedType,
    TraceRecord,
    TransactionEnded,
    decode_trace,
    encode_trace,
)
from zenitmq.model.errors import TraceDamaged

ID = "7F0000010BB818B4AAC27A4E1B2C0001"
OFFSET_ID = "7F00000100002A9F000000000000010D"

TABLE: list[tuple[TraceRecord, bytes]] = [
    (
        Published(
            at_ms=1_700_000_000_123,
            region="DefaultRegion",
            group="orders",
            topic="trades",
            message_id=ID,
            tags="buy",
            keys="o-17 o-18",
            store_host="127.0.0.1:10911",
            body_bytes=11,
            cost_ms=3,
            message_type=TracedType.NORMAL,
            offset_message_id=OFFSET_ID,
            is_ok=True,
        ),
        b"Pub\x011700000000123\x01DefaultRegion\x01orders\x01trades\x01" + ID.encode() + b"\x01buy\x01o-17 o-18\x01"
        b"127.0.0.1:10911\x0111\x013\x010\x01" + OFFSET_ID.encode() + b"\x01true\x02",
    ),
    (
        Published(
            at_ms=1,
            region="r",
            group="g",
            topic="t",
            message_id="i",
            tags="",
            keys="",
            store_host="h:1",
            body_bytes=0,
            cost_ms=0,
            message_type=TracedType.DELAY,
            offset_message_id="",
            is_ok=False,
            client_host="10.0.0.7",
        ),
        b"Pub\x011\x01r\x01g\x01t\x01i\x01null\x01null\x01h:1\x010\x010\x013\x01null\x01false\x0110.0.0.7\x02",
    ),
    (
        Delivered(
            at_ms=5, region="r", group="billing", request_id="Q1", message_id=ID, retry_times=2, keys="o-17"
        ),
        b"SubBefore\x015\x01r\x01billing\x01Q1\x01" + ID.encode() + b"\x012\x01o-17\x02",
    ),
    (
        Delivered(at_ms=5, region="r", group="billing", request_id="Q1", message_id="i", retry_times=0, keys=""),
        b"SubBefore\x015\x01r\x01billing\x01Q1\x01i\x010\x01null\x02",
    ),
    (
        Consumed(
            request_id="Q1",
            message_id=ID,
            cost_ms=17,
            is_ok=False,
            keys="",
            code=ConsumeCode.EXCEPTION,
            at_ms=22,
            group="billing",
        ),
        b"SubAfter\x01Q1\x01" + ID.encode() + b"\x0117\x01false\x01null\x012\x0122\x01billing\x02",
    ),
    (
        TransactionEnded(
            at_ms=9,
            region="r",
            group="orders",
            topic="trades",
            message_id=ID,
            tags="buy",
            keys="",
            store_host="127.0.0.1:10911",
            message_type=TracedType.TRANSACTION_COMMIT,
            transaction_id=ID,
            state="COMMIT_MESSAGE",
            from_check=True,
        ),
        b"EndTransaction\x019\x01r\x01orders\x01trades\x01" + ID.encode() + b"\x01buy\x01null\x01127.0.0.1:10911\x012\x01"
        + ID.encode() + b"\x01COMMIT_MESSAGE\x01true\x02",
    ),
    (
        Recalled(at_ms=4, region="r", group="orders", topic="trades", message_id=ID, is_ok=True),
        b"Recall\x014\x01r\x01orders\x01trades\x01" + ID.encode() + b"\x01true\x02",
    ),
]  # fmt: skip
EVERYTHING = b"".join(encoded for _, encoded in TABLE)


@pytest.mark.parametrize(("record", "encoded"), TABLE)
def test_a_record_is_these_bytes(record: TraceRecord, encoded: bytes) -> None:
    assert encode_trace((record,)) == encoded
    assert decode_trace(encoded) == [record]


def test_records_follow_one_another() -> None:
    assert decode_trace(EVERYTHING) == [record for record, _ in TABLE]
    assert encode_trace(record for record, _ in TABLE) == EVERYTHING
    assert decode_trace(EVERYTHING[:-1]) == [record for record, _ in TABLE]  # the last separator may be missing
    assert decode_trace(b"") == []


def test_older_clients_wrote_less() -> None:
    (old,) = decode_trace(b"Pub\x011\x01r\x01g\x01t\x01i\x01a\x01b\x01h\x012\x013\x010\x01true\x02")
    assert isinstance(old, Published)
    assert (old.offset_message_id, old.is_ok, old.cost_ms) == ("", True, 3)
    (bare,) = decode_trace(b"SubAfter\x01Q\x01i\x017\x01true\x01k\x02")
    assert bare == Consumed(request_id="Q", message_id="i", cost_ms=7, is_ok=True, keys="k")
    (coded,) = decode_trace(b"SubAfter\x01Q\x01i\x017\x01false\x01k\x014\x02")
    assert coded == dataclasses.replace(bare, is_ok=False, code=ConsumeCode.FAILED)


@pytest.mark.parametrize(
    "wrong",
    [
        b"\xff\xfe",
        b"Pub",
        b"Pub\x02Pub",
        b"Nothing\x011\x02",
        b"Recall\x01four\x01r\x01g\x01t\x01i\x01true\x02",
        b"Recall\x0199999999999999999999\x01r\x01g\x01t\x01i\x01true\x02",
        b"Recall\x019999999999999999999\x01r\x01g\x01t\x01i\x01true\x02",
        "Recall\x01\uff11\x01r\x01g\x01t\x01i\x01true\x02".encode(),
        b"Recall\x014\x01r\x01g\x01t\x01i\x01yes\x02",
        b"Recall\x014\x01r\x01g\x01t\x01i\x01true\x01more\x02",
        b"Recall\x014\x01r\x01g\x01t\x01i\x02",
        b"SubAfter\x01Q\x01i\x017\x01true\x01k\x0199\x02",
        b"\x02\x02",
    ],
)
def test_wrong_bytes_are_told_as_such(wrong: bytes) -> None:
    with pytest.raises(TraceDamaged):
        decode_trace(wrong)


@pytest.mark.parametrize("separator", ["\x01", "\x02"])
def test_a_text_with_a_separator_cannot_be_written(separator: str) -> None:
    with pytest.raises(TraceDamaged, match="topic"):
        encode_trace([Recalled(1, "r", "g", f"a{separator}b", "i", True)])


TEXTS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), max_size=8).filter(
    lambda text: text != "null"
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
BY_TYPE = {
    "int": NUMBERS,
    "str": TEXTS,
    "bool": st.booleans(),
    "TracedType": st.sampled_from(TracedType),
    "ConsumeCode": st.sampled_from(ConsumeCode),
}


def records() -> st.SearchStrategy[TraceRecord]:
    kinds = [
        st.builds(cls, **{field.name: BY_TYPE[str(field.type)] for field in dataclasses.fields(cls)})
        for cls in (Published, Delivered, Consumed, TransactionEnded, Recalled)
    ]
    return st.one_of(*kinds)


@given(st.lists(records(), max_size=5))
def test_what_is_written_is_read_back(written: list[TraceRecord]) -> None:
    assert decode_trace(encode_trace(written)) == written


@given(st.integers(0, len(EVERYTHING) * 8 - 1))
def test_a_flipped_bit_is_another_trace_or_a_damaged_one(bit: int) -> None:
    flipped = bytearray(EVERYTHING)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        decoded = decode_trace(bytes(flipped))
    except TraceDamaged:
        return
    assert decoded != [record for record, _ in TABLE]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_damaged(body: bytes) -> None:
    with contextlib.suppress(TraceDamaged):
        decode_trace(body)
