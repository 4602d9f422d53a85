"""What the two kernels are given: batches from the network, runs of records on disk, units, index files, rows of columns."""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable
from random import Random
from typing import Any

from kernels import interpreted_kernel
from zenitmq.model.errors import CorruptRecordError, MessageIllegal, MessageTooLarge, RemoteProtocolError
from zenitmq.record import codes, kernel
from zenitmq.record.kernel import (
    Accumulator,
    RunKernel,
    UnitSelector,
    decode_batch,
    encode_record,
    index_topic_hash,
    why_refused,
    wrap_batch,
)

from .mutation import EDGES, Field, mutated, some_number
from .target import Target

NAMES = (
    *b"KEYS TAGS UNIQ_KEY PSEQ traceparent TIMER_OUT_MS __SHARDINGKEY a region KEY TAG UNIQ UNIQ_KEYS".split(),
    b"",
)
VALUES = (
    *(b"", b" ", b"x", b"12345", b"-5", b"+", b"9" * 15, b"9" * 20, b"p:0123456789ABCDEF", b"pid:7FFFFFFFFFFFFFFF"),
    *(
        b"A" * 32,
        b"A" * 31 + b"\x02",
        b"\xf0\x9f\x98",
        b"\xf0\x9f\x98\x80",
        b"\xe2\x82",
        b"\xc3",
        b"\xff",
        b"k k  k",
        b"v" * 300,
    ),
)
HEADER_FIELDS = (
    (0, 4),
    (4, 4),
    (8, 4),
    (12, 4),
    (20, 8),
    (28, 8),
    (36, 4),
    (40, 8),
    (56, 8),
    (76, 8),
    (84, 4),
    (96, 4),
    (108, 4),
)
SYS_FLAGS = (0, 0, 0, 1, 2, 4, 8, 12, 0x40, 0x80, 0x100, 0x101, 0x201, 0x301, 0x40000000)
TOPICS = (b"t", b"topic", b"x" * 127, b"y" * 128, b"z" * 255, b"", "\u00e9\U0001f600".encode())


def properties(draw: Random, *, sequence_bytes: int = 0) -> bytes:
    """Entries, some of them without their separators. `sequence_bytes`: of the room for a producer's sequence."""
    out = bytearray()
    for _ in range(draw.choice((0, 0, 1, 2, 3, 5, 20))):
        value = draw.choice(VALUES) if draw.randrange(3) else draw.randbytes(draw.randrange(40))
        out += (
            draw.choice(NAMES)
            + draw.choice((b"\x01",) * 5 + (b"", b"\x02"))
            + value
            + draw.choice((b"\x02",) * 5 + (b"",))
        )
    if sequence_bytes:
        out += b"\x02PSEQ\x01" + b"?" * (sequence_bytes + draw.choice((0, 0, 0, 0, 1, -1))) + b"\x02"
    if not draw.randrange(4):
        names = draw.choice(
            (b"%LMQ%a", b"%LMQ%a,%LMQ%b", b"%LMQ%", b"a", b",", b"%LMQ%a,%LMQ%a", b"%LMQ%" + b"x" * 260)
        )
        room = b",".join(
            [draw.choice((b"0" * 19, b"5", b"9" * 19, b"x"))] * (names.count(b",") + draw.choice((1, 1, 1, 2)))
        )
        out += b"\x02INNER_MULTI_DISPATCH\x01" + names + b"\x02INNER_MULTI_QUEUE_OFFSET\x01" + room + b"\x02"
    return bytes(out[:32767])


def record(draw: Random, topic: bytes, position: int, *, is_sent: bool) -> bytes:
    """One record; `is_sent`: as a producer makes it, with zeros for the broker's fields."""
    fields: dict[str, Any] = {"sys_flag": draw.choice((0, 0, 1, 2, 0x100, 0x301)), "physical_offset": position}
    if not is_sent:
        fields |= {
            "queue_id": draw.choice((0, 1, 7)),
            "queue_offset": draw.choice((0, 1, 5, 1 << 62)),
            "sys_flag": draw.choice(SYS_FLAGS),
            "store_timestamp_ms": draw.choice((5, 5, 6)),
            "prepared_transaction_offset": draw.choice((0, 0, 0, -1, -5, 7)),
            "reconsume_times": draw.choice((0, 3, 0xFFFFFFFF)),
        }
    return encode_record(
        topic=topic,
        body=bytes(draw.choice((0, 0, 1, 3, 20, 200))),
        properties=properties(draw, sequence_bytes=18 if is_sent and draw.randrange(2) else 0),
        born_timestamp_ms=draw.choice((1, 1_700_000_000_000, -1, 1 << 62)),
        born_host=bytes(draw.choice((8, 8, 20))),
        store_host=bytes(draw.choice((8, 8, 8, 20))),
        **fields,
    )


def run_of_records(draw: Random, *, is_sent: bool) -> tuple[bytearray, list[Field]]:
    """Records back to back from position 0 on, and where numbers stand in them."""
    topic, data = draw.choice(TOPICS), bytearray()
    fields: list[Field] = []
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        begin = len(data)
        data += record(draw, topic if draw.randrange(6) else draw.choice(TOPICS), begin, is_sent=is_sent)
        fields += [(begin + at, width) for at, width in HEADER_FIELDS]
        fields += [(begin + 88, 1), (begin + 88, 2), (begin + 100, 1)]
    return data, fields


def _sent(draw: Random) -> bytes:
    data, fields = run_of_records(draw, is_sent=True)
    return bytes(mutated(data, draw, fields))


def _stored(draw: Random) -> bytes:
    data, fields = run_of_records(draw, is_sent=False)
    data += draw.choice((b"", bytes(8), struct.pack(">II", draw.choice((8, 100, 0)), codes.MAGIC_BLANK)))
    return bytes(mutated(data, draw, fields))


def _wrapped(draw: Random) -> bytes:
    """Records that hold batches, some of them stored already, and plain ones."""
    data, fields = bytearray(), []
    for _ in range(draw.choice((1, 1, 1, 2))):
        topic, begin = draw.choice(TOPICS[:5]), len(data)
        sent = b"".join(record(draw, topic, 0, is_sent=True) for _ in range(draw.choice((1, 2, 3, 8))))
        try:
            one = bytearray(wrap_batch(sent, len(sent), draw.choice((0, 1 << 20, 1 << 20))))
        except RemoteProtocolError:  # a body that says it is compressed
            one = bytearray(record(draw, topic, begin, is_sent=False))
            one[36:40] = struct.pack(">I", draw.choice((0xC0, 0x80, 0x1C1, 0xD0)))
        if draw.randrange(2):
            one[28:36] = struct.pack(">q", begin)
        data += one
        body = begin + (88 if len(one) > 88 else 0)
        fields += [(begin + at, width) for at, width in HEADER_FIELDS]
        fields += [(body + at, width) for at, width in ((0, 4), (12, 4), (16, 4), (20, 2), (40, 4))]
        fields += [(len(data) - 2, 1), (len(data) - 20, 1), (len(data) - 47, 2)]
        if not draw.randrange(4):
            data += record(draw, topic, len(data), is_sent=False)
    kept = [(at, width) for at, width in fields if at + width <= len(data)]
    changed = mutated(data, draw, kept) if draw.randrange(4) else data
    return bytes(_with_body_checksum(changed) if draw.randrange(2) else changed)


def _with_body_checksum(data: bytes | bytearray) -> bytes:
    """With a right checksum for the first record's body, so that what is in it is looked at."""
    out = bytearray(data)
    if len(out) > 100:
        size = int.from_bytes(out[84:88], "big")
        out[8:12] = struct.pack(">I", zlib.crc32(out[88 : 88 + size]) & 0x7FFFFFFF)
    return bytes(out)


def check_batches(data: bytes, draw: Random) -> None:
    """A batch is taken as a whole or refused by a number; its messages, if it can be taken apart, follow one another."""
    run, buffer, count = _run_kernel(draw), exact(data), draw.choice((1, 2, 3, 8, 0, -1))
    done = run.stamp_batch(buffer, 0, len(buffer), draw.choice(TOPICS), count, 1, 5, draw.choice((0, 4096, -1)), 7)
    if done < 0:
        assert why_refused(done, buffer, 0, len(buffer)).startswith(codes.REASONS[done])
        assert run.units_end == run.keys_end == 0
    else:
        assert (done, run.units_end, run.count) == (count, 20, count)
        taken = list(decode_batch(bytes(buffer)))
        assert [message.queue_offset for message in taken] == [5 + index for index in range(len(taken))]
        assert len(taken) in (1, count)
    _scanned(kernel, data, draw)
    messages = decode_batch(data)
    if draw.randrange(8) == 0:
        assert interpreted_kernel().decode_batch(data).data == messages.data
    for message in messages:
        assert message.sys_flag & codes.BATCH_FLAGS != codes.BATCH_FLAGS
        assert message.size_bytes == len(message.record)
    size = int.from_bytes(data[:4], "big") if len(data) else 0
    if 0 < size <= len(data):
        kernel.accepted_messages(data[:size], lambda record: len(record) % 2 == 0)


def exact(data: bytes) -> memoryview:
    """The same in a block of just that size: what is read behind it is seen."""
    return memoryview(array.array("B", data))


def _run_kernel(draw: Random, kernel: Any = kernel) -> RunKernel:
    return kernel.RunKernel(
        store_host=bytes(draw.choice((8, 8, 8, 20))),
        record_max=draw.choice((4096, 1 << 20, 0x7FFFFFFF, 91)),
        body_max=draw.choice((100, 4096, 1 << 22)),
        index_keys=draw.randrange(10) > 0,
        index_tags=draw.randrange(3) > 0,
        capacity=draw.choice((1, 2, 1024)),
    )


def check_stamp(data: bytes, draw: Random) -> None:
    """A batch is taken as a whole or refused by a number, and what was taken is decoded with the broker's fields."""
    kernel, buffer = _run_kernel(draw), exact(data)
    topic = draw.choice(TOPICS)
    begin = draw.choice((0, 0, 0, len(data) // 2, -1))
    end = draw.choice((len(data),) * 3 + (len(data) - 1, len(data) + 1))
    physical = draw.choice((0, 4096, 1 << 40, (1 << 63) - 100, -1))
    topic_hash = index_topic_hash(topic)
    count = draw.choice((1, 2, 3))
    done = kernel.stamp(buffer, begin, end, topic, topic_hash, count, 1, 5, physical, 7, draw.randrange(3) == 0)
    if done < 0:
        assert why_refused(done, buffer, begin, end).startswith(codes.REASONS[done])
        assert kernel.units_end == kernel.keys_end == 0
        return
    messages = list(decode_batch(bytes(buffer[begin:end])))
    assert (len(messages), kernel.units_end) == (done, 20 * done)
    for index, message in enumerate(messages):
        assert (message.queue_id, message.queue_offset) == (1, 5 + index)
        found = struct.unpack_from(">qi", kernel.units, 20 * index)
        assert found == (message.physical_offset, message.size_bytes)
        assert message.physical_offset == physical + sum(each.size_bytes for each in messages[:index])


def _scanned(kernel: Any, data: bytes, draw: Random) -> list[Any]:
    run = _run_kernel(draw, kernel)
    begin, end = draw.choice((0, 0, 0, 91)), draw.choice((len(data), len(data), len(data) - 1, len(data) + 8))
    checks_crc, count_max = draw.randrange(2) == 0, draw.choice((1, 3, 0x7FFFFFFF))
    found: list[Any] = []
    for _ in range(20):
        if not run.scan(data, begin, end, begin, checks_crc, count_max):
            break
        found += [run.topic, run.queue_id, run.queue_offset, run.count, run.end, run.store_timestamp_ms, run.sys_flag]
        begin = run.end
    assert run.status <= 1
    return [*found, run.status, bytes(run.units[: run.units_end]), list(run.hashes[: run.keys_end]),
            list(run.key_offsets[: run.keys_end])]  # fmt: skip


def check_scan(data: bytes, draw: Random) -> None:
    """Both forms of the kernel find the same runs, units and keys."""
    number = draw.getrandbits(32)
    found = _scanned(kernel, data, Random(number))
    if number % 8 == 0:
        assert found == _scanned(interpreted_kernel(), data, Random(number))
    _scanned_runs(exact(data), Random(number))


class _Queue:
    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset


def _scanned_runs(data: memoryview, draw: Random) -> None:
    run = _run_kernel(draw)
    runs: list[kernel.WrittenRun] = []
    run.scan_runs(data, 0, len(data), 0, {}, lambda _at, _size: _Queue(0), draw.choice(TOPICS), runs)
    if runs:
        gathered = run.units_by_target(runs)
        assert sum(len(units) for _, _, units in gathered) == run.units_end
    begin, stop = draw.choice((0, 0, 3, len(data) + 3)), draw.choice((len(data), len(data) - 1))
    try:
        at, _ = kernel.whole_records(data, begin, stop, draw.choice((0, 100, 1 << 30)))
    except ValueError:
        assert stop > len(data) or begin > len(data) or begin < 0
    else:
        assert begin <= at <= max(begin, stop)


def check_sequences(data: bytes, draw: Random) -> None:
    """A batch gets its producer's sequences whole, or is refused by a number."""
    buffer, producer = exact(data), draw.choice((b"p", b"p", b"producer1", b""))
    first = draw.choice((0, 5, (1 << 62) - 1))
    done = kernel.write_sequences(buffer, 0, len(buffer), draw.choice((4096, 1 << 20, 91)), producer, first)
    if done < 0:
        assert kernel.why_refused(done, buffer, 0, len(buffer)).startswith(codes.REASONS[done])
    elif done and producer:
        stretches = kernel.sequenced_stretches(bytes(buffer))
        assert [(stretch[0], stretch[1], stretch[2]) for stretch in stretches] == [
            (producer.decode(), first, first + done - 1)
        ]


def check_lights(data: bytes, draw: Random) -> None:
    """A batch's records get their offsets in all light queues, or none; the same are read from them."""
    buffer, ends = exact(data), {"%LMQ%a": draw.choice((0, 5, (1 << 62)))}
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    if run.scan(buffer, 0, len(buffer), 0) == 0 or run.end != len(buffer):
        return
    units = bytes(memoryview(run.units)[: run.units_end])
    before = dict(ends)
    done = kernel.write_light_offsets(buffer, 0, len(buffer), ends, lambda _: 7)
    found = kernel.light_units(bytes(buffer), units)
    if done < 0:
        assert codes.REASONS[done]
        assert ends["%LMQ%a"] == before["%LMQ%a"]
    elif done:
        assert len(found) == done
        for name, offset, _ in found:
            assert 0 <= offset < ends[name]


def attributes(message: Any) -> Iterable[str]:
    """Every attribute of a message that a user may read."""
    return (name for name in dir(type(message)) if not name.startswith("_") and name not in {"tried_again", "leased"})


def check_decode(data: bytes, draw: Random) -> None:
    """Whatever is decoded may be read: each attribute, each slice; encoded again from them, it is the same bytes."""
    messages = decode_batch(data, "broker-a", draw.choice((0x7FFFFFFF, 4096)))
    assert len(messages) == len(messages.positions)
    kernel.ended_waits(data)
    kernel.sequenced_stretches(data)
    for message in messages:
        for name in attributes(message):
            try:
                getattr(message, name)
            except (CorruptRecordError, RemoteProtocolError):
                continue
        repr(message)
        assert (
            message.record == messages.data[messages.positions[0] :][: message.size_bytes] or message is not messages[0]
        )
    part = messages.slice(len(messages) // 2, len(messages))
    assert part.size_bytes + messages.slice(0, len(messages) // 2).size_bytes == len(messages.data)


def _units(draw: Random) -> bytes:
    data, at = bytearray(), 0
    for _ in range(draw.choice((1, 3, 16, 100))):
        size = draw.choice((91, 100, 100, 200, 0x7FFFFFFF))
        data += struct.pack(">qIq", at, size, draw.choice((0, 1, 2, -5, -(1 << 40))))
        at += size if size != 0x7FFFFFFF else 0
    fields = [
        (at, width) for begin in range(0, len(data), 20) for at, width in ((begin, 8), (begin + 8, 4), (begin + 12, 8))
    ]
    return bytes(mutated(data, draw, fields))


def check_select(data: bytes, draw: Random) -> None:
    """What is taken lies within the limits, in as many ranges as there is room for; both forms take the same."""
    number = draw.getrandbits(32)
    found = _selected(kernel, data, Random(number))
    if number % 4 == 0:
        assert found == _selected(interpreted_kernel(), data, Random(number))


def _selected(kernel: Any, data: bytes, draw: Random) -> list[Any]:
    runs_max, limit = draw.choice((1, 2, 64)), draw.choice((0, 91, 5000, 1 << 62, (1 << 63) - 1, -1))
    selector: UnitSelector = kernel.UnitSelector(runs_max)
    codes = draw.choice(((), (1,), (1, 2, -5), tuple(range(40))))
    selector.select(exact(data), 0, len(data), codes, draw.choice((1, 5, 64)), draw.choice((-1, 100, 1 << 40)), limit)
    assert selector.run_count <= runs_max
    assert selector.matched <= selector.examined <= len(data) // 20
    ranges = [(selector.runs[2 * i], selector.runs[2 * i + 1]) for i in range(selector.run_count)]
    assert all(0 <= begin <= end <= max(limit, 0) for begin, end in ranges)
    assert sum(end - begin for begin, end in ranges) == selector.size_bytes
    return [ranges, selector.matched, selector.examined]


def check_search(data: bytes, draw: Random) -> None:
    """Units that point anywhere into records that hold anything: values are found within them, or not at all."""
    base = draw.choice((0, 0, 1 << 40))
    units, at = bytearray(), 0
    while at + 91 <= len(data) and len(units) < 2000:
        size = struct.unpack_from(">I", data, at)[0]
        units += struct.pack(">qIq", base + at, size, 0)
        if draw.randrange(4) == 0:
            offset = base + draw.choice((at, -1, len(data), some_number(draw, len(data))))
            units += struct.pack(">qIq", min(offset, (1 << 63) - 1), draw.choice(EDGES) & 0xFFFFFFFF, 0)
        at += max(size, 1)
    selector = UnitSelector(draw.choice((1, 2, 64)))
    names = tuple(draw.sample(NAMES, draw.randrange(1, 5)))
    needs = tuple(
        (draw.randrange(len(names)), draw.randrange(8), draw.choice((1.0, -5.0, b"x", b"12345")))
        for _ in range(draw.choice((0, 1, 3, 80)))
    )
    selector.select_where(
        bytes(units), exact(data), base, names, needs, lambda _: draw.randrange(2) == 0, draw.choice((1, 64)),
        draw.choice((100, 1 << 40)), lambda: draw.randrange(10) > 0,
    )  # fmt: skip
    ranges = [(selector.runs[2 * i], selector.runs[2 * i + 1]) for i in range(selector.run_count)]
    assert all(base <= begin <= end <= base + len(data) for begin, end in ranges)


def _first_says(data: bytes) -> tuple[bytes, int, int, int] | None:
    """(topic, queue id, queue offset, position) of the first record; None where it is none."""
    size = struct.unpack_from(">I", data)[0] if len(data) >= 4 else 0
    try:
        first = kernel.decode_record(bytes(data[:size]))
        return first.topic.encode(), first.queue_id, first.queue_offset, first.physical_offset
    except (CorruptRecordError, UnicodeError):
        return None


def check_stranger(data: bytes, draw: Random) -> None:
    """Units that point anywhere into records that hold anything: each one that is named as a stranger's is none of its queue,
    those at the ends of what passes are; both forms say the same."""
    number = draw.getrandbits(32)
    found = _strangers(kernel, data, Random(number))
    if number % 4 == 0:
        assert found == _strangers(interpreted_kernel(), data, Random(number))


def _strangers(kernel: Any, data: bytes, draw: Random) -> list[Any]:
    base, slot = draw.choice((0, 0, 1 << 40)), draw.choice((0, 1, 5, -1, (1 << 62) - 3))
    topic, queue_id = draw.choice(TOPICS), draw.choice((0, 1, 7, -1))
    first = _first_says(data)
    if first is not None and max(first[2:]) < 1 << 62 and min(first[2:]) >= 0 and draw.randrange(4):
        topic, queue_id, slot, base = first
    units, at = bytearray(), 0
    while at + 91 <= len(data) and len(units) < 2000:
        size = struct.unpack_from(">I", data, at)[0]
        wrong = draw.randrange(4) == 0
        offset = base + (some_number(draw, len(data)) % (len(data) + 2) if wrong else at)
        length = draw.choice(EDGES) & 0xFFFFFFFF if wrong and draw.randrange(2) else size
        units += struct.pack(">qIq", offset, length, 0)
        at += max(size, 1)
    selector: UnitSelector = kernel.UnitSelector(draw.choice((1, 2, 64)))
    selector.select(exact(bytes(units)), 0, len(units), (), 64, 1 << 40, draw.choice((1 << 62, base + len(data))))
    limit = draw.choice((len(data), len(data), draw.randrange(len(data) + 1)))
    stranger = selector.stranger(exact(data[:limit]), base, topic, queue_id, slot)
    assert -1 <= stranger < selector.examined
    assert 0 <= selector.checked <= selector.run_count
    if stranger >= 0:
        place, size, _ = struct.unpack_from(">qIq", units, 20 * stranger)
        begin = place - base
        assert not kernel.is_record_of(exact(data[begin : begin + size]), place, topic, queue_id, slot + stranger)
    return [stranger, selector.checked]


def check_is_record(data: bytes, draw: Random) -> None:
    """What passes for a record of a queue has that topic, queue and place; both forms say the same."""
    size = struct.unpack_from(">I", data)[0] if len(data) >= 4 else 0
    cut = draw.choice((len(data), size, size, size + 1, max(size - 1, 0), draw.randrange(len(data) + 1)))
    part = bytes(data[:cut])
    place, queue_id, slot = draw.choice((0, 0, 4096, -1)), draw.choice((0, 1, 7)), draw.choice((0, 1, 5, 1 << 62))
    topics, first = TOPICS, _first_says(data)
    if first is not None and draw.randrange(4):
        topics, queue_id, slot, place = (*TOPICS, first[0]), *first[1:]
    for topic in topics:
        found = kernel.is_record_of(exact(part), place, topic, queue_id, slot)
        assert found == interpreted_kernel().is_record_of(exact(part), place, topic, queue_id, slot)
        if found:
            assert (int.from_bytes(part[:4], "big"), int.from_bytes(part[28:36], "big")) == (
                len(part),
                place & (1 << 64) - 1,
            )
            assert (int.from_bytes(part[12:16], "big"), int.from_bytes(part[20:28], "big")) == (
                queue_id & 0xFFFFFFFF,
                slot & (1 << 64) - 1,
            )
            assert topic in part[88:]


_LONGS = ("queueOffset", "bornTimestamp", "storeTimestamp", "bodyCrc")
_INTS = ("queueId", "reconsumeTimes", "flag", "sysFlag")
_TEXTS = ("messageId", "keys", "tags", "messageGroup", "traceparent", "body")


def _columns(draw: Random, rows: int) -> dict[str, Any]:
    """Some columns, with much room or little."""

    def room(count: int, letter: str) -> memoryview:
        return memoryview(array.array(letter, bytes(count * array.array(letter).itemsize)))

    def texts(count: int, *, has_nulls: bool = True) -> Any:
        data_bytes = draw.choice((0, 10, 200, 5000, 300_000))
        return kernel.BytesColumn(
            room(count + 1, "i"), room(data_bytes, "B"), room((count + 7) // 8 if has_nulls else 0, "B")
        )

    columns: dict[str, Any] = {}
    for name in (*_LONGS, *_INTS, *_TEXTS):
        if draw.randrange(10) < 7:
            columns[name] = texts(rows) if name in _TEXTS else room(rows, "q" if name in _LONGS else "i")
    if draw.randrange(2):
        columns["deliverTimestamp"] = room(rows, "q"), room((rows + 7) // 8, "B")
    if draw.randrange(2):
        entries = draw.choice((1, 3, 50, 11_000))
        columns["properties"] = room(rows + 1, "i"), texts(entries, has_nulls=False), texts(entries)
    return columns


def check_columns(data: bytes, draw: Random) -> None:
    """Rows are filled while there is room, and never beyond it."""
    messages = decode_batch(data)
    rows = draw.choice((1, 2, 9))
    filler = kernel.ColumnFiller(
        rows, _columns(draw, rows), tags=draw.choice((None, None, (b"x", b"k"))), check_crc=draw.randrange(3) > 0
    )
    at = 0
    for _ in range(4):
        at = filler.fill(messages, at, draw.choice((0, -(1 << 62))), draw.choice((1 << 62, 2)))
        assert filler.rows <= rows
        if at >= len(messages):
            break


def _index(draw: Random) -> bytes:
    slots, entries = draw.choice(((1, 2), (7, 9), (16, 50)))
    data = bytearray(8 + 40 + 4 * slots + 20 * entries)
    struct.pack_into(">II", data, 0, slots, entries)
    hashes = memoryview(array.array("I", [draw.getrandbits(31) for _ in range(entries - 1)]))
    offsets = memoryview(array.array("q", [draw.getrandbits(40) for _ in range(entries - 1)]))
    kernel.index_insert(memoryview(data)[8:], slots, 1, hashes, offsets, 0, entries - 1, 1)
    return bytes(mutated(data, draw, [(at, 4) for at in range(8, len(data), 4)]))


def check_index(data: bytes, draw: Random) -> None:
    """A damaged index file is searched and filled within its bytes."""
    slots, entries = struct.unpack_from(">II", data.ljust(8, b"\0"))
    slots, entries = slots & 0x7FFFFFFF, entries & 0x7FFFFFFF
    file = exact(data[8:])
    hashes = memoryview(array.array("I", [draw.getrandbits(32) for _ in range(4)]))
    offsets = memoryview(array.array("q", [draw.getrandbits(40) for _ in range(4)]))
    found_max = draw.choice((1, 100))
    below, behind = draw.choice((1 << 39, 1 << 62)), some_number(draw, entries) & 0x7FFFFFFFFFFFFFFF
    found, last, _ = kernel.index_search(
        file,
        slots,
        draw.choice((1, entries)),
        hashes[0],
        0,
        1 << 40,
        found_max,
        below,
        behind,
        draw.choice((1, 1 << 62)),
    )
    assert len(found) <= found_max
    assert 0 <= last < max(entries, 1)
    first = draw.choice((0, 1, entries, some_number(draw, entries) & 0x7FFFFFFFFFFFFFFF))
    kernel.index_insert(file, slots, first, hashes, offsets, 0, 4, -1)


def _texts_to_send(draw: Random) -> bytes:
    return b"\x00".join(draw.choice((*VALUES, *NAMES)) for _ in range(draw.randrange(12)))


def check_accumulator(data: bytes, draw: Random) -> None:
    """Whatever a user sends is refused, or decoded as it was sent."""
    topic = draw.choice(TOPICS[:5])
    batch = Accumulator(
        topic, draw.choice((1, 100, 4096)), id_prefix=bytes(10), born_host=bytes(draw.choice((8, 20))),
        store_host_bytes=draw.choice((8, 20)), own_properties=draw.choice((b"", b"a\x01b\x02")),
    )  # fmt: skip
    batch.begin(1, 2)
    sent: list[bytes] = []
    for body in data.split(b"\x00"):
        text = body.decode("utf-8", "replace")
        tags, keys = draw.choice((None, "t", text)), draw.choice((None, "k", text, ["a", text]))
        try:
            if batch.append(body, tags, keys, draw.choice((b"", b"x\x01y\x02", bytes(40_000)))):
                sent.append(body)
                continue
        except (MessageIllegal, MessageTooLarge):
            continue
        filled, used, *_ = batch.swap(bytearray(draw.choice((1, 5000))))
        assert [message.body for message in decode_batch(bytes(filled[:used]))] == sent
        sent = []


KERNEL_TARGETS = (
    Target("stamp", _sent, check_stamp),
    Target("scan", _stored, check_scan),
    Target("sequences", _sent, check_sequences),
    Target("lights", _stored, check_lights),
    Target("batches", _wrapped, check_batches, (CorruptRecordError,)),
    Target("decode", _stored, check_decode, (CorruptRecordError,)),
    Target("select", _units, check_select),
    Target("search", _stored, check_search),
    Target("stranger", _stored, check_stranger),
    Target("is-record", _stored, check_is_record),
    Target("columns", _stored, check_columns, (CorruptRecordError,)),
    Target("index", _index, check_index, (ValueError,)),
    Target("accumulator", _texts_to_send, check_accumulator),
)
