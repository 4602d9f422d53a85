"""The column kernel's cases, through both of its forms."""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

import pytest

from column_kit import NAMES, Columns, expected_row
from zenitmq.model.errors import CorruptRecordError
from zenitmq.model.properties import encode_properties
from zenitmq.record import codes
from zenitmq.record.kernel import MessageBatch, decode_batch, encode_record

V6 = bytes(range(16)) + struct.pack(">i", 10911)
LONG_TOPIC = b"%RETRY%" + b"g" * 200
EVERYTHING = {
    "UNIQ_KEY": "F" * 32,
    "KEYS": "a b",
    "TAGS": "buy",
    "__SHARDINGKEY": "customer-7",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "TIMER_OUT_MS": "1700000000123",
    "naïve": "früh😀",
    "TAGZ": "no tag",
    "UNIQ_KEZ": "no id",
    "traceparenT": "no trace",
    "TIMER_OUT_Ms": "1",
    "__SHARDINGKEy": "no group",
}


def record(body: bytes = b"body", properties: bytes = b"", topic: bytes = b"trades", **fields: object) -> bytes:
    return encode_record(topic=topic, body=body, properties=properties, **fields)  # type: ignore[arg-type]


def batch_of(*records: bytes) -> MessageBatch:
    return decode_batch(b"".join(records), "broker-a")


def numbered(count: int, **fields: object) -> MessageBatch:
    return batch_of(*(record(b"%d" % number, queue_offset=number, **fields) for number in range(count)))


RECORDS = [
    pytest.param(record(), id="nothing but a body"),
    pytest.param(record(b""), id="nothing"),
    pytest.param(
        record(
            b"payload" * 40,
            encode_properties(EVERYTHING),
            queue_id=3,
            flag=-2,
            queue_offset=1 << 40,
            physical_offset=(1 << 62) + 5,
            born_timestamp_ms=1_700_000_000_123,
            store_timestamp_ms=1_700_000_000_456,
            store_host=bytes((10, 0, 0, 1, 0, 0, 42, 159)),
            reconsume_times=7,
        ),
        id="every field",
    ),
    pytest.param(record(topic=LONG_TOPIC, born_host=V6, store_host=V6, physical_offset=77), id="v2, IPv6"),
    pytest.param(record(born_host=V6, store_timestamp_ms=5), id="IPv6 of the sender"),
    pytest.param(record(store_host=V6, reconsume_times=3), id="IPv6 of the broker"),
    pytest.param(record(born_timestamp_ms=-(1 << 63), store_timestamp_ms=(1 << 63) - 1), id="times beyond all bounds"),
    pytest.param(record(reconsume_times=(1 << 32) - 1), id="tries beyond all bounds"),
    pytest.param(record(zlib.compress(b"x" * 999), sys_flag=0x301), id="compressed"),
    pytest.param(record(zlib.compress(b"x"), b"TAGS\x01\xff\x02", sys_flag=0x301), id="compressed, and no UTF-8"),
    pytest.param(record(properties=b"TAGS\x01buy"), id="no end behind the last property"),
    pytest.param(record(properties=b"TAGS\x01buy\x02TAGS\x01sell\x02"), id="one named twice"),
    pytest.param(record(properties=b"TAGS\x01buy\x02KEYS\x01k\x02TAGS\x01\x02"), id="one without a value"),
    pytest.param(record(properties=b"TAGS\x02\x02\x01v\x02\x01\x02x\x01\x02"), id="half ones"),
    pytest.param(record(properties=b"\x01ab\x02k\x01v\x01w\x02"), id="one without a name, one with a separator"),
    pytest.param(record(properties="\x01é\x02k\x01é\x02".encode()), id="one without a name, of one character"),
    pytest.param(record(properties=b"TAGS\x01\xe4\xb8\x02KEYS\x01\xff\xfe\x02"), id="no UTF-8"),
    pytest.param(record(properties=b"".join(b"k%d\x01v\x02" % n for n in range(40))), id="many properties"),
    pytest.param(record(properties=b"a\x01v\x02" * 8191), id="one named very often"),
    pytest.param(record(properties=b"\xff\x01\xff\x02" * 8191), id="no UTF-8 as far as it goes"),
    pytest.param(record(properties=b"".join(b"%04x\x01v\x02" % n for n in range(4681))), id="as many as fit"),
    pytest.param(record(properties=b"TIMER_OUT_MS\x01soon\x02"), id="due at no number"),
    pytest.param(record(properties=b"TIMER_OUT_MS\x011234567890123456\x02"), id="due beyond all bounds"),
]


@pytest.mark.parametrize("data", RECORDS)
def test_a_record_becomes_the_row_that_its_message_is(kernel: ModuleType, data: bytes) -> None:
    batch = decode_batch(data, "broker-a")
    columns = Columns(kernel)
    assert columns.fill(batch) == (1, codes.ALL_TAKEN)
    assert columns.rows() == [expected_row(batch[0])]


@pytest.mark.parametrize("name", NAMES)
def test_each_column_can_be_had_alone(kernel: ModuleType, name: str) -> None:
    batch = batch_of(*(case.values[0] for case in RECORDS))  # type: ignore[arg-type]
    columns = Columns(kernel, (name,))
    assert columns.fill(batch) == (len(batch), codes.ALL_TAKEN)
    assert columns.rows() == [expected_row(message, (name,)) for message in batch]


def test_runs_of_records_follow_each_other(kernel: ModuleType) -> None:
    """Rows beyond the eighth begin a new byte of the bitmaps, whatever was in the buffer before."""
    columns = Columns(kernel)
    properties = [b"", b"TAGS\x01t\x02TIMER_OUT_MS\x019\x02", b"KEYS\x01a b\x02"]
    runs = [batch_of(*(record(properties=properties[(run + n) % 3]) for n in range(7))) for run in range(4)]
    for run in runs:
        assert columns.fill(run) == (7, codes.ALL_TAKEN)
    assert columns.rows() == [expected_row(message) for run in runs for message in run]


def test_a_slice_of_a_batch_is_its_messages(kernel: ModuleType) -> None:
    columns = Columns(kernel, ("queueOffset",))
    assert columns.fill(numbered(9).slice(3, 6), 1) == (3, codes.ALL_TAKEN)
    assert columns.rows() == [{"queueOffset": 4}, {"queueOffset": 5}]


def test_only_the_range_is_taken(kernel: ModuleType) -> None:
    columns = Columns(kernel, ("queueOffset", "body"))
    assert columns.fill(numbered(9), 0, (3, 6)) == (6, codes.BEHIND_END)
    assert columns.rows() == [{"queueOffset": n, "body": b"%d" % n} for n in (3, 4, 5)]


def test_only_wanted_tags_are_taken(kernel: ModuleType) -> None:
    """Letter by letter: "Aa" and "BB" have one hash."""
    texts = [b"TAGS\x01Aa\x02", b"TAGS\x01BB\x02", b"", b"TAGS\x01\xff\x02", b"TAGS\x01Aab\x02", b"TAGS\x01q\x02"]
    batch = batch_of(*(record(properties=text, queue_offset=n) for n, text in enumerate(texts)))
    columns = Columns(kernel, ("queueOffset",), tags=(b"Aa", b"q", "�".encode()))
    assert columns.fill(batch) == (6, codes.ALL_TAKEN)
    assert [row["queueOffset"] for row in columns.rows()] == [0, 3, 5]


def test_a_full_batch_of_rows_is_gone_on_with_in_the_next(kernel: ModuleType) -> None:
    batch = numbered(9)
    columns = Columns(kernel, ("body",), rows=4)
    assert columns.fill(batch) == (4, codes.NO_ROOM)
    again = Columns(kernel, ("body",), rows=4)
    assert again.fill(batch, 4) == (8, codes.NO_ROOM)
    assert [row["body"] for row in columns.rows() + again.rows()] == [b"%d" % n for n in range(8)]


def test_a_body_that_finds_no_room_says_how_much_it_needs(kernel: ModuleType) -> None:
    batch = batch_of(record(b"x" * 30), record(b"y" * 31))
    columns = Columns(kernel, ("body",), body_bytes=60)
    assert columns.fill(batch) == (1, codes.NO_ROOM)
    assert columns.filler.needed_bytes == 31
    assert columns.rows() == [{"body": b"x" * 30}]


@pytest.mark.parametrize("name", ["messageId", "keys", "tags", "messageGroup", "traceparent", "properties"])
def test_a_text_that_finds_no_room_waits_for_the_next_batch(kernel: ModuleType, name: str) -> None:
    """Nothing of it is taken, though the other columns have room."""
    batch = batch_of(*[record(properties=encode_properties(EVERYTHING))] * 3)
    size_bytes = len(encode_properties(EVERYTHING))
    columns = Columns(kernel, ("queueOffset", name), text_bytes=size_bytes + 64 + 1)
    assert columns.fill(batch) == (1, codes.NO_ROOM)
    assert columns.rows() == [expected_row(batch[0], ("queueOffset", name))]


def test_values_that_find_no_room_though_names_do(kernel: ModuleType) -> None:
    batch = batch_of(*[record(properties=b"n\x01" + b"v" * 100 + b"\x02")] * 2)
    columns = Columns(kernel, ("properties",), text_bytes=168)
    assert columns.fill(batch) == (1, codes.NO_ROOM)


def test_properties_that_find_no_entry(kernel: ModuleType) -> None:
    batch = batch_of(*[record(properties=b"a\x01b\x02c\x01d\x02")] * 2)
    columns = Columns(kernel, ("properties",), entries=3)
    assert columns.fill(batch) == (1, codes.NO_ROOM)
    assert columns.rows() == [{"properties": [("a", "b"), ("c", "d")]}]


def damaged_body() -> bytes:
    data = bytearray(record(b"body", queue_offset=1))
    data[88] ^= 1
    return bytes(data)


def test_a_damaged_body_is_told_and_can_be_passed_over(kernel: ModuleType) -> None:
    batch = batch_of(record(b"0"), damaged_body(), record(b"2", queue_offset=2))
    columns = Columns(kernel, ("body",))
    assert columns.fill(batch) == (1, codes.FILL_BAD_BODY_CRC)
    assert columns.fill(batch, 2) == (3, codes.ALL_TAKEN)
    assert columns.rows() == [{"body": b"0"}, {"body": b"2"}]


@pytest.mark.parametrize(("names", "check_crc"), [(("queueOffset",), True), (("body",), False)])
def test_a_body_is_checked_only_where_that_is_wanted(
    kernel: ModuleType, names: tuple[str, ...], check_crc: bool
) -> None:
    columns = Columns(kernel, names, check_crc=check_crc)
    assert columns.fill(batch_of(damaged_body())) == (1, codes.ALL_TAKEN)


def test_a_body_that_cannot_be_unpacked_is_told(kernel: ModuleType) -> None:
    batch = batch_of(record(b"no zlib", sys_flag=0x301), record(zlib.compress(b"plain"), sys_flag=0x301))
    columns = Columns(kernel, ("body",))
    assert columns.fill(batch) == (0, codes.FILL_BAD_PACKING)
    assert columns.fill(batch, 1) == (2, codes.ALL_TAKEN)
    assert columns.rows() == [{"body": b"plain"}]
    assert set(codes.FILL_REASONS) == {codes.FILL_BAD_BODY_CRC, codes.FILL_BAD_PACKING}


def outcome(kernel: ModuleType, data: bytes) -> object:
    """The rows that came out, and what stopped it."""
    try:
        batch = decode_batch(data)
    except CorruptRecordError as error:
        return type(error), error.offset
    columns = Columns(kernel, rows=4, text_bytes=1024, body_bytes=256, entries=16)
    return columns.fill(batch), columns.rows()


def test_every_flip_and_every_cut_is_told_or_harmless(kernel: ModuleType) -> None:
    """Of each byte of a small payload; whatever the lengths then say, both forms see the same."""
    import zenitmq.record.kernel as installed

    whole = record(b"ab", b"TAGS\x01t\x02KEYS\x01k\x02") + record(zlib.compress(b"c"), sys_flag=0x301)
    assert outcome(kernel, whole)[0] == (2, codes.ALL_TAKEN)  # type: ignore[index]
    for at in range(len(whole)):
        for flip in (0x01, 0x10, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] ^= flip
            assert outcome(kernel, bytes(changed)) == outcome(installed, bytes(changed))
        if at > 0 and at != len(record(b"ab", b"TAGS\x01t\x02KEYS\x01k\x02")):
            assert outcome(kernel, whole[:at])[0] is CorruptRecordError  # type: ignore[index]
