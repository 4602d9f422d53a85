"""Damaged units of queues: nobody gets another message for one, a scrub and a read rebuild them, a verify names them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from store_kit import StillClock, get, make_store, message, put, read_queue

from zenitmq.model.get_status import GetStatus
from zenitmq.record.layout import UNIT
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import verify_store

LARGE = {"segment_bytes": 65536, "queue_file_units": 1000}
COUNT = 40
FLIPS = [(7, 0), (7, 4), (6, 4), (6, 0), (5, 2), (3, 0), (0, 7), (11, 0), (11, 5), (10, 3), (8, 7), (9, 2)]


def filled(directory: Path) -> None:
    """Two topics' records by turns, of 256 bytes each, so that one bit of a place leads from one to the other."""

    def record(topic: str, body: bytes) -> bytes:
        missing = 256 - len(message(topic, body))
        return message(topic, body + b"." * missing)

    with make_store(directory, **LARGE) as store:
        for number in range(COUNT):
            put(store, "pub", 0, record("pub", b"pub%02d" % number))
            put(store, "sec", 0, record("sec", b"SECRET%02d" % number))
        store.flush_all(20_000)


def unit_file(directory: Path, topic: str = "pub") -> Path:
    return directory / "consumequeue" / topic / "0" / f"{0:020d}"


def flip(directory: Path, unit: int, byte: int, bit: int) -> None:
    path = unit_file(directory)
    data = bytearray(path.read_bytes())
    data[unit * 20 + byte] ^= 1 << bit
    path.write_bytes(data)


def scrub(store: MessageStore) -> int:
    """All of the log, as the broker does it a step at a time."""
    checkers, at, mended = (store.log_checker(), store.queue_checker()), store.begin, 0
    while at < store.flushed:
        checked, wrong = store.damaged_units.check(*checkers, at, bytes_max=4096, limit=store.flushed)
        mended += store.damaged_units.set_right(wrong)
        at = checked.end
    return mended


def numbers(store: MessageStore) -> list[int]:
    found = read_queue(store, "pub", 0)
    assert {one.topic for one in found} <= {"pub"}
    assert [int(bytes(one.body)[3:5]) for one in found] == [one.queue_offset for one in found]
    return [one.queue_offset for one in found]


@pytest.mark.parametrize(("byte", "bit"), FLIPS)
@pytest.mark.parametrize("unit", [0, 5, 20, COUNT - 1])
def test_a_flipped_bit_gives_nobody_another_message_and_is_rebuilt(
    tmp_path: Path, unit: int, byte: int, bit: int
) -> None:
    filled(tmp_path)
    whole = unit_file(tmp_path).read_bytes()
    flip(tmp_path, unit, byte, bit)
    told = verify_store(str(tmp_path))
    assert (told["damaged"], told["damaged_units"]) == ([], 1)
    assert told["first_units"] == [{"topic": "pub", "queue_id": 0, "queue_offset": unit}]
    with make_store(tmp_path, **LARGE) as store:
        assert (store.min_offset("pub", 0), store.max_offset("pub", 0)) == (0, COUNT), "no message is hidden"
        assert numbers(store) == [*range(unit)], "a read ends before it"
        result = get(store, "pub", 0, unit, max_messages=5, max_bytes=2000)
        assert (result.count, result.misplaced) == (0, unit)
        misplaced = store.damaged_units.misplaced("pub", 0, unit)
        assert misplaced is not None
        found = store.damaged_units.find(misplaced)
        assert found is not None
        assert found.unit == whole[unit * 20 : unit * 20 + 20]
        assert scrub(store) == 1
        assert numbers(store) == [*range(COUNT)]
        assert scrub(store) == 0
        assert store.damaged_units.set_right([found]) == 0, "it is not there any more"
    assert verify_store(str(tmp_path))["damaged_units"] == 0
    assert unit_file(tmp_path).read_bytes() == whole


def test_a_page_of_zeros_in_a_queue_is_rebuilt(tmp_path: Path) -> None:
    filled(tmp_path)
    whole = unit_file(tmp_path).read_bytes()
    unit_file(tmp_path).write_bytes(whole[:200] + bytes(300) + whole[500:])
    with make_store(tmp_path, **LARGE) as store:
        assert scrub(store) == 15
        assert numbers(store) == [*range(COUNT)]


def test_the_next_message_gets_no_offset_that_was_given(tmp_path: Path) -> None:
    filled(tmp_path)
    flip(tmp_path, COUNT - 1, 5, 2)
    with make_store(tmp_path, **LARGE) as store:
        put(store, "pub", 0, message("pub", b"pub%02d" % COUNT))
        assert scrub(store) == 1
        assert numbers(store) == [*range(COUNT + 1)]


def test_a_record_of_a_deleted_topic_is_nobodys_unit(tmp_path: Path) -> None:
    with make_store(tmp_path, **LARGE) as store:
        for number in range(10):
            put(store, "pub", 0, message("pub", b"old%02d" % number))
        store.delete_topic("pub", store.written)
        first = put(store, "pub", 0, message("pub", b"new00"))
        for number in range(1, 6):
            put(store, "pub", 0, message("pub", b"new%02d" % number))
        store.flush_all(20_000)
        queue = store._queues.get("pub", 0)
        assert queue is not None
        assert scrub(store) == 0
        for slot in (0, 3, 5):
            queue.append(slot, UNIT.pack(1 << 40, 9, 9))
        misplaced = store.damaged_units.misplaced("pub", 0, 0)
        assert misplaced is not None
        found = store.damaged_units.find(misplaced)
        assert found is not None
        assert int.from_bytes(found.unit[:8], "big") == first.physical_offset
        assert scrub(store) == 3
        assert [bytes(one.body) for one in read_queue(store, "pub", 0)] == [b"new%02d" % number for number in range(6)]


def test_a_message_that_the_log_has_not_is_told_as_lost(tmp_path: Path) -> None:
    filled(tmp_path)
    flip(tmp_path, 7, 6, 4)
    with make_store(tmp_path, **LARGE) as store:
        place = store.position_of("pub", 0, 6)
        assert place is not None
        store.damage.add(place + 512, place + 768, "in a test")  # the record, whose unit is damaged too
        misplaced = store.damaged_units.misplaced("pub", 0, 7)
        assert misplaced is not None
        assert store.damaged_units.find(misplaced) is None
        store.damaged_units.give_up(misplaced)
        store.damage.quarantine.awaited = store.damage.quarantine.rotten
        assert get(store, "pub", 0, 7, max_messages=9, max_bytes=9999).status == GetStatus.OFFSET_OVERFLOW_ONE
        store.damage.quarantine.awaited = ()
        lost = get(store, "pub", 0, 7, max_messages=9, max_bytes=9999)
        assert (lost.status, lost.lost_from, lost.next_offset) == (GetStatus.MESSAGES_LOST, 7, 8)
        store.damage.on_whole(place + 512, place + 768)
        assert numbers(store) == [*range(COUNT)], "and it is there again once a replica has given it"


def test_what_is_cold_is_looked_at_once_it_is_in_memory(tmp_path: Path) -> None:
    filled(tmp_path)
    flip(tmp_path, 5, 6, 0)
    with make_store(tmp_path, StillClock(), **LARGE) as store:
        store._reader._hot_bytes = 0
        result = store.get_messages("pub", 0, 0, max_messages=20, max_bytes=1 << 20)
        assert (result.is_cold, result.count > 5) == (True, True)
        assert result.find_misplaced is not None
        assert result.find_misplaced() == 5


def test_the_kernel_compares_a_runs_first_and_last_record(kernel: ModuleType) -> None:
    records = [bytearray(kernel.encode_record(topic=b"trades", body=b"x" * size)) for size in (10, 20, 30)]
    at, units = 1000, b""
    for number, record in enumerate(records):
        record[12:16], record[20:28], record[28:36] = (
            (3).to_bytes(4, "big"),
            (50 + number).to_bytes(8, "big"),
            at.to_bytes(8, "big"),
        )
        units += UNIT.pack(at, len(record), 0)
        at += len(record)
    selector = kernel.UnitSelector()
    assert selector.select(units, 0, 60, (), 9, 1 << 20, 1 << 40) == 3
    data = b"".join(bytes(record) for record in records)

    def told(data: bytes = data, topic: bytes = b"trades", queue: int = 3, slot: int = 50) -> int:
        selector.select(units, 0, 60, (), 9, 1 << 20, 1 << 40)
        found: int = selector.stranger(data, 1000, topic, queue, slot)
        return found

    assert selector.run_count == 1
    assert (told(), told(topic=b"tradez"), told(topic=b"trade"), told(queue=4), told(slot=51)) == (-1, 0, 0, 0, 0)
    last = len(records[0]) + len(records[1])
    assert told(data[:last] + bytes(30) + data[last + 30 :]) == 2
    assert (told(data[:-1]), selector.checked, told(), selector.checked) == (-1, 0, -1, 1), "what is not there is left"
