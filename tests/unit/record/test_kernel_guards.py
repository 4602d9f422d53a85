"""What the kernels are told is checked before they touch memory by it: counts, offsets, rooms, and who made an object."""

from __future__ import annotations

import struct
from types import GetSetDescriptorType, ModuleType
from typing import Any

import pytest

from column_kit import Columns, numbers
from zenitmq.model.errors import HostTooNarrow
from zenitmq.record import codes
from zenitmq.record.codes import BAD_OFFSET, BAD_SIZE
from zenitmq.record.kernel_host import check_host

LAST = (1 << 63) - 1  # no offset is higher
DAMAGED = [(-1, 0xFFFFFFFF, -1), (-1, 100, 0), (-100, 100, 0), (-(1 << 63), 0x7FFFFFFE, 0)]  # offset, size, tags code


def units(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack(">qIq", *row) for row in rows)


def selected(selector: Any) -> tuple[int, int, list[tuple[int, int]]]:
    runs = [(selector.runs[2 * i], selector.runs[2 * i + 1]) for i in range(selector.run_count)]
    return selector.examined, selector.matched, runs


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_unit_that_names_no_place_in_the_log_ends_the_answer(
    kernel: ModuleType, damaged: tuple[int, int, int]
) -> None:
    """So that its reader learns of it: what is passed over is lost silently."""
    data = units((0, 0x7FFFFFFF, 0), (0, 100, 0), damaged, (100, 10, 0))
    selector = kernel.UnitSelector()
    assert selector.select(data, 0, len(data), (), 100, 1 << 20, 1 << 40) == 1
    assert selected(selector) == (2, 1, [(0, 100)])
    assert selector.select(data, 40, 80, (-1,), 100, 1 << 20, 1 << 40) == 0
    assert selected(selector) == (0, 0, [])


@pytest.mark.parametrize("unit", [(LAST, 1, 0), (LAST, 0xFFFFFFFF, 0), (LAST - 91, 100, 0)])
def test_a_unit_whose_end_has_no_number_is_behind_every_limit(kernel: ModuleType, unit: tuple[int, int, int]) -> None:
    data = units((0, 100, 0), unit)
    selector = kernel.UnitSelector()
    for limit in (100, 1 << 40, LAST):
        assert selector.select(data, 0, len(data), (), 100, 1 << 20, limit) == 1
        assert selected(selector) == (1, 1, [(0, 100)])
    assert selector.select(data, 0, len(data), (), 100, 1 << 20, -1) == 0


def test_units_that_are_not_there_are_not_read(kernel: ModuleType) -> None:
    data = units((0, 100, 0))
    selector = kernel.UnitSelector()
    for begin, end in ((0, 21), (-20, 20), (20, 0), (1 << 62, LAST)):
        with pytest.raises(ValueError, match="units"):
            selector.select(data, begin, end, (), 100, 1 << 20, 1 << 40)


def select_where(kernel: ModuleType, data: bytes, records: bytes, base: int, needs: tuple[Any, ...] = ()) -> Any:
    selector = kernel.UnitSelector()
    selector.select_where(
        data, memoryview(records), base, (b"a",), needs, lambda values: True, 100, 1 << 20, lambda: True
    )
    return selected(selector)


def test_a_search_stops_before_damaged_units_and_before_what_it_has_not(kernel: ModuleType) -> None:
    record = kernel.encode_record(topic=b"trades", body=b"x")
    for damaged in DAMAGED:
        data = units((0, 0x7FFFFFFF, 0), (0, len(record), 0), damaged, (0, len(record), 0))
        assert select_where(kernel, data, record, 0) == (2, 1, [(0, len(record))])
    for behind in ((LAST, 1, 0), (LAST, 0xFFFFFFFF, 0), (1, len(record), 0)):
        data = units((0, len(record), 0), behind)
        assert select_where(kernel, data, record, 0) == (1, 1, [(0, len(record))])


def test_a_search_refuses_what_it_cannot_number(kernel: ModuleType) -> None:
    record = kernel.encode_record(topic=b"trades", body=b"x")
    for base in (-1, LAST, LAST - len(record) + 1):
        with pytest.raises(ValueError, match="position"):
            select_where(kernel, units((0, 100, 0)), record, base)
    for place in (-1, 1, 1 << 40):
        with pytest.raises(ValueError, match="no name"):
            select_where(kernel, units((0, 100, 0)), record, 0, ((place, 7, 1.0),))


@pytest.mark.parametrize(("begin", "end"), [(0, 1 << 40), (-1, 50), (-91, 91), (60, 50), (LAST, LAST), (1 << 40, 50)])
def test_a_scan_and_a_stamp_stay_within_their_buffer(kernel: ModuleType, begin: int, end: int) -> None:
    record = kernel.encode_record(topic=b"trades", body=b"x" * 50)
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    assert run.scan(record, begin, end, 0) == 0
    assert (run.status, run.units_end) == (BAD_SIZE, 0)
    topic_hash = kernel.index_topic_hash(b"trades")
    stamped = run.stamp(bytearray(record), begin, end, b"trades", topic_hash, 1, 0, 0, 0, 0)
    assert (stamped, run.units_end) == (BAD_SIZE, 0)
    assert kernel.write_sequences(bytearray(record), begin, end, 1 << 20, b"p", 0) == BAD_SIZE


@pytest.mark.parametrize("offset", [-1, -(1 << 63), LAST, LAST - 50])
def test_no_record_lies_where_offsets_end(kernel: ModuleType, offset: int) -> None:
    record = kernel.encode_record(topic=b"trades", body=b"x", physical_offset=offset)
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    assert run.scan(record, 0, len(record), offset) == 0
    assert (run.status, run.units_end) == (BAD_OFFSET, 0)
    topic_hash = kernel.index_topic_hash(b"trades")
    assert run.stamp(bytearray(record), 0, len(record), b"trades", topic_hash, 1, 0, 0, offset, 0) == BAD_OFFSET
    last = LAST - len(record)
    made = kernel.encode_record(topic=b"trades", body=b"x", physical_offset=last)
    assert run.scan(made, 0, len(made), last) == 1


@pytest.mark.parametrize("kind", ["StoredMessage", "MessageBatch"])
def test_what_no_decoder_made_is_refused(kernel: ModuleType, kind: str) -> None:
    made = getattr(kernel, kind)
    with pytest.raises(TypeError, match=kind):
        made()
    read = [name for name, value in vars(made).items() if isinstance(value, property | GetSetDescriptorType)]
    for name in [name for name in read if not name.startswith("_") and name != "lease"]:  # which is no view of memory
        with pytest.raises((AttributeError, TypeError)):
            getattr(made.__new__(made), name)
    (message,) = kernel.decode_batch(kernel.encode_record(topic=b"trades", body=b"x"))
    assert message.topic == "trades"
    with pytest.raises(TypeError, match=kind):
        made()


def test_an_index_file_is_neither_read_nor_written_beyond_its_room(kernel: ModuleType) -> None:
    file = bytearray(40 + 4 * 7 + 20 * 9)
    hashes, offsets = memoryview(bytearray(4 * 2)).cast("I"), memoryview(bytearray(8 * 2)).cast("q")
    for begin, end in ((-1, 1), (1, 0), (0, 3), (0, LAST)):
        with pytest.raises(ValueError, match="keys"):
            kernel.index_insert(file, 7, 1, hashes, offsets, begin, end, 0)
    with pytest.raises(ValueError, match="keys"):
        kernel.index_insert(file, 7, 1, hashes, offsets[:1], 0, 2, 0)
    for slots, first in ((0, 1), (-7, 1), (1 << 61, 1), (7, 0), (7, 9), (7, LAST)):
        with pytest.raises(ValueError, match="room"):
            kernel.index_insert(file, slots, first, hashes, offsets, 0, 2, 0)
    assert not any(file)
    for slots, entries in ((0, 1), (-7, 1), (1 << 61, 1), (7, 10), (7, LAST)):
        with pytest.raises(ValueError, match="shorter"):
            kernel.index_search(file, slots, entries, 1, 0, 1, 1, LAST, 0, 1)


def test_columns_without_room_for_the_rows_are_refused(kernel: ModuleType) -> None:
    bits = memoryview(bytearray(1))
    data = memoryview(bytearray(100))
    nine = {
        "queueOffset": numbers("q", 8),
        "queueId": numbers("i", 8),
        "deliverTimestamp": (numbers("q", 9), bits),
        "keys": kernel.BytesColumn(numbers("i", 10), data, bits),
        "body": kernel.BytesColumn(numbers("i", 9), data, memoryview(bytearray())),
        "properties": (numbers("i", 9), *[kernel.BytesColumn(numbers("i", 2), data, bits)] * 2),
    }
    for name, column in nine.items():
        kernel.ColumnFiller(8, {name: column})
        with pytest.raises(ValueError, match=name):
            kernel.ColumnFiller(9, {name: column})
    with pytest.raises(ValueError, match="one end more"):
        kernel.BytesColumn(numbers("i", 0), data, bits)


def test_columns_are_filled_from_a_message_on_that_there_is(kernel: ModuleType) -> None:
    from zenitmq.record.kernel import decode_batch, encode_record

    batch = decode_batch(encode_record(topic=b"trades", body=b"x"))
    columns = Columns(kernel, ("queueOffset",))
    with pytest.raises(ValueError, match="below zero"):
        columns.fill(batch, -1)
    assert columns.fill(batch, 5) == (5, codes.ALL_TAKEN)


def test_a_host_of_less_than_64_bits_is_refused_by_name() -> None:
    check_host(struct.calcsize("n"))
    with pytest.raises(HostTooNarrow, match="32 bits"):
        check_host(4)
