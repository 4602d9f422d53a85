"""Bytes of the log held to their checksums: what is damaged is named, and nothing else is."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest
from store_kit import make_store, message, put

from zenitmq.store.checksum.checksum_entry import ENTRY
from zenitmq.store.checksum.checksum_reader import ChecksumReader
from zenitmq.store.integrity.log_check import GAP_LEAST_BYTES, Checked
from zenitmq.store.message_store import MessageStore

SEGMENT = 4096
BODY = bytes(range(100))


@pytest.fixture
def store(tmp_path):
    """Three segments; each append holds three messages."""
    with make_store(tmp_path / "s") as store:
        while len(store._log.segments()) < 3:
            put(store, "t", 0, *(message("t", BODY, tags="paid") for _ in range(3)))
        store.flush_all(20_000)
        yield store


class Bytes:
    """The log as a test would have it."""

    def __init__(self, store: MessageStore) -> None:
        self.data = bytearray(b"".join(bytes(segment.map) for segment in store._log.segments()))
        self.reads: list[tuple[int, int]] = []

    def read(self, begin: int, end: int) -> bytes:
        self.reads.append((begin, end))
        return bytes(self.data[begin:end])


def check_all(store: MessageStore, log: Bytes, *, bytes_max: int = 1000) -> list[Checked]:
    checker, found, at = store.log_checker(), [], 0
    while at < store.written:
        found.append(checker.check(log.read, at, bytes_max=bytes_max, limit=store.written))
        assert found[-1].end > at
        at = found[-1].end
    return found


def damage(found: list[Checked]) -> list[tuple[int, int]]:
    return [place for checked in found for place in checked.damaged]


def entries(store: MessageStore) -> list[tuple[int, int]]:
    return [(entry.offset, entry.end) for entry in store._log.checksums.entries(0, store.written)]


@pytest.mark.parametrize("bytes_max", [1, 1000, 1 << 20])
def test_a_whole_log_is_read_once_and_vouched_for(store, bytes_max: int) -> None:
    log = Bytes(store)
    found = check_all(store, log, bytes_max=bytes_max)
    assert damage(found) == []
    appended = sum(end - begin for begin, end in entries(store))
    assert sum(checked.vouched_bytes for checked in found) == sum(checked.read_bytes for checked in found) == appended
    assert log.reads == entries(store)


def test_a_flip_in_a_body_or_a_head_costs_its_record_alone(store) -> None:
    begin, end = entries(store)[1]
    size = (end - begin) // 3
    for at in (begin + size, begin + size + 5, begin + size + 30, begin + 2 * size - 40):
        log = Bytes(store)
        log.data[at] ^= 4
        assert damage(check_all(store, log)) == [(begin + size, begin + 2 * size)], at - begin


def test_a_flip_that_only_the_checksum_sees_costs_its_append(store) -> None:
    begin, end = entries(store)[1]
    log = Bytes(store)
    log.data[log.data.index(b"paid", begin)] ^= 1
    assert damage(check_all(store, log)) == [(begin, end)]


def test_a_damaged_blank_is_named_and_the_next_segment_is_read(store) -> None:
    begin, end = next(place for place in entries(store) if place[1] - place[0] == 8)
    log = Bytes(store)
    log.data[begin] ^= 1
    found = check_all(store, log)
    assert damage(found) == [(begin, end)]
    assert found[-1].end == store.written


def test_what_the_disk_does_not_give_is_damaged(store) -> None:
    begin, end = entries(store)[2]
    log = Bytes(store)

    def read(low: int, high: int) -> bytes:
        if (low, high) == (begin, end):
            raise OSError(errno.EIO, "a sector")
        return log.read(low, high)

    checked = store.log_checker().check(read, 0, bytes_max=SEGMENT, limit=store.written)
    assert checked.damaged == ((begin, end),)


@pytest.mark.parametrize("bad", [0, 5000, 700_000, 1_500_000, 1_990_000])
@pytest.mark.parametrize("body_bytes", [900, 20_000])
def test_without_entries_a_sector_costs_the_records_around_it(tmp_path, bad: int, body_bytes: int) -> None:
    """Not all that was to be read with it."""
    with make_store(tmp_path / "large", segment_bytes=4 << 20, index_enabled=False) as store:
        while store.written < 2_000_000:
            put(store, "t", 0, *(message("t", bytes(body_bytes)) for _ in range(20)))
        store.flush_all(20_000)
        for path in (tmp_path / "large" / "checksum").iterdir():
            path.unlink()
        log, records = Bytes(store), entries_of_records(store)

        def read(low: int, high: int) -> bytes:
            if low < bad + 512 and bad < high:
                raise OSError(errno.EIO, "a sector")
            return log.read(low, high)

        checked = store.log_checker().check(read, 0, bytes_max=4 << 20, limit=store.written)
    assert checked.end == len(records) * (records[0][1] - records[0][0])
    hidden = sum(high - low for low, high in checked.damaged)
    assert min(low for low, _ in checked.damaged) <= bad
    assert max(high for _, high in checked.damaged) >= bad + 512
    assert hidden <= GAP_LEAST_BYTES + 2 * (records[0][1] - records[0][0])


@pytest.mark.parametrize("bytes_max", [1, 1000, 1 << 20])
def test_without_entries_structure_and_bodies_are_checked(store, tmp_path, bytes_max: int) -> None:
    for path in (tmp_path / "s" / "checksum").iterdir():
        path.unlink()
    log = Bytes(store)
    found = check_all(store, log, bytes_max=bytes_max)
    assert (damage(found), sum(checked.vouched_bytes for checked in found)) == ([], 0)
    begin, end = entries_of_records(store)[4]
    log.data[begin + 95] ^= 1
    assert damage(check_all(store, log, bytes_max=bytes_max)) == [(begin, end)]


def entries_of_records(store: MessageStore) -> list[tuple[int, int]]:
    queue = store._queues.get("t", 0)
    assert queue is not None
    units = [queue.unit(offset) for offset in range(queue.next_offset)]
    return [(begin, begin + size) for begin, size, _ in units]


def test_entries_of_a_place_are_found_without_reading_all(store, tmp_path) -> None:
    reader = ChecksumReader(str(tmp_path / "s" / "checksum"), SEGMENT)
    known = entries(store)
    for (begin, end), (_, beyond) in pairwise(known):
        if begin // SEGMENT == (beyond - 1) // SEGMENT:
            assert [(e.offset, e.end) for e in reader.overlapping(begin, end)] == [(begin, end)]
            assert [(e.offset, e.end) for e in reader.overlapping(end - 1, end + 1)] == [(begin, end), (end, beyond)]
    assert reader.overlapping(10 * SEGMENT, 10 * SEGMENT + 1) == []


@pytest.mark.parametrize("bit", range(96))
def test_one_bit_of_an_entry_condemns_no_byte_of_the_log(store, tmp_path, bit: int) -> None:
    """Of its offset or its length. What has rotted elsewhere is named all the same."""
    path = tmp_path / "s" / "checksum" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[ENTRY.size + bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)
    log = Bytes(store)
    assert damage(check_all(store, log)) == []
    begin, end = entries(store)[-1]
    log.data[log.data.index(b"paid", begin)] ^= 1
    assert damage(check_all(store, log)) == [(begin, end)]


def test_an_entry_whose_length_has_become_that_of_a_blank_ends_no_segment(tmp_path) -> None:
    with make_store(tmp_path / "s", segment_bytes=65_536) as store:
        while store.written < 60_000:
            put(store, "t", 0, *(message("t", BODY, tags="paid") for _ in range(3)))
        store.flush_all(20_000)
        path = tmp_path / "s" / "checksum" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        offset, _, crc = ENTRY.unpack_from(data, 10 * ENTRY.size)
        ENTRY.pack_into(data, 10 * ENTRY.size, offset, 8, crc)
        path.write_bytes(data)
        begin, end = entries(store)[50]
        log = Bytes(store)
        log.data[log.data.index(b"paid", begin)] ^= 1
        assert damage(check_all(store, log)) == [(begin, end)]


def test_a_damaged_checksum_file_hides_entries_and_names_no_damage(store, tmp_path) -> None:
    path = tmp_path / "s" / "checksum" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    for index in range(0, len(data) // ENTRY.size, 2):
        data[index * ENTRY.size + 1] ^= 0x40  # an offset far behind
    path.write_bytes(data)
    assert damage(check_all(store, Bytes(store))) == []
