"""The kernel's table of records, driven both ways through both forms of it."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from zenitmq.model.errors import CorruptRecordError, MessageIllegal, MessageTooLarge
from zenitmq.model.ids import unique_id
from zenitmq.model.message import Message
from zenitmq.model.properties import encode_properties
from zenitmq.model.tag_hash import java_hash, tags_code
from zenitmq.record import codes

V4 = bytes([10, 0, 0, 1]) + struct.pack(">i", 10911)
V6 = bytes(range(16)) + struct.pack(">i", 10911)
LIMIT = 1 << 62
LIMITS = {"record_max": 1 << 20, "body_max": 1 << 16}


def by_hand(body: bytes, topic: bytes, properties: bytes, *, born: bytes, stored: bytes, **fields: int) -> bytes:
    """A record put together from the layout table of the field list, by struct alone."""
    sys_flag = fields.get("sys_flag", 0) | (0x10 if len(born) == 20 else 0) | (0x20 if len(stored) == 20 else 0)
    wide = len(topic) > 127
    tail = struct.pack(">i", fields.get("reconsume_times", 0)) + struct.pack(
        ">q", fields.get("prepared_transaction_offset", 0)
    )
    tail += struct.pack(">i", len(body)) + body
    tail += (struct.pack(">H", len(topic)) if wide else struct.pack(">B", len(topic))) + topic
    tail += struct.pack(">H", len(properties)) + properties
    head = struct.pack(
        ">IIiiqqi",
        0xDAA320AB if wide else 0xDAA320A7,
        zlib.crc32(body) & 0x7FFFFFFF,
        fields.get("queue_id", 0),
        fields.get("flag", 0),
        fields.get("queue_offset", 0),
        fields.get("physical_offset", 0),
        sys_flag,
    )
    middle = struct.pack(">q", fields.get("born_timestamp_ms", 0)) + born
    middle += struct.pack(">q", fields.get("store_timestamp_ms", 0)) + stored
    return struct.pack(">I", 4 + len(head) + len(middle) + len(tail)) + head + middle + tail


RECORDS = [
    pytest.param({"body": b"x", "topic": b"t"}, id="smallest"),
    pytest.param({"body": b"", "topic": b"t"}, id="empty body"),
    pytest.param(
        {
            "body": b"payload" * 40,
            "topic": b"trades",
            "properties": encode_properties({"KEYS": "a b", "TAGS": "buy", "UNIQ_KEY": "F" * 32, "naïve": "früh😀"}),
            "queue_id": 3,
            "flag": -2,
            "queue_offset": 1 << 40,
            "physical_offset": (1 << 62) + 5,
            "sys_flag": 0x300 | 0x2,
            "born_timestamp_ms": 1_700_000_000_123,
            "store_timestamp_ms": 1_700_000_000_456,
            "reconsume_times": 7,
            "prepared_transaction_offset": 1 << 33,
        },
        id="every field",
    ),
    pytest.param({"body": b"x", "topic": b"t", "born": V6}, id="IPv6 born host"),
    pytest.param({"body": b"x", "topic": b"t", "stored": V6}, id="IPv6 store host"),
    pytest.param({"body": b"x", "topic": b"t", "born": V6, "stored": V6}, id="both IPv6"),
    pytest.param({"body": b"x", "topic": b"%RETRY%" + b"g" * 200}, id="v2"),
    pytest.param({"body": b"x", "topic": b"%RETRY%" + b"g" * 200, "born": V6, "stored": V6}, id="v2 both IPv6"),
]


@pytest.mark.parametrize("fields", RECORDS)
def test_records_are_encoded_and_decoded_by_the_layout(kernel: ModuleType, fields: dict) -> None:
    fields = dict(fields)
    born, stored = fields.pop("born", V4), fields.pop("stored", V4)
    properties = fields.pop("properties", b"")
    encoded = kernel.encode_record(**fields, properties=properties, born_host=born, store_host=stored)
    assert encoded == by_hand(**fields, properties=properties, born=born, stored=stored)

    message = kernel.decode_record(encoded, "broker-a")
    assert message.record == encoded
    assert message.body == fields["body"]
    assert message.topic == fields["topic"].decode()
    assert message.properties_as_stored == properties
    for name in (
        "queue_id",
        "flag",
        "queue_offset",
        "physical_offset",
        "reconsume_times",
        "prepared_transaction_offset",
    ):
        assert getattr(message, name) == fields.get(name, 0), name
    assert message.born_at_ms == fields.get("born_timestamp_ms", 0)
    assert message.stored_at_ms == fields.get("store_timestamp_ms", 0)
    assert (message.born_host, message.store_host) == (born, stored)
    assert message.size_bytes == len(encoded)
    assert message.broker_name == "broker-a"
    assert message.offset_message_id == (stored + struct.pack(">q", fields.get("physical_offset", 0))).hex().upper()


@pytest.mark.parametrize("fields", RECORDS)
def test_no_prefix_and_no_tail_of_a_record_decodes(kernel: ModuleType, fields: dict) -> None:
    fields = dict(fields)
    born, stored = fields.pop("born", V4), fields.pop("stored", V4)
    encoded = kernel.encode_record(**fields, born_host=born, store_host=stored)
    for cut in range(len(encoded)):
        with pytest.raises(CorruptRecordError):
            kernel.decode_record(encoded[:cut])
    with pytest.raises(CorruptRecordError):
        kernel.decode_record(encoded + b"\0")
    both = kernel.decode_batch(encoded + encoded)
    assert [message.record for message in both] == [encoded, encoded]


def test_numbers_that_a_record_has_negative_can_be_written_again(kernel: ModuleType) -> None:
    """A damaged or foreign record has such."""
    record = kernel.encode_record(topic=b"t", body=b"x", queue_id=-1, flag=-2, reconsume_times=-3)
    message = kernel.decode_record(record)
    assert (message.queue_id, message.flag, message.reconsume_times) == (-1, -2, (1 << 32) - 3)
    whole = {"queue_id": (1 << 32) - 1, "flag": (1 << 32) - 2, "reconsume_times": (1 << 32) - 3}
    assert kernel.encode_record(topic=b"t", body=b"x", **whole) == record


@pytest.mark.parametrize("separator", [b"", b"\x02"])
def test_a_client_s_plain_batch_becomes_records_at_once(kernel: ModuleType, separator: bytes) -> None:
    texts = [b"UNIQ_KEY\x01A" + separator, b"TAGS\x01a\x02UNIQ_KEY\x01B" + separator]
    batch = b"".join(
        struct.pack(">iiiii", 22 + 4 + len(text), 0, 0, 7, 4) + b"body" + struct.pack(">H", len(text)) + text
        for text in texts
    )
    assert kernel.plain_batch_count(batch, [b"DELAY\x01"]) == 2
    records = kernel.batch_records(
        batch,
        2,
        topic=b"t",
        own_properties=b"PSEQ\x01?\x02",
        sys_flag=1,
        born_timestamp_ms=5,
        born_host=bytes(8),
        store_host_bytes=20,
        reconsume_times=2,
    )
    assert records == b"".join(
        kernel.encode_record(
            topic=b"t",
            body=b"body",
            properties=b"PSEQ\x01?\x02" + text.removesuffix(b"\x02") + b"\x02",
            flag=7,
            sys_flag=1,
            born_timestamp_ms=5,
            store_host=bytes(20),
            reconsume_times=2,
        )
        for text in texts
    )


@pytest.mark.parametrize(
    "text",
    [b"", b"TAGS\x01a\x02", b"UNIQ_KEY\x01\x02", b"UNIQ_KEY\x01A\x02UNIQ_KEY\x01B", b"UNIQ_KEY\x01A\x02DELAY\x011\x02"],
)
def test_a_batch_with_another_message_is_not_plain(kernel: ModuleType, text: bytes) -> None:
    batch = struct.pack(">iiiii", 22 + len(text), 0, 0, 0, 0) + struct.pack(">H", len(text)) + text
    assert kernel.plain_batch_count(batch, [b"DELAY\x01"]) == 0
    assert kernel.plain_batch_count(batch[:-1], [b"DELAY\x01"]) == 0


def test_a_damaged_body_is_reported_and_never_handed_out(kernel: ModuleType) -> None:
    encoded = bytearray(kernel.encode_record(topic=b"t", body=b"money"))
    encoded[88] ^= 1
    message = kernel.decode_record(bytes(encoded))
    assert not message.body_crc_matches
    with pytest.raises(CorruptRecordError):
        _ = message.body


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "TagA",
        "buy",
        "abcd",
        "abcde",
        "naïve",
        "日本語タグ",
        "😀 emoji",
        "x" * 100,
        "\U0010ffff\ud7ff",
        "é" * 33,
    ],
)
def test_hashes_are_java_s(kernel: ModuleType, text: str) -> None:
    assert kernel.hash_text(text.encode()) == java_hash(text)


def test_known_java_hashes(kernel: ModuleType) -> None:
    assert kernel.hash_text(b"TagA") == 2598919
    assert kernel.hash_text(b"polygenelubricants") == -(1 << 31)
    assert kernel.index_key_hash(b"", b"") == 35  # "#"


def test_the_index_hash_of_the_smallest_integer_is_zero(kernel: ModuleType) -> None:
    """abs(Integer.MIN_VALUE) is negative in Java, and RocketMQ makes it 0."""
    # "#" first, so search a key whose whole text hashes to MIN_VALUE: 31^n * hash("#") + hash(key) = 2^31 (mod 2^32)
    target = 1 << 31
    for n in range(6, 9):
        rest = (target - 35 * pow(31, n, 1 << 32)) % (1 << 32)
        key = []
        for place in range(n - 1, -1, -1):
            power = 31**place
            digit = (
                min(126, max(33, (rest - 33 * sum(31**lower for lower in range(place))) // power)) if place else rest
            )
            key.append(digit)
            rest -= digit * power
        if all(33 <= digit <= 126 for digit in key) and rest == 0:
            assert kernel.index_key_hash(b"", bytes(key)) == 0
            return
    pytest.fail("no printable key found; the search is wrong")


# ---- the accumulator


def accumulator(kernel: ModuleType, capacity: int = 4096, topic: bytes = b"trades", **options: object):
    made = kernel.Accumulator(topic, capacity, id_prefix=bytes(range(10)), born_host=V4, **options)
    made.begin(1_700_000_000_123, 77_000)
    return made


def drained(kernel: ModuleType, made) -> list:
    buffer, used, count, *_ = made.swap(bytearray(4096))
    batch = kernel.decode_batch(bytes(buffer[:used]))
    assert len(batch) == count
    return list(batch)


def test_an_accumulator_encodes_what_encode_record_does(kernel: ModuleType) -> None:
    made = accumulator(kernel)
    assert made.append(b"one")
    assert made.append(b"two", "buy", ["k1", "k2"], encode_properties({"region": "eu"}), -5, 0x101)
    one, two = drained(kernel, made)
    head = bytes(range(10)).hex().upper() + (77_000).to_bytes(4, "big").hex().upper()
    for message, counter in ((one, "0000"), (two, "0001")):
        assert message.message_id == head + counter
    expected = kernel.encode_record(
        topic=b"trades",
        body=b"two",
        properties=encode_properties({"region": "eu", "KEYS": "k1 k2", "TAGS": "buy", "UNIQ_KEY": head + "0001"}),
        flag=-5,
        sys_flag=0x101,
        born_timestamp_ms=1_700_000_000_123,
        born_host=V4,
    )
    assert two.record == expected
    assert (two.tags, two.keys) == ("buy", ("k1", "k2"))


def test_a_full_accumulator_says_so_and_keeps_what_it_has(kernel: ModuleType) -> None:
    made = accumulator(kernel, capacity=500)
    assert made.append(b"x" * 100)
    assert made.append(b"y" * 100)
    before = (made.used, made.count, made.counter)
    assert not made.append(b"z" * 100)
    assert (made.used, made.count, made.counter) == before
    buffer, used, count, born, month, first = made.swap(bytearray(500))
    assert (count, born, month, first) == (2, 1_700_000_000_123, 77_000, 0)
    assert kernel.batch_sizes(buffer, used) == [m.size_bytes for m in kernel.decode_batch(bytes(buffer[:used]))]
    assert made.append(b"z" * 100)
    assert made.swap(bytearray(10))[5] == 2


def test_a_message_larger_than_the_buffer_gets_its_own(kernel: ModuleType) -> None:
    made = accumulator(kernel, capacity=300)
    assert made.append(b"x" * 5000)
    assert not made.append(b"y")
    assert [m.body for m in drained(kernel, made)] == [b"x" * 5000]


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        ([{}, {}], (None, None)),
        ([{"tags": "a"}, {}], (["a", None], None)),
        ([{"keys": "k"}, {"keys": ["l", "m"], "tags": ""}], (None, ["k", ["l", "m"]])),
    ],
)
def test_messages_without_more_are_columns(
    kernel: ModuleType, fields: list[dict[str, Any]], columns: tuple[Any, Any]
) -> None:
    messages = [Message("t", b"%d" % index, **more) for index, more in enumerate(fields)]
    assert kernel.plain_columns(messages, Message, "t", 1) == ([b"0", b"1"], *columns)
    assert kernel.plain_columns(tuple(messages), Message, "t", 1) == ([b"0", b"1"], *columns)


class Another(Message):
    """Of a program: its attributes may be anything."""


@pytest.mark.parametrize(
    "other",
    [
        Message("u", b"x"),
        Message("t", b"xx"),
        Message("t", bytearray(b"x")),  # type: ignore[arg-type]
        Message("t", b"x", properties={"region": "eu"}),
        Message("t", b"x", flag=1),
        Message("t", b"x", delay_level=1),
        Message("t", b"x", delay=timedelta(0)),
        Message("t", b"x", deliver_at=datetime.now(UTC)),
        Message("t", b"x", priority=0),
        Message("t", b"x", lite_topic=""),
        Message("t", b"x", light_queues=["%LMQ%a"]),
        Another("t", b"x"),
        b"x",
    ],
)
def test_a_message_with_more_makes_no_columns(kernel: ModuleType, other: object) -> None:
    assert kernel.plain_columns([Message("t", b"x"), other], Message, "t", 1) is None


@pytest.mark.parametrize("wrong", [{"tags": 7}, {"keys": 7}, {"keys": [b"k"]}])
def test_tags_and_keys_of_columns_are_texts(kernel: ModuleType, wrong: dict[str, Any]) -> None:
    with pytest.raises(MessageIllegal):
        kernel.plain_columns([Message("t", b"x", **wrong)], Message, "t", 1)


def test_a_batch_of_the_same_millisecond_has_its_ids(kernel: ModuleType) -> None:
    made = accumulator(kernel)
    for born_ms, month_ms in ((1_000, 10), (1_000, 10), (2_000, 11), (3_000, 10)):
        made.begin(born_ms, month_ms)
        made.append(b"x")
        first = made.first_counter
        (found,) = drained(kernel, made)
        assert (found.born_at_ms, found.message_id) == (born_ms, unique_id(made.id_prefix, month_ms, first))


def test_append_many_stops_where_it_is_full(kernel: ModuleType) -> None:
    bodies = [bytes([i]) * 50 for i in range(40)]
    made = accumulator(kernel, capacity=2000)
    stop = made.append_many(bodies, 0, "buy", [f"k{i}" for i in range(40)])
    assert 0 < stop < 40
    first = drained(kernel, made)
    assert [m.body for m in first] == bodies[:stop]
    assert {m.tags for m in first} == {"buy"}
    assert [m.keys for m in first] == [(f"k{i}",) for i in range(stop)]
    assert made.append_many(bodies[:3], 1) == 3
    assert [m.body for m in drained(kernel, made)] == bodies[1:3]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param((b"x" * 65537,), MessageTooLarge, id="body over the limit"),
        pytest.param((b"x", "a\x01b"), MessageIllegal, id="separator in tags"),
        pytest.param((b"x", "a\x00"), MessageIllegal, id="zero in tags"),
        pytest.param((b"x", ""), MessageIllegal, id="empty tags"),
        pytest.param((b"x", None, "a b"), MessageIllegal, id="blank in a key"),
        pytest.param((b"x", None, ["ok", "a\x02"]), MessageIllegal, id="separator in a key"),
        pytest.param((b"x", None, [""]), MessageIllegal, id="empty key"),
        pytest.param((b"x", None, None, b"p" * 32767), MessageTooLarge, id="properties over the limit"),
        pytest.param((b"x", None, "k" * 32767), MessageTooLarge, id="a key over the limit"),
    ],
)
def test_what_no_broker_would_take_is_refused_at_once(kernel: ModuleType, arguments: tuple, error: type) -> None:
    made = accumulator(kernel, body_max=65536)
    with pytest.raises(error):
        made.append(*arguments)
    assert (made.used, made.count) == (0, 0)


@pytest.mark.parametrize("body", [None, "text", 7, bytearray(b"x")])
def test_a_body_must_be_bytes(kernel: ModuleType, body: object) -> None:
    with pytest.raises((MessageIllegal, TypeError)):
        accumulator(kernel).append(body)


# ---- stamping and scanning


@pytest.mark.parametrize("full", range(0, 330, 3))
def test_whole_records_end_where_the_next_has_no_room(kernel: ModuleType, full: int) -> None:
    sizes = [codes.RECORD_OVERHEAD_BYTES, codes.RECORD_OVERHEAD_BYTES + 9, 120]
    segment = b"".join(size.to_bytes(4, "big") + b"\xda\xa3\x20\xa7" + bytes(size - 8) for size in sizes)
    ends = [sum(sizes[: count + 1]) for count in range(3)]
    expected = max([ends[0], *(end for end in ends if end <= full)])
    assert kernel.whole_records(segment, 0, len(segment), full) == (expected, codes.RUN_MORE)
    assert kernel.whole_records(segment, ends[0], ends[1], full) == (ends[1], codes.RUN_MORE)


def test_whole_records_end_at_a_blank_and_before_what_is_no_record(kernel: ModuleType) -> None:
    record = (100).to_bytes(4, "big") + b"\xda\xa3\x20\xa8" + bytes(92)
    blank = kernel.encode_blank(60) + bytes(52)
    for tail, followed_by in (
        (blank, codes.RUN_BLANK),
        (kernel.encode_blank(59) + bytes(52), codes.BAD_SIZE),  # does not fill the segment
        (bytes(60), codes.BAD_SIZE),
        ((codes.RECORD_OVERHEAD_BYTES - 1).to_bytes(4, "big") + bytes(200), codes.BAD_SIZE),
        ((101).to_bytes(4, "big") + bytes(96), codes.BAD_SIZE),  # longer than what is left
        (b"\0\0\0\x64", codes.BAD_SIZE),
        (b"\xff\xff\xff\xff" + bytes(100), codes.BAD_SIZE),
    ):
        segment = record + record + tail
        assert kernel.whole_records(segment, 0, len(segment), 1 << 20) == (200, followed_by), tail
        assert kernel.whole_records(segment, 200, len(segment), 1 << 20) == (200, followed_by), tail
    for begin, stop in ((-1, 100), (0, 101)):
        with pytest.raises(ValueError, match="segment"):
            kernel.whole_records(record, begin, stop, 100)


def batch_of(kernel: ModuleType, count: int = 5, topic: bytes = b"trades") -> bytearray:
    made = accumulator(kernel, topic=topic)
    for i in range(count):
        assert made.append(b"body %d" % i, "buy" if i % 2 else None, [f"key-{i}", "common"] if i % 3 == 0 else None)
    buffer, used, *_ = made.swap(bytearray(10))
    return buffer[:used]


def stamp(kernel: ModuleType, run, batch: bytearray, count: int, topic: bytes = b"trades") -> int:
    return run.stamp(
        batch, 0, len(batch), topic, kernel.index_topic_hash(topic), count, 3, 1000, 5_000_000_000, 1_700_000_000_999
    )


def test_stamping_writes_the_broker_s_fields_and_nothing_else(kernel: ModuleType) -> None:
    batch = batch_of(kernel)
    before = list(kernel.decode_batch(bytes(batch)))
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    assert stamp(kernel, run, batch, 5) == 5
    after = list(kernel.decode_batch(bytes(batch)))
    physical = 5_000_000_000
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        assert new.record == kernel.encode_record(
            topic=b"trades",
            body=old.body,
            properties=old.properties_as_stored,
            queue_id=3,
            queue_offset=1000 + i,
            physical_offset=physical,
            born_timestamp_ms=old.born_at_ms,
            born_host=V4,
            store_timestamp_ms=1_700_000_000_999,
            store_host=V4,
        )
        unit = struct.unpack(">qiq", run.units[20 * i : 20 * i + 20])
        assert unit == (physical, new.size_bytes, tags_code(new.tags))
        physical += new.size_bytes
    expected = [
        (kernel.index_key_hash(b"trades", key.encode()), m.physical_offset)
        for m in after
        for key in (m.message_id, *m.keys)
    ]
    assert list(zip(run.hashes[: run.keys_end], run.key_offsets[: run.keys_end], strict=True)) == expected
    assert run.units_end == 100


def test_scanning_a_stamped_batch_tells_what_stamping_told(kernel: ModuleType) -> None:
    batch = batch_of(kernel)
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    stamp(kernel, run, batch, 5)
    again = kernel.RunKernel(**LIMITS)
    assert again.scan(bytes(batch) + bytes(8), 0, len(batch) + 8, 5_000_000_000, True) == 5
    assert (again.topic, again.queue_id, again.queue_offset, again.end, again.status) == (
        b"trades",
        3,
        1000,
        len(batch),
        0,
    )
    assert again.store_timestamp_ms == 1_700_000_000_999
    assert bytes(again.units[: again.units_end]) == bytes(run.units[: run.units_end])
    assert list(again.hashes[: again.keys_end]) == list(run.hashes[: run.keys_end])


def test_a_scan_ends_where_another_run_begins(kernel: ModuleType) -> None:
    common = {"topic": b"a", "body": b"x"}
    first = kernel.encode_record(**common, queue_offset=7)
    records = [
        first,
        kernel.encode_record(**common, queue_offset=8, physical_offset=len(first)),
        kernel.encode_record(**common, queue_offset=10, physical_offset=2 * len(first)),
        kernel.encode_record(**common, queue_offset=11, queue_id=1, physical_offset=3 * len(first)),
        kernel.encode_record(topic=b"b", body=b"x", queue_offset=12, queue_id=1, physical_offset=4 * len(first)),
    ]
    data = b"".join(records) + kernel.encode_blank(99)
    run = kernel.RunKernel(**LIMITS)
    begin, seen = 0, []
    while run.scan(data, begin, len(data), begin):
        seen.append((run.topic, run.queue_id, run.queue_offset, run.count))
        begin = run.end
    assert seen == [(b"a", 0, 7, 2), (b"a", 0, 10, 1), (b"a", 1, 11, 1), (b"b", 1, 12, 1)]
    assert run.status == codes.RUN_BLANK


def damaged(kernel: ModuleType, position: int, layout: str, value: int, count: int = 5) -> bytearray:
    batch = batch_of(kernel, count)
    struct.pack_into(layout, batch, position, value)
    return batch


@pytest.mark.parametrize(
    ("position", "layout", "value", "reason"),
    [
        pytest.param(0, ">I", 90, "BAD_SIZE", id="size below the minimum"),
        pytest.param(0, ">I", 0xFFFFFFFF, "BAD_SIZE", id="size of 4 GiB"),
        pytest.param(0, ">I", 100, "BAD_LENGTHS", id="size that lies"),
        pytest.param(4, ">I", 0xDAA320A8, "BAD_MAGIC", id="magic"),
        pytest.param(8, ">I", 0, "BAD_BODY_CRC", id="a body checksum of another body"),
        pytest.param(8, ">I", 0xFFFFFFFF, "BAD_BODY_CRC", id="a body checksum of 32 bits"),
        pytest.param(88, ">B", 0x42, "BAD_BODY_CRC", id="another body"),
        pytest.param(36, ">I", 0x10, "BAD_LENGTHS", id="an IPv6 bit without the bytes"),
        pytest.param(36, ">I", 0x8, "BAD_SYS_FLAG", id="a committed transaction"),
        pytest.param(36, ">I", 0x80, "BAD_SYS_FLAG", id="an inner batch"),
        pytest.param(76, ">q", 1, "BAD_TRANSACTION", id="prepared offset"),
        pytest.param(84, ">I", 0xFFFFFFFF, "BAD_LENGTHS", id="body length of 4 GiB"),
        pytest.param(84, ">I", 7, "BAD_LENGTHS", id="body length that lies"),
        pytest.param(88 + 6, ">B", 200, "BAD_LENGTHS", id="topic length that lies"),
        pytest.param(88 + 7, ">B", 0x20, "BAD_TOPIC", id="another topic"),
        pytest.param(88 + 6 + 7, ">H", 0xFFFF, "BAD_PROPERTIES_SIZE", id="properties over a signed short"),
    ],
)
def test_a_lying_batch_is_refused_whole(
    kernel: ModuleType, position: int, layout: str, value: int, reason: str
) -> None:
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    good = batch_of(kernel)
    assert stamp(kernel, run, good, 5) == 5
    before = (run.units_end, run.keys_end)
    for skip in (0, 1):  # the first record, and the second behind a good one
        batch = batch_of(kernel)
        struct.pack_into(layout, batch, position + skip * struct.unpack_from(">I", batch)[0], value)
        result = stamp(kernel, run, batch, 5)
        assert result < 0
        if skip == 0:
            assert result == getattr(codes, reason)
            assert codes.REASONS[result]
        assert (run.units_end, run.keys_end) == before


@pytest.mark.parametrize("size", [0, 1, 7, 15, 16, 17, 31, 63, 64, 65, 100, 255, 256, 1000, 4097])
def test_every_bit_of_a_body_and_of_its_checksum_counts(kernel: ModuleType, size: int) -> None:
    """In a batch of which only this record is wrong: at entry, and where a body is read."""
    bodies = [bytes((i + j) & 0xFF for j in range(size)) for i in range(3)]
    good = [kernel.encode_record(topic=b"t", body=body) for body in bodies]
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    assert stamp(kernel, run, bytearray(b"".join(good)), 3, b"t") == 3
    run.clear()
    spots = [8 * 8 + bit for bit in range(32)] + [88 * 8 + bit for bit in range(0, 8 * size, max(1, size // 3))]
    for spot in spots:
        for index in range(3):
            record = bytearray(good[index])
            record[spot // 8] ^= 1 << spot % 8
            batch = bytearray(b"".join([*good[:index], bytes(record), *good[index + 1 :]]))
            decoded = kernel.decode_batch(bytes(batch))
            assert decoded.first_damaged() == index
            assert [message.body_crc_matches for message in decoded] == [i != index for i in range(3)]
            with pytest.raises(CorruptRecordError):
                decoded[index].body  # noqa: B018
            assert stamp(kernel, run, batch, 3, b"t") == codes.BAD_BODY_CRC
            text = kernel.why_refused(codes.BAD_BODY_CRC, batch, 0, len(batch))
            assert f"message {index} (from 0) of the batch, at byte {index * len(good[0])};" in text
            assert run.units_end == 0


def test_what_the_broker_made_keeps_the_checksum_it_has(kernel: ModuleType) -> None:
    batch = damaged(kernel, 8, ">I", 0x01020304, 1)
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    topic_hash = kernel.index_topic_hash(b"trades")
    assert run.stamp(batch, 0, len(batch), b"trades", topic_hash, 1, 0, 0, 0, 0, True) == 1
    assert kernel.decode_record(bytes(batch)).body_crc == 0x01020304


def test_wrong_counts_topics_and_sizes_are_refused(kernel: ModuleType) -> None:
    run = kernel.RunKernel(store_host=V4, **LIMITS)
    assert stamp(kernel, run, batch_of(kernel), 4) == codes.BAD_COUNT
    assert stamp(kernel, run, batch_of(kernel), 6) == codes.BAD_COUNT
    assert stamp(kernel, run, bytearray(), 1) == codes.BAD_COUNT
    assert stamp(kernel, run, batch_of(kernel), 5, b"trade") == codes.BAD_TOPIC
    assert stamp(kernel, run, batch_of(kernel), 5, b"tradez") == codes.BAD_TOPIC
    small = kernel.RunKernel(store_host=V4, record_max=1 << 20, body_max=5)
    assert stamp(kernel, small, batch_of(kernel), 5) == codes.BAD_BODY_SIZE
    tiny = kernel.RunKernel(store_host=V4, record_max=100, body_max=5)
    assert stamp(kernel, tiny, batch_of(kernel), 5) == codes.BAD_SIZE
    six = kernel.RunKernel(store_host=V6, **LIMITS)
    assert stamp(kernel, six, batch_of(kernel), 5) == codes.BAD_SYS_FLAG
    assert stamp(kernel, run, batch_of(kernel)[:-1], 5) == codes.BAD_SIZE
    assert (run.units_end, run.keys_end) == (0, 0)


def test_ipv6_batches_are_stamped(kernel: ModuleType) -> None:
    made = kernel.Accumulator(b"trades", 4096, id_prefix=bytes(10), born_host=V6, store_host_bytes=20)
    made.begin(1, 1)
    assert made.append(b"six")
    buffer, used, *_ = made.swap(bytearray(1))
    batch = buffer[:used]
    run = kernel.RunKernel(store_host=V6, **LIMITS)
    assert stamp(kernel, run, batch, 1) == 1
    message = kernel.decode_record(bytes(batch))
    assert (message.body, message.born_host, message.store_host, message.stored_at_ms) == (
        b"six",
        V6,
        V6,
        1_700_000_000_999,
    )


def test_many_keys_make_room(kernel: ModuleType) -> None:
    run = kernel.RunKernel(store_host=V4, capacity=2, **LIMITS)
    made = accumulator(kernel, capacity=60_000)
    keys = [f"k{i}" for i in range(3000)]
    for _ in range(3):
        assert made.append(b"x", None, keys)
    buffer, used, *_ = made.swap(bytearray(1))
    batch = buffer[:used]
    assert stamp(kernel, run, batch, 3) == 3
    assert run.keys_end == 3 * 3001
    assert run.hashes[1] == kernel.index_key_hash(b"trades", b"k0")
    assert run.hashes[3 * 3001 - 1] == kernel.index_key_hash(b"trades", b"k2999")


def test_keys_can_be_left_unindexed(kernel: ModuleType) -> None:
    run = kernel.RunKernel(store_host=V4, index_keys=False, **LIMITS)
    assert stamp(kernel, run, batch_of(kernel), 5) == 5
    assert run.keys_end == 0
    assert [struct.unpack_from(">q", run.units, 20 * i + 12)[0] for i in range(5)] == [
        tags_code(t) for t in (None, "buy") * 2 + (None,)
    ]


# ---- selecting units


def units(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack(">qiq", *row) for row in rows)


def select(
    kernel: ModuleType, data: bytes, codes: tuple = (), messages: int = 100, size: int = 10_000, limit: int = 1 << 60
):
    selector = kernel.UnitSelector()
    selector.select(data, 0, len(data), codes, messages, size, limit)
    runs = [(selector.runs[2 * i], selector.runs[2 * i + 1]) for i in range(selector.run_count)]
    return selector.examined, selector.matched, selector.size_bytes, runs


def test_neighbouring_records_become_one_range(kernel: ModuleType) -> None:
    data = units((0, 100, 0), (100, 50, 0), (400, 10, 0), (410, 10, 0))
    assert select(kernel, data) == (4, 4, 170, [(0, 150), (400, 420)])


def test_selection_is_bounded_by_messages_bytes_and_the_confirm_offset(kernel: ModuleType) -> None:
    data = units((0, 100, 0), (100, 50, 0), (150, 60, 0))
    assert select(kernel, data, messages=2) == (2, 2, 150, [(0, 150)])
    assert select(kernel, data, size=160) == (2, 2, 150, [(0, 150)])
    assert select(kernel, data, size=1) == (1, 1, 100, [(0, 100)])
    assert select(kernel, data, limit=209) == (2, 2, 150, [(0, 150)])
    assert select(kernel, data, limit=99) == (0, 0, 0, [])


def test_tags_are_tested_by_hash(kernel: ModuleType) -> None:
    buy, sell, far = java_hash("buy"), java_hash("sell"), java_hash("polygenelubricants")
    data = units((0, 10, buy), (10, 10, sell), (20, 10, buy), (30, 10, far), (40, 10, 0))
    assert select(kernel, data, codes=(buy,)) == (5, 2, 20, [(0, 10), (20, 30)])
    assert select(kernel, data, codes=tuple(sorted((buy, far)))) == (5, 3, 30, [(0, 10), (20, 40)])
    assert select(kernel, data, codes=(12345,)) == (5, 0, 0, [])


@pytest.mark.parametrize("count", [2, 3, 16, 17, 200])
def test_one_of_many_tags_is_found_whatever_their_order(kernel: ModuleType, count: int) -> None:
    wanted = tuple((number * 7919) % 1009 - 500 for number in range(count))
    data = units(*((10 * at, 10, code) for at, code in enumerate(range(-520, 520))))
    expected = sum(1 for code in range(-520, 520) if code in wanted)
    assert select(kernel, data, codes=wanted, messages=2000, size=1 << 20)[:2] == (1040, expected)


def test_a_unit_of_rocketmqs_extension_may_have_any_tag(kernel: ModuleType) -> None:
    """Its tags code is an address there: the message is handed on, and the client tests its tags."""
    data = units((0, 10, -(1 << 63)), (10, 10, -(1 << 31) - 1), (20, 10, -(1 << 31)), (30, 10, 5))
    assert select(kernel, data, codes=(5,))[3] == [(0, 20), (30, 40)]
    assert select(kernel, data, codes=(4, 6))[3] == [(0, 20)]


def test_filler_units_are_passed_over(kernel: ModuleType) -> None:
    data = units((0, 0x7FFFFFFF, 0), (0, 0x7FFFFFFF, 0), (64, 10, 0))
    assert select(kernel, data) == (3, 1, 10, [(64, 74)])


# ---- the index


def index_file(slots: int = 7, entries: int = 50) -> bytearray:
    return bytearray(40 + 4 * slots + 20 * entries)


def insert(
    kernel: ModuleType, file: bytearray, first: int, rows: list[tuple[int, int]], seconds: int, slots: int = 7
) -> int:
    hashes = memoryview(bytearray(4 * len(rows))).cast("I")
    offsets = memoryview(bytearray(8 * len(rows))).cast("q")
    for i, (key, offset) in enumerate(rows):
        hashes[i], offsets[i] = key, offset
    return kernel.index_insert(file, slots, first, hashes, offsets, 0, len(rows), seconds)


def test_entries_hang_on_their_slot_newest_first(kernel: ModuleType) -> None:
    file = index_file()
    assert insert(kernel, file, 1, [(3, 100), (10, 200), (3, 300)], 5) == 1
    assert insert(kernel, file, 4, [(3, 400), (4, 500)], 9) == 1
    assert kernel.index_search(file, 7, 6, 3, 0, 100, 64, LIMIT, 0, LIMIT)[0] == [400, 300, 100]
    assert kernel.index_search(file, 7, 6, 10, 0, 100, 64, LIMIT, 0, LIMIT)[0] == [200]
    assert kernel.index_search(file, 7, 6, 3, 6, 100, 64, LIMIT, 0, LIMIT)[0] == [400, 100]
    assert kernel.index_search(file, 7, 6, 3, 0, 5, 64, LIMIT, 0, LIMIT)[0] == [300, 100]
    assert kernel.index_search(file, 7, 6, 3, 0, 100, 2, LIMIT, 0, LIMIT)[0] == [400, 300]
    assert kernel.index_search(file, 7, 6, 17, 0, 100, 64, LIMIT, 0, LIMIT)[0] == []
    assert kernel.index_search(file, 7, 6, 3, 0, 100, 64, LIMIT, 0, 2) == ([400, 300], 3, True)
    assert kernel.index_search(file, 7, 6, 3, 0, 100, 64, 300, 3, LIMIT) == ([100], 1, False)
    assert kernel.index_search(file, 7, 6, 3, 0, 100, 64, 300, 1, LIMIT) == ([100], 1, False), "1 is below the limit"
    for foreign in (5, 1, 99):  # of another slot, below the limit, no entry: the search begins at the slot
        assert kernel.index_search(file, 7, 6, 3, 0, 100, 64, 350, foreign, LIMIT) == ([300, 100], 1, False)
    # entry 3: key hash, physical offset, seconds, previous entry on the slot
    assert struct.unpack_from(">IqiI", file, 40 + 28 + 60) == (3, 300, 5, 2)


def test_a_damaged_chain_ends_instead_of_looping(kernel: ModuleType) -> None:
    file = index_file()
    insert(kernel, file, 1, [(3, 100), (3, 200)], 5)
    struct.pack_into(">I", file, 40 + 28 + 40 + 16, 2)  # entry 2 points at itself
    assert kernel.index_search(file, 7, 3, 3, 0, 100, 64, LIMIT, 0, LIMIT)[0] == [200]
    struct.pack_into(">I", file, 40 + 4 * 3, 1000)  # the slot points past the entries
    assert kernel.index_search(file, 7, 3, 3, 0, 100, 64, LIMIT, 0, LIMIT)[0] == []
    assert insert(kernel, file, 3, [(3, 300)], 5) == 1  # and counts as empty for the next key


def test_an_index_never_writes_past_its_file(kernel: ModuleType) -> None:
    file = index_file(entries=3)
    insert(kernel, file, 1, [(1, 1), (2, 2)], 0)
    with pytest.raises(ValueError, match="no room"):
        insert(kernel, file, 3, [(3, 3)], 0)
    with pytest.raises(ValueError, match="shorter"):
        kernel.index_search(file, 7, 9, 1, 0, 1, 1, LIMIT, 0, LIMIT)


# ---- batches


def test_a_batch_is_a_sequence(kernel: ModuleType) -> None:
    batch = kernel.decode_batch(bytes(batch_of(kernel, 6)), "b")
    assert len(batch) == 6
    assert [m.body for m in batch] == [b"body %d" % i for i in range(6)]
    assert batch[-1].body == b"body 5"
    assert [m.body for m in batch[2:4]] == [b"body 2", b"body 3"]
    assert batch.slice(1, 5).slice(1, 2)[0].body == b"body 2"
    assert batch.slice(2, 2).size_bytes == 0
    assert batch.size_bytes == sum(m.size_bytes for m in batch)
    with pytest.raises(IndexError):
        _ = batch[6]
    with pytest.raises(IndexError):
        batch.slice(0, 7)
    with pytest.raises(IndexError):
        batch.slice(0, 0).next_offset()
    assert len(kernel.decode_batch(b"")) == 0


def test_a_message_outlives_its_batch(kernel: ModuleType) -> None:
    message = kernel.decode_batch(bytes(batch_of(kernel, 1)))[0]
    assert message.body == b"body 0"
    assert "trades" in repr(message)
    assert message.keys == ("key-0", "common")


def test_a_time_that_no_calendar_has_is_refused_and_an_offset_below_zero_has_an_id(kernel: ModuleType) -> None:
    (message,) = kernel.decode_batch(
        kernel.encode_record(
            topic=b"t", body=b"", born_timestamp_ms=1 << 60, store_timestamp_ms=-(1 << 60), physical_offset=-2
        )
    )
    for name in ("born_at", "stored_at"):
        with pytest.raises(CorruptRecordError, match="time"):
            getattr(message, name)
    assert message.message_id == "00" * 8 + "FF" * 7 + "FE"
