"""Any bits of a store's log may flip: what was readable stays readable with the same bytes, and every record that was hit is
reported, or made whole from another replica."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_kit import get, make_store, message, put, read_queue

from zenitmq.model.errors import CorruptRecordError
from zenitmq.model.get_status import GetStatus
from zenitmq.record.kernel import StoredMessage, decode_batch
from zenitmq.store.message_store import MessageStore

SEGMENT = 4096
QUEUES = 2
TURNS = 24


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A master and a slave that holds the same, some appends of one record and some of three."""
    folder: Path = tmp_path_factory.mktemp("flips")
    with make_store(folder / "m") as master, make_store(folder / "s") as slave:
        for turn in range(TURNS):
            records = [
                message("t", b"%03d" % turn * (10 + turn % 7 * 9), tags="paid", keys=f"k{turn}")
                for _ in range(1 + turn % 3)
            ]
            put(master, "t", turn % QUEUES, *records)
        while slave.written < master.written:
            chunk = master.chunk(slave.written, 1 << 20)
            slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
    return folder


def copied(source: Path, target: Path) -> Path:
    for path in source.rglob("*"):
        if path.is_file():
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(source)).write_bytes(path.read_bytes())
    return target


def flip(store: Path, position: int, bit: int) -> None:
    path = store / "commitlog" / f"{position - position % SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    data[position % SEGMENT] ^= 1 << bit
    path.write_bytes(data)


def scrub(store: MessageStore) -> None:
    checker, at = store.log_checker(), store.begin
    while at < store.written:
        checked = store.check(checker, at, bytes_max=1000, limit=store.written)
        for low, high in checked.damaged:
            store.damage.add(low, high, "in a test")
        at = checked.end


def readable(store: MessageStore, queue_id: int) -> tuple[list[StoredMessage], list[int]]:
    """(the messages, the queue offsets that are reported as lost)."""
    found: list[StoredMessage] = []
    lost: list[int] = []
    offset = 0
    while True:
        result = get(store, "t", queue_id, offset, max_messages=4, max_bytes=4000)
        for view in result.slices:
            found += decode_batch(bytes(view))
        if result.status == GetStatus.MESSAGES_LOST:
            lost += range(result.lost_from, result.next_offset)
        elif result.status != GetStatus.FOUND:
            return found, lost
        offset = result.next_offset


FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=6)


@given(flips=FLIPS)
@settings(max_examples=60, deadline=None)
def test_what_was_hit_is_reported_and_all_else_is_as_it_was(template: Path, tmp_path_factory, flips) -> None:
    """At most one flip an append: of several, one may hide in properties behind one that a body's CRC names."""
    work = copied(template / "m", tmp_path_factory.mktemp("work"))
    with make_store(work) as store:
        whole = {queue: read_queue(store, "t", queue) for queue in range(QUEUES)}
        entries = list(store._log.checksums.entries(0, store.written))
    spots: dict[int, tuple[int, int]] = {}
    for share, bit in flips:
        entry = entries[int(share * len(entries))]
        spots[entry.offset] = (entry.offset + int(share * 7919) % entry.length, bit)
    for position, bit in spots.values():
        flip(work, position, bit)
    hit = {position for position, _ in spots.values()}
    with make_store(work) as store:
        scrub(store)
        for queue, before in whole.items():
            found, lost = readable(store, queue)
            assert sorted([*lost, *(one.queue_offset for one in found)]) == [one.queue_offset for one in before]
            assert all(one.record == before[one.queue_offset].record for one in found)
            for one in before:
                begin = one.physical_offset
                if any(begin <= position < begin + len(one.record) for position in hit):
                    assert one.queue_offset in lost
                    with pytest.raises(CorruptRecordError):
                        store.record_at(begin)


@given(flips=FLIPS, at_slave=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_replica_gives_back_whatever_was_hit(template: Path, tmp_path_factory, flips, at_slave: bool) -> None:
    folder = tmp_path_factory.mktemp("pair")
    hit, other = (
        copied(template / ("s" if at_slave else "m"), folder / "hit"),
        copied(template / ("m" if at_slave else "s"), folder / "o"),
    )
    names = sorted(os.listdir(hit / "commitlog"))
    with make_store(other) as helper:
        written = helper.written
    before = b"".join((other / "commitlog" / name).read_bytes() for name in names)[:written]
    with make_store(other) as helper:
        entries = [(entry.offset, entry.length) for entry in helper._log.checksums.entries(0, written)]
        for share, bit in flips:
            begin, length = entries[int(share * len(entries))]
            flip(hit, begin + int(share * 104_729) % length, bit)
        with make_store(hit) as store:
            scrub(store)
            for low, high in store.damage.extents(store.damage.quarantine.rotten):
                data, is_whole = helper.copy_of_range(low, high)
                assert is_whole
                assert store.damage.fits(low, data)
                assert not store.damage.fits(low, bytes([data[0] ^ 1]) + data[1:])
                store.damage.write(low, data).result(20)
                store.damage.on_whole(low, high)
            assert (store.damage.quarantine.ranges, store.damage.unsendable) == ((), ())
            scrub(store)
            assert store.damage.quarantine.ranges == ()
            for queue in range(QUEUES):
                assert [one.record for one in readable(store, queue)[0]] == [
                    one.record for one in readable(helper, queue)[0]
                ]
    after = b"".join((hit / "commitlog" / name).read_bytes() for name in names)[:written]
    ends = [begin + length for begin, length in entries]
    assert all(after[b:e] == before[b:e] for (b, _), e in zip(entries, ends, strict=True))
