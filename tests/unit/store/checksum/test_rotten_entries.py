"""Checksum entries that have rotted: told by whoever holds the log to them, written anew where it is sure what they were."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import pytest
from store_kit import make_store, message, put

from zenitmq.store.checksum.checksum_entry import ENTRY, ChecksumEntry, RottenEntry
from zenitmq.store.integrity.log_check import Checked
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import verify_store


@pytest.fixture
def store(tmp_path):
    """Two segments and more; each append holds three messages."""
    with make_store(tmp_path / "s") as store:
        while len(store._log.segments()) < 3:
            put(store, "t", 0, *(message("t", bytes(100), tags="paid") for _ in range(3)))
        store.flush_all(20_000)
        yield store


def entries(store: MessageStore) -> list[ChecksumEntry]:
    return list(store._log.checksums.entries(0, store.written))


def rot(store: MessageStore, slot: int, at: int, bits: int = 1) -> bytes:
    """Changes a byte of an entry of the first segment; returns the entry as it was."""
    path = os.path.join(store._log.checksums.directory, f"{0:020d}")
    with open(path, "r+b") as file:
        file.seek(slot * ENTRY.size)
        whole = file.read(ENTRY.size)
        data = bytearray(whole)
        data[at] ^= bits
        file.seek(slot * ENTRY.size)
        file.write(data)
    return whole


def slot_bytes(store: MessageStore, slot: int) -> bytes:
    with open(os.path.join(store._log.checksums.directory, f"{0:020d}"), "rb") as file:
        return file.read()[slot * ENTRY.size : (slot + 1) * ENTRY.size]


def check_all(store: MessageStore, bytes_max: int) -> list[Checked]:
    def read(begin: int, end: int) -> Any:
        return store._log.view(begin, end)

    checker, found, at = store.log_checker(), [], 0
    while at < store.written:
        found.append(checker.check(read, at, bytes_max=bytes_max, limit=store.written))
        at = found[-1].end
    return found


def rotten(store: MessageStore, bytes_max: int = 1000) -> set[RottenEntry]:
    return {entry for checked in check_all(store, bytes_max) for entry in checked.rotten_entries}


@pytest.mark.parametrize("bytes_max", [1, 1000, 1 << 20])
def test_whole_entries_are_not_suspected(store: MessageStore, bytes_max: int) -> None:
    assert rotten(store, bytes_max) == set()


@pytest.mark.parametrize("bytes_max", [1, 1000, 1 << 20])
def test_a_bit_of_an_offset_or_a_length_is_told_and_it_is_known_what_it_was(
    store: MessageStore, bytes_max: int
) -> None:
    """Each bit in turn: the store is whole again before the next one."""
    for bit, slot in product(range(96), (0, 2)):
        was = entries(store)[slot]
        whole = rot(store, slot, bit // 8, 0x80 >> bit % 8)
        found = rotten(store, bytes_max)
        assert [(one.base, one.slot, one.offset) for one in found] == [(0, slot, was.offset)], bit
        assert store.set_entries_right(found) == (), bit
        assert slot_bytes(store, slot) == whole, bit
        assert rotten(store, bytes_max) == set(), bit


def test_an_entry_of_which_nothing_is_sure_is_left_and_told(store: MessageStore) -> None:
    rot(store, 2, 11)
    rot(store, 2, 15)
    changed = slot_bytes(store, 2)
    (found,) = rotten(store)
    assert found.right is None
    assert store.set_entries_right([found]) == (found,)
    assert slot_bytes(store, 2) == changed


def test_an_entry_that_was_written_anew_meanwhile_is_left_alone(store: MessageStore) -> None:
    whole = rot(store, 2, 7)
    (found,) = rotten(store)
    rot(store, 2, 7)
    assert store.set_entries_right([found]) == (found,)
    assert slot_bytes(store, 2) == whole


def test_entries_that_a_full_disk_cost_are_none_that_have_rotted(store: MessageStore) -> None:
    path = os.path.join(store._log.checksums.directory, f"{0:020d}")
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data[: 2 * ENTRY.size] + data[3 * ENTRY.size :])
    assert rotten(store) == set()


def test_verify_names_the_file_and_the_entry(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        for _ in range(6):
            put(store, "t", 0, message("t", bytes(100)))
        store.flush_all(20_000)
        offset, length = entries(store)[1].offset, entries(store)[1].length
        rot(store, 1, 7)
    document = verify_store(str(tmp_path / "s"))
    path = str(tmp_path / "s" / "checksum" / f"{0:020d}")
    assert document["damaged_entries"] == [{"file": path, "entry": 1, "offset": offset}]
    assert (document["damaged"], document["unvouched_bytes"]) == ([], length)
