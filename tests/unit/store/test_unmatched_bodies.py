"""A body that an older broker took with another's CRC: its append's entry vouches for it, however soon somebody looks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from store_kit import make_store, message, put

from zenitmq.model.errors import MessageIllegal, StorePoisoned
from zenitmq.record.new_record import NewRecord
from zenitmq.store.message_store import MessageStore, Placed

WRONG = b"\x01\x02\x03\x04"


def put_unmatched(store: MessageStore, topic: str, body: bytes) -> Placed:
    placed = store.stage_record(NewRecord(topic=topic, queue_id=0, body=body, body_crc=int.from_bytes(WRONG, "big")))
    store.commit()
    return placed


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Its flush thread writes no entry while a test runs."""
    with make_store(tmp_path / "s") as store:
        yield store


def test_a_look_before_its_entry_is_written_finds_no_damage(store: MessageStore) -> None:
    put(store, "t", 0, message("t", b"before"))
    placed = put_unmatched(store, "t", b"body")
    put(store, "t", 0, message("t", b"behind"))
    assert store.damaged_in(store.places_of("t", 0, 0, 3)) == []
    assert store.damaged_at(placed.physical_offset) == []
    assert not store.damage.may_return(placed.physical_offset)
    assert store.damage.quarantine.ranges == ()


def test_its_entry_vouches_for_it_but_not_for_what_has_rotted_since(store: MessageStore) -> None:
    placed = put_unmatched(store, "t", b"body" * 50)
    assert store.vouches_for(placed.physical_offset, placed.end)
    assert not store.vouches_for(placed.physical_offset, placed.end + 1)
    os.pwrite(store._log.segments()[0].open_fd(), b"\xff", placed.physical_offset + 120)
    assert not store.vouches_for(placed.physical_offset, placed.end)
    assert store.damaged_at(placed.physical_offset) == [(placed.physical_offset, placed.end)]


def test_bytes_of_a_replica_that_our_entries_vouch_for_fit_whatever_the_bodies_are(store: MessageStore) -> None:
    placed = put_unmatched(store, "t", b"body" * 50)
    data, is_whole = store.copy_of_range(placed.physical_offset, placed.end)
    assert is_whole
    os.pwrite(store._log.segments()[0].open_fd(), b"\xff", placed.physical_offset + 120)
    assert store.damage.fits(placed.physical_offset, data)
    assert not store.damage.fits(placed.physical_offset, data[:-1] + b"\xff")


def test_a_failing_disk_under_the_entries_poisons_the_store(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    placed = put(store, "t", 0, message("t", b"body"))
    with monkeypatch.context() as broken:
        broken.setattr(store._log.checksums, "write_out", fail)
        with pytest.raises(StorePoisoned):
            store.damaged_at(placed.physical_offset)
    assert store.is_poisoned


def test_a_copy_keeps_the_crc_that_it_is_given(store: MessageStore) -> None:
    placed = put_unmatched(store, "t", b"body")
    assert store.record_at(placed.physical_offset)[8:12] == WRONG


@pytest.mark.parametrize("size", [10, 4096], ids=["small", "larger than a segment, which is written in pieces"])
def test_a_batch_with_such_a_body_is_refused_and_leaves_nothing(store: MessageStore, size: int) -> None:
    good, other = message("t", b"a" * 100), message("t", b"b" * 100)
    batch = [good] * (size // 100) + [other[:8] + WRONG + other[12:]]
    at = (len(batch) - 1) * len(good)
    with pytest.raises(MessageIllegal, match=rf"body checksum .* message {len(batch) - 1} .* at byte {at};"):
        put(store, "t", 0, *batch)
    assert (store.written, store.arena.used) == (0, 0)
    assert put(store, "t", 0, good).queue_offset == 0
