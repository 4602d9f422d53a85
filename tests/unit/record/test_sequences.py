"""Who sent which message as what: written into records by the broker, and read back from them."""

from __future__ import annotations

from types import ModuleType

import pytest
from store_kit import make_store

from zenitmq.model.sequence import sequence_room
from zenitmq.record import codes
from zenitmq.record.kernel import encode_record, sequenced_stretches, write_sequences
from zenitmq.record.sys_flag import SEQUENCED

MORE = b"KEYS\x01k1 k2\x02UNIQ_KEY\x01" + b"0" * 32 + b"\x02"


def record(kernel: ModuleType, properties: bytes = b"", **fields: object) -> bytes:
    return bytes(kernel.encode_record(topic=b"t", body=b"body", properties=properties, **fields))


def fill_in(kernel: ModuleType, data: bytearray, producer_id: bytes = b"p-1", first: int = 0) -> int:
    return int(kernel.write_sequences(data, 0, len(data), 1 << 20, producer_id, first))


@pytest.mark.parametrize("first", [0, 9, 15, 0xABC0, (1 << 63) - 4])
@pytest.mark.parametrize("host", [bytes(8), bytes(20)])
def test_what_is_written_is_read(kernel: ModuleType, first: int, host: bytes) -> None:
    room = sequence_room(3)
    data = bytearray(
        b"".join(record(kernel, properties, born_host=host) for properties in (room, MORE + room, b"a\x01b\x02" + room))
    )
    assert fill_in(kernel, data, first=first) == 3
    assert kernel.sequenced_stretches(data) == [("p-1", first, first + 2, 0, 0, len(data))]
    second = kernel.decode_batch(bytes(data))[1]
    assert second.properties["PSEQ"] == f"p-1:{first + 1:016X}"
    assert second.keys == ("k1", "k2")
    assert second.sys_flag & SEQUENCED


def test_stretches_end_where_the_producer_or_the_sequence_does(kernel: ModuleType) -> None:
    parts = []
    for producer_id, first, count in ((b"a", 5, 2), (b"a", 8, 1), (b"b", 9, 1), (b"cc", 10, 2)):
        data = bytearray(record(kernel, sequence_room(len(producer_id))) * count)
        assert fill_in(kernel, data, producer_id, first) == count
        parts.append(bytes(data))
    parts.insert(3, record(kernel, sequence_room(1)))  # blank: nobody's
    parts.append(record(kernel))
    size = [len(part) for part in parts]
    at = [sum(size[:index]) for index in range(len(size) + 1)]
    assert kernel.sequenced_stretches(b"".join(parts)) == [
        ("a", 5, 6, 0, 0, at[1]),
        ("a", 8, 8, 2, at[1], at[2]),
        ("b", 9, 9, 3, at[2], at[3]),
        ("cc", 10, 11, 5, at[4], at[5]),
    ]


@pytest.mark.parametrize(
    "value",
    [b"p-1", b"p-1:00000000000000G0", b"p-1:8000000000000000", b":0000000000000000", b"p-1.0000000000000000", b"x"],
)
def test_what_the_broker_does_not_write_is_no_sequence(kernel: ModuleType, value: bytes) -> None:
    """However it got there: the record is a message all the same."""
    data = record(kernel, b"PSEQ\x01" + value + b"\x02", sys_flag=SEQUENCED)
    assert kernel.sequenced_stretches(data) == []


def test_records_without_the_room_are_refused(kernel: ModuleType) -> None:
    room = sequence_room(3)
    for properties in (b"", MORE, sequence_room(2), sequence_room(4), room[:-1], b"PSEQ", b"x" + room):
        assert fill_in(kernel, bytearray(record(kernel, room) + record(kernel, properties))) == codes.BAD_SEQUENCE_ROOM
    assert fill_in(kernel, bytearray(record(kernel, room, sys_flag=SEQUENCED))) == codes.BAD_SYS_FLAG
    assert fill_in(kernel, bytearray(record(kernel, room, sys_flag=4))) == codes.BAD_SYS_FLAG
    assert fill_in(kernel, bytearray(record(kernel, room, prepared_transaction_offset=-1))) == codes.BAD_TRANSACTION
    assert fill_in(kernel, bytearray(record(kernel, room)[:-1])) == codes.BAD_SIZE
    hurt = bytearray(record(kernel, room) * 2)
    hurt[len(hurt) // 2 + 88] ^= 1
    assert fill_in(kernel, hurt) == codes.BAD_BODY_CRC
    assert "message 1 " in kernel.why_refused(codes.BAD_BODY_CRC, hurt, 0, len(hurt))
    assert kernel.write_sequences(bytearray(10), 0, 11, 1 << 20, b"p", 0) == codes.BAD_SIZE


def test_a_client_may_not_say_that_a_record_counts(kernel: ModuleType) -> None:
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    data = bytearray(record(kernel, sequence_room(3), sys_flag=SEQUENCED))
    assert run.stamp(data, 0, len(data), b"t", 0, 1, 0, 0, 0, 1) == codes.BAD_SYS_FLAG
    assert run.stamp(data, 0, len(data), b"t", 0, 1, 0, 0, 0, 1, True) == 1


def test_a_scan_tells_of_a_run_that_holds_some(kernel: ModuleType) -> None:
    """Whichever record of the run it is."""
    made, at = b"", 0
    for index in range(3):
        flag = SEQUENCED if index == 1 else 0
        made += record(kernel, sequence_room(3), queue_offset=index, physical_offset=at, sys_flag=flag)
        at = len(made)
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    assert run.scan(memoryview(made), 0, len(made), 0) == 3
    assert run.sys_flag == SEQUENCED


def test_an_accumulators_records_have_its_own_properties(kernel: ModuleType) -> None:
    room = sequence_room(3)
    accumulator = kernel.Accumulator(b"t", 4096, id_prefix=bytes(10), own_properties=room)
    accumulator.begin(1, 1)
    assert accumulator.append(b"x", "tag", "key", b"a\x01b\x02")
    assert accumulator.append_many([b"y", b"z"], 0) == 2
    buffer, used, *_ = accumulator.swap(bytearray(4096))
    data = bytearray(memoryview(buffer)[:used])
    assert fill_in(kernel, data) == 3
    messages = kernel.decode_batch(bytes(data))
    assert [message.properties["PSEQ"][-1] for message in messages] == ["0", "1", "2"]
    assert messages[0].properties["a"] == "b"
    assert messages[0].tags == "tag"
    assert len(messages[0].message_id) == 32


class Told:
    """A dispatcher that wants nothing but runs with sequences."""

    topics: frozenset[str] = frozenset()
    run_flags = SEQUENCED

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []

    def on_run(self, run) -> None:
        if run.sys_flag & SEQUENCED:
            self.stretches += [(first, last) for _, first, last, *_ in sequenced_stretches(run.records)]

    def advance(self, end: int) -> None:
        pass

    def reflected(self) -> int:
        return 0

    def persist(self) -> int:
        return 0


def test_a_batch_larger_than_a_segment_is_told_in_its_pieces(tmp_path) -> None:
    """By the store that takes it, and by one that replays it."""
    live, replayed = Told(), Told()
    count = 10
    data = bytearray(encode_record(topic=b"t", body=bytes(1000), properties=sequence_room(3)) * count)
    assert write_sequences(data, 0, len(data), 1 << 20, b"p-1", 0) == count
    with make_store(tmp_path, dispatchers=(live,)) as store:
        store.arena.view[: len(data)] = data
        placed = store.stage(0, len(data), "t", 0, count, True, SEQUENCED)
        store.commit()
    with make_store(tmp_path, dispatchers=(replayed,)):
        pass
    ends = [sum(number for number, _ in placed.pieces[: index + 1]) for index in range(len(placed.pieces))]
    assert len(ends) > 1
    assert live.stretches == [(end - number, end - 1) for end, (number, _) in zip(ends, placed.pieces, strict=True)]
    assert replayed.stretches == live.stretches
