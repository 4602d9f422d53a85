"""A record that is wrong in itself costs nobody else a message: what the queues name behind it is still the log's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from store_kit import StillClock, kill, make_store, message, put, put_unchecked, read_queue

from zenitmq.record.kernel import encode_record
from zenitmq.record.layout import UNIT
from zenitmq.store.queues.queue_witness import QueueWitness
from zenitmq.store.queues.unit_files import UnitFiles

SETTINGS = {"segment_bytes": 65_536, "index_entries": 1000}
CRC_AT = 8


def wrong(count: int) -> bytes:
    """Whole in every way but the checksum of its body, which brokers took as it came once."""
    record = bytearray(message("t", b"evil" * 10, unique=f"{count:032X}"))
    record[CRC_AT] ^= 1
    return bytes(record)


@pytest.mark.parametrize("wrong_ones", [1, 3])
def test_what_is_acknowledged_behind_a_wrong_record_outlives_a_kill(tmp_path: Path, wrong_ones: int) -> None:
    """The checksum entries of the last half second are not written yet; the queues' units are. It was acknowledged itself:
    it stays, and whoever looks later finds no damage."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        put(store, "t", 0, message("t", b"first"))
        for number in range(wrong_ones):
            put_unchecked(store, "t", 0, wrong(number))
        for number in range(5):
            put(store, "t", 1, message("t", b"%05d" % number))
        written, left = store.written, kill(tmp_path / "s", tmp_path / "k")
    with make_store(left, clock, **SETTINGS) as store:
        assert store.written == written
        assert [bytes(found.body) for found in read_queue(store, "t", 1)] == [b"%05d" % number for number in range(5)]
        kept = read_queue(store, "t", 0)[1:]
        assert [(found.body_as_stored, found.body_crc_matches) for found in kept] == [
            (b"evil" * 10, False)
        ] * wrong_ones
        assert store.damage.quarantine.ranges == ()
        assert store.check(store.log_checker(), 0, bytes_max=written, limit=written).damaged == ()
        put(store, "t", 0, message("t", b"last"))
        again = kill(left, tmp_path / "again")
    with make_store(again, clock, **SETTINGS) as store:
        assert store.damage.quarantine.ranges == ()
        assert len(read_queue(store, "t", 0)) == wrong_ones + 2


@pytest.mark.parametrize("witnessed", [True, False])
@pytest.mark.parametrize("properties", [b"KEYS\x01a\0b\x02", b"KEYS\x01a\0"])
def test_a_last_record_with_a_zero_byte_outlives_a_kill(tmp_path: Path, properties: bytes, witnessed: bool) -> None:
    """No entry vouches for it yet. What was torn over a fresh file ends with zeros, and has no unit."""
    record = encode_record(topic=b"t", body=b"last", properties=properties, born_timestamp_ms=1)
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "t", 0, message("t", b"first"))
        begin = store.written
        put(store, "t", 1, record)
        written, left = store.written, kill(tmp_path / "s", tmp_path / "k")
    if not witnessed:
        for path in (left / "consumequeue" / "t" / "1").iterdir():
            path.unlink()
    with make_store(left, **SETTINGS) as store:
        assert store.written == (begin if properties[-1:] == b"\0" and not witnessed else written)


@pytest.mark.parametrize("witnessed", [True, False])
def test_what_stands_behind_a_record_that_a_queue_names_says_nothing_of_it(tmp_path: Path, witnessed: bool) -> None:
    """No append of ours left these bytes: a header has rotted, or RocketMQ, which writes no zeros behind its own messages,
    wrote over a recycled segment. A unit says that the record before them was written whole, so it may be acknowledged."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "t", 0, message("t", b"first"))
        begin = store.written
        put(store, "t", 1, message("t", b"last"))
        end, left = store.written, kill(tmp_path / "s", tmp_path / "k")
    if not witnessed:
        for path in (left / "consumequeue" / "t" / "1").iterdir():
            path.unlink()
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(end)
        log.write(b"a long body that lay here before ")
    with make_store(left, **SETTINGS) as store:
        assert store.written == (end if witnessed else begin)
        assert len(read_queue(store, "t", 1)) == witnessed


def test_without_a_unit_the_log_ends_before_it(tmp_path: Path) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        put(store, "t", 0, message("t", b"first"))
        end = store.written
        put_unchecked(store, "t", 0, wrong(0))
        put(store, "t", 1, message("t", b"behind"))
        left = kill(tmp_path / "s", tmp_path / "k")
    for path in (left / "consumequeue" / "t").glob("*/*"):
        path.unlink()
    with make_store(left, clock, **SETTINGS) as store:
        assert store.written == end


@pytest.mark.parametrize("at", [4, 28, 0])
@pytest.mark.parametrize("last_stop", ["clean", "killed"])
def test_a_rotten_header_costs_its_record_where_no_entry_is(tmp_path: Path, at: int, last_stop: str) -> None:
    """Of its magic, position or size. The record behind it holds a whole one in its body, at the place that it says."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        for number in range(5):
            put(store, "t", 0, message("t", b"%05d" % number, keys="key"))
        put(store, "t", 0, message("t", b"00005" + b"x" * 3_000))
        place = store.written + 88
        forged = encode_record(topic=b"t", body=b"never", queue_offset=99, physical_offset=place, born_timestamp_ms=1)
        put(store, "t", 0, message("t", forged + b"x" * 2_000))
        for number in range(7, 40):
            put(store, "t", 0, message("t", b"%05d" % number))
        store.flush_all(20_000)
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        store._upkeep.run_in_worker(lambda: None).result(60)  # the checkpoint says what was flushed
        begin, behind = (store.position_of("t", 0, number) for number in (5, 7))
        killed = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    left = killed if last_stop == "killed" else tmp_path / "s"
    for folder in ("checksum", "index"):  # without the second the whole log is read
        shutil.rmtree(left / folder)
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        for damaged in (begin, behind - len(message("t", forged + b"x" * 2_000))):
            log.seek(damaged + at)
            log.write(b"\x7f")
    with make_store(left, **SETTINGS) as store:
        assert store.written == written
        assert store.damage.quarantine.ranges == ((begin, behind),)
        assert len(read_queue(store, "t", 0)) == 38


def test_a_unit_is_of_one_record_at_one_place(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "3"
    folder.mkdir(parents=True)
    (folder / f"{40:020d}").write_bytes(UNIT.pack(0, 0, 0) + UNIT.pack(4096, 200, 7))
    witness = QueueWitness(UnitFiles(str(tmp_path), file_bytes=40))
    assert witness.names("t", 3, 3, physical_offset=4096, size=200)
    assert not witness.names("t", 3, 3, physical_offset=4096, size=201)
    assert not witness.names("t", 3, 3, physical_offset=8192, size=200)
    assert not witness.names("t", 3, 2, physical_offset=4096, size=200)
    assert not witness.names("t", 3, 9, physical_offset=4096, size=200)
    assert not witness.names("t", 4, 3, physical_offset=4096, size=200)


def test_its_segment_says_where_entries_are_missing_behind_it(tmp_path: Path) -> None:
    """After two rolls: each of the three segments has one."""
    with make_store(tmp_path / "s", **{**SETTINGS, "segment_bytes": 4096}) as store:
        for number in range(3):
            put_unchecked(store, "t", 0, wrong(number))
            put(store, "t", 0, message("t", b"x" * 3_700))
        left = kill(tmp_path / "s", tmp_path / "k")
    shutil.rmtree(left / "checksum", ignore_errors=True)
    with make_store(left, **{**SETTINGS, "segment_bytes": 4096}) as store:
        assert store.damage.quarantine.ranges == ()
        entries = list(store._log.checksums.entries(0, store.written))
        assert [(entry.offset, entry.length) for entry in entries] == [(at, len(wrong(0))) for at in (0, 4096, 8192)]
        assert all(store._log.checksums.has_gap(base) for base in (0, 4096, 8192))
        assert not any(found.body_crc_matches for found in read_queue(store, "t", 0)[::2])


def test_what_was_flushed_counts_as_rotten(tmp_path: Path) -> None:
    """The disk may have changed it, and nothing vouches for it: a replica is asked."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        placed = put_unchecked(store, "t", 0, wrong(0))
        put(store, "t", 0, message("t", b"behind"))
        store.flush_all(20_000)
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        store._upkeep.run_in_worker(lambda: None).result(60)  # the checkpoint says what was flushed
        left = kill(tmp_path / "s", tmp_path / "k")
    for folder in ("checksum", "index"):  # without the second the whole log is read
        shutil.rmtree(left / folder)
    with make_store(left, clock, **SETTINGS) as store:
        assert store.damage.quarantine.rotten == ((placed.physical_offset, placed.end),)
