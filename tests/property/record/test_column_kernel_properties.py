"""Whatever records come in, each column holds what the message says, in both forms of the kernel."""

from __future__ import annotations

import importlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_kit import NAMES, Columns, expected_row
from kernels import NAME, interpreted_kernel
from zenitmq.record import codes
from zenitmq.record.compression import compress_lz4
from zenitmq.record.kernel import decode_batch, encode_record

FORMS = [importlib.import_module(NAME), interpreted_kernel()]

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
COUNT = st.integers(0, (1 << 32) - 1)
HOST = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
NAME = st.sampled_from(
    [b"UNIQ_KEY", b"KEYS", b"TAGS", b"__SHARDINGKEY", b"traceparent", b"TIMER_OUT_MS", b"TAGZ", b"", b"a", "ü".encode()]
)
VALUE = st.sampled_from(
    [b"", b"v", b"buy", b"17", b"a\x01b", "é".encode(), "früh😀".encode(), b"\xc3", b"\xed\xa0\x80"]
)
ENTRY = st.builds(lambda name, value: name + b"\x01" + value, NAME, VALUE | st.binary(max_size=6))
PROPERTIES = st.lists(ENTRY | st.binary(max_size=8), max_size=20).map(b"\x02".join) | st.binary(max_size=64)
BODY = st.tuples(st.binary(max_size=64), st.sampled_from([0, 0, 0, 0x301, 0x101]))


@st.composite
def records(draw: st.DrawFn) -> bytes:
    body, packing = draw(BODY)
    if packing:
        body = zlib.compress(body) if packing == 0x301 else compress_lz4(body)
    return encode_record(
        topic=draw(st.sampled_from([b"t", b"trades", b"%RETRY%" + b"g" * 150])),
        body=body,
        properties=draw(PROPERTIES),
        queue_id=draw(st.integers(0, (1 << 31) - 1)),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        queue_offset=draw(st.integers(0, 1 << 61)),
        physical_offset=draw(st.integers(0, (1 << 63) - 1)),
        sys_flag=packing,
        born_timestamp_ms=draw(LONG),
        born_host=draw(HOST),
        store_timestamp_ms=draw(LONG),
        store_host=draw(HOST),
        reconsume_times=draw(COUNT),
    )


@pytest.mark.parametrize("form", FORMS, ids=["installed", "interpreted"])
@given(data=st.lists(records(), max_size=12))
def test_rows_are_what_messages_say(form, data: list[bytes]) -> None:
    batch = decode_batch(b"".join(data), "broker-a")
    columns = Columns(form, rows=16, text_bytes=1 << 15, body_bytes=1 << 12, entries=1 << 10)
    assert columns.fill(batch) == (len(batch), codes.ALL_TAKEN)
    assert columns.rows() == [expected_row(message) for message in batch]


@pytest.mark.parametrize("form", FORMS, ids=["installed", "interpreted"])
@given(
    data=st.lists(records(), min_size=1, max_size=12),
    names=st.sets(st.sampled_from(NAMES), min_size=1),
    rows=st.integers(1, 5),
    text_bytes=st.integers(1600, 3000),
    entries=st.integers(80, 120),
)
def test_batches_of_any_size_together_hold_every_row(
    form, data, names, rows: int, text_bytes: int, entries: int
) -> None:
    """However soon a batch is full, the next goes on with the message that found no room."""
    wanted = tuple(sorted(names))
    batch = decode_batch(b"".join(data), "broker-a")
    found: list[dict] = []
    index, status = 0, codes.NO_ROOM
    while status == codes.NO_ROOM:
        columns = Columns(form, wanted, rows=rows, text_bytes=text_bytes, body_bytes=256, entries=entries)
        index, status = columns.fill(batch, index)
        assert columns.filler.rows or index == len(batch)
        found += columns.rows()
    assert found == [expected_row(message, wanted) for message in batch]
