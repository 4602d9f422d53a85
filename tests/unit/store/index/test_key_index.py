"""The series of index files: RocketMQ's quirks, rolling, replays, cuts."""

import os
import threading
from array import array

import pytest
from store_kit import StillClock

from zenitmq.model.errors import StoreFormatError
from zenitmq.record.layout import INDEX_ENTRY, INDEX_HEADER
from zenitmq.store.index.index_file import IndexFile, IndexHeader, find_slot_count, index_file_bytes
from zenitmq.store.index.key_index import KeyIndex, index_file_name, list_index_files
from zenitmq.store.query import LogPlace

CLOCK = StillClock(1_700_000_000_123)


def open_index(directory, **options) -> KeyIndex:
    return KeyIndex(str(directory), slots=8, entries=10, now_ms=CLOCK.now_ms, **options)


def put(index: KeyIndex, rows: list[tuple[int, int]], time_ms: int) -> None:
    """rows: (key hash, physical offset)."""
    hashes, offsets = (array(code, column) for code, column in zip("Iq", zip(*rows, strict=True), strict=True))
    index.put(memoryview(hashes), memoryview(offsets), 0, len(rows), time_ms)
    index.advance(rows[-1][1] + 1)


def found(index: KeyIndex, key_hash: int, begin_ms: int = 0, end_ms: int = 1 << 60) -> list[int]:
    return index.search(key_hash, begin_ms=begin_ms, end_ms=end_ms, start=LogPlace(), found_max=99)[0]


def test_names_are_times() -> None:
    assert index_file_name(1_700_000_000_123) == "20231114221320123"


def test_newest_first_over_chains_and_files(tmp_path) -> None:
    index = open_index(tmp_path)
    for number in range(30):
        put(index, [(7, 100 * number), (15, 100 * number)], 1000 * number)  # the same slot
    assert index.file_count == 7  # nine entries a file
    assert found(index, 7) == found(index, 15) == [100 * number for number in reversed(range(30))]
    assert [offset for offset in found(index, 7, 5_000, 8_000) if 500 <= offset <= 800] == [800, 700, 600, 500]
    assert len(found(index, 7, 5_000, 8_000)) <= 6  # to the second: the caller looks closer
    assert found(index, 23) == []
    index.close()
    again = open_index(tmp_path)
    assert found(again, 7) == [100 * number for number in reversed(range(30))]
    assert again.entry_count == 60
    again.close()


@pytest.mark.parametrize("knows_index", [True, False], ids=["same index", "another replica"])
def test_a_search_goes_on_from_its_place(tmp_path, monkeypatch, knows_index: bool) -> None:
    """A long chain is examined in steps; the place is below the last entry examined, whatever file it was in."""
    monkeypatch.setattr("zenitmq.store.index.key_index.SEARCH_STEPS", 2)
    index = open_index(tmp_path)
    for number in range(30):
        put(index, [(7 + 8 * (number % 3 > 0), 100 * number)], 1000 * number)  # one slot; a third has the key
    place, searches, offsets = LogPlace(), 0, []
    while place.below:
        some, place = index.search(7, begin_ms=0, end_ms=1 << 60, start=place, found_max=1)
        if searches % 5 == 4 and not knows_index:
            place = LogPlace(place.below, 20001231235959999, 3)
        offsets += some
        searches += 1
    assert offsets == [100 * number for number in reversed(range(0, 30, 3))]
    assert 10 <= searches <= 40
    index.close()


def test_a_new_file_begins_with_the_end_of_the_one_before(tmp_path) -> None:
    """Its first entry's time difference is counted from there: an hour later it is found all the same."""
    index = open_index(tmp_path)
    put(index, [(1, n) for n in range(9)], 10_000)
    put(index, [(2, 50)], 3_610_000)
    assert found(index, 2, 3_610_000, 3_610_000) == [50]
    newest = index._files[-1]
    assert newest.header == IndexHeader(3_610_000, 3_610_000, 50, 50, 1, 2)
    assert bytes(newest._file.map[40 + 32 + 20 + 12 : 40 + 32 + 20 + 16]) == (3600).to_bytes(4, "big")
    index.close()


def test_a_replay_puts_nothing_in_twice(tmp_path) -> None:
    rows = [(n % 5, 10 * (n // 3)) for n in range(14)]
    index = open_index(tmp_path)
    put(index, rows[:8], 0)  # two of the three keys of the record at 20
    index.close()
    again = open_index(tmp_path)
    again.trust(0)
    put(again, rows, 0)
    whole = [found(again, h) for h in range(5)]
    assert whole == [[o for h, o in reversed(rows) if h == k] for k in range(5)]
    assert again.entry_count == 14
    again.close()


@pytest.mark.parametrize("kept", range(0, 31, 3))
def test_a_cut_leaves_what_was_before(tmp_path, kept: int) -> None:
    rows = [[(n % 4, n), (n % 7 + 50, n)] for n in range(30)]
    index, model = open_index(tmp_path / "a"), open_index(tmp_path / "b")
    for n, row in enumerate(rows):
        put(index, row, 1000 * n)
        if n < kept:
            put(model, row, 1000 * n)
    index.cut(kept, lambda offset: 1000 * offset)
    assert index.reflected() == kept
    for key_hash in {*range(4), *range(50, 57)}:
        assert found(index, key_hash) == found(model, key_hash)
    for n, row in enumerate(rows[kept:], kept):
        put(index, row, 1000 * n)
        put(model, row, 1000 * n)
    assert [bytes(f._file.map) for f in index._files] == [bytes(f._file.map) for f in model._files]
    index.close()
    model.close()


def test_the_next_file_is_made_ahead(tmp_path) -> None:
    index = open_index(tmp_path)
    asked = []
    index.run_soon = lambda work: work() if work != index.prepare_next else asked.append(work)
    put(index, [(1, n) for n in range(7)], 5)
    assert not asked
    put(index, [(1, 7)], 5)
    assert len(asked) == 1
    asked[0]()
    assert len(list_index_files(index.directory)) == 2
    assert index.file_count == 1
    put(index, [(1, n) for n in range(8, 20)], 6)
    assert len(list_index_files(index.directory)) == 3
    assert found(index, 1) == list(reversed(range(20)))
    index.close()


def test_a_file_made_in_time_and_one_made_ahead_are_two(tmp_path, monkeypatch) -> None:
    """The worker comes so late that the loop has made the file itself, in the same millisecond, and is about to use it."""
    index = open_index(tmp_path)
    late = threading.Thread(target=index.prepare_next)
    prime = IndexFile.prime

    def prime_late(file: IndexFile, before: IndexHeader) -> None:
        if not late.ident:
            late.start()
            late.join(0.2)  # it ends only where it does not wait for the loop
        prime(file, before)

    monkeypatch.setattr(IndexFile, "prime", prime_late)
    put(index, [(1, n) for n in range(12)], 5)
    late.join(20)
    put(index, [(1, n) for n in range(12, 30)], 6)
    index.close()
    again = open_index(tmp_path)
    assert found(again, 1) == list(reversed(range(30)))
    again.close()


def test_pages_are_touched_ahead_of_the_keys(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zenitmq.store.index.key_index.AHEAD_ENTRIES", 3)
    index = open_index(tmp_path)
    touched = []
    monkeypatch.setattr(IndexFile, "populate_entries", lambda _, begin, end: touched.append((begin, end)))
    index.run_soon = lambda work: work() if work != index.prepare_next else None
    for n in range(8):
        put(index, [(1, n)], 5)
    assert touched[0][0] <= 2  # from the first entry on
    assert [begin for begin, _ in touched[1:]] == [end for _, end in touched[:-1]]  # without a gap
    assert touched[-1][1] >= 9
    index.close()


def test_a_full_disk_keeps_keys_waiting(tmp_path) -> None:
    index = open_index(tmp_path)
    put(index, [(1, n) for n in range(9)], 5)
    taken = index._taken
    index.directory = str(tmp_path / "no" / "\0")  # nothing can be made there
    real, index._make = index._make, _refuse
    put(index, [(1, 20), (2, 20)], 6)
    put(index, [(1, 30)], 7)
    assert index.is_blocked
    assert index._taken == taken
    index._make, index.directory = real, str(tmp_path / "index")
    index.retry_waiting(31)
    assert not index.is_blocked
    assert found(index, 1) == [30, 20, *reversed(range(9))]
    assert index.persist() == 31
    index.close()


def _refuse():
    from zenitmq.model.errors import StoreNotWriteable

    raise StoreNotWriteable("disk full")


def test_files_whose_records_are_gone_go_too(tmp_path) -> None:
    index = open_index(tmp_path)
    for n in range(30):
        put(index, [(1, n)], 5)
    first, *_ = sorted((tmp_path / "index").iterdir())
    (removed,) = index.remove_before(9)
    assert found(index, 1) == list(reversed(range(9, 30)))
    assert removed.path == str(first)
    index.retire(removed)
    assert not first.exists()
    bounds = {"begin_ms": 0, "end_ms": 1 << 40, "below": 1 << 40, "behind": 0, "steps_max": 99, "found_max": 10}
    assert removed.search(1, **bounds) == ([], 0, 0, False)  # a query that still holds it
    assert len(index.remove_before(1000)) == 2  # never the newest
    index.close()


def test_an_expired_file_is_written_over(tmp_path) -> None:
    """What it held is found no more, and what it holds then is what a fresh one would."""
    index, model = open_index(tmp_path / "a", spare_bytes=1), open_index(tmp_path / "b")
    for n in range(60):
        for each in (index, model):
            put(each, [(n % 5, 7 * n)], 1000 * n)
            for file in each.remove_before(7 * (n - 12)):
                each.retire(file)
    inodes = {os.stat(file.path).st_ino for file in index._files}
    assert (
        len(inodes | {file.stat().st_ino for file in (tmp_path / "a" / "spareindex").iterdir()}) == index.file_count + 1
    )
    assert len(index.spares) == 1
    for key_hash in range(5):
        assert found(index, key_hash) == found(model, key_hash)
    for ours, fresh in zip(index._files, model._files, strict=True):
        used = index_file_bytes(8, ours.header.count)
        assert bytes(ours._file.map[:used]) == bytes(fresh._file.map[:used])
    assert any(
        bytes(index._files[-1]._file.map[index_file_bytes(8, index._files[-1].header.count) :])
    )  # it is not fresh
    index.close()
    model.close()
    again = open_index(tmp_path / "a")
    assert [found(again, key_hash)[0] for key_hash in range(5)] == [7 * n for n in range(55, 60)]
    again.close()


def test_a_file_that_a_search_looks_at_is_not_written_over(tmp_path) -> None:
    index = open_index(tmp_path, spare_bytes=1)
    put(index, [(1, n) for n in range(20)], 5)
    first, second = index.remove_before(19)
    view = first._file.map
    index.retire(first)
    assert len(index.spares) == 0
    index.retire(second)
    assert len(index.spares) == 1
    assert INDEX_HEADER.unpack_from(view)[5] == 10
    index.close()


@pytest.mark.parametrize("behind", ["zeros", "expired"])
@pytest.mark.parametrize("lost", range(9))
def test_a_cut_believes_no_entry_that_a_power_cut_kept_from_the_disk(tmp_path, lost: int, behind: str) -> None:
    """The header may reach the disk before its entries: there is what was there before, zeros or what a file held once."""
    index = open_index(tmp_path)
    put(index, [(n, 1000 + n) for n in range(9)], 5)
    file = index._files[-1]
    entry = bytes(20) if behind == "zeros" else INDEX_ENTRY.pack(3, 400 + lost, 0, 2)
    for number in (lost + 1, 9):
        at = index_file_bytes(8, number)
        file._file.map[at : at + 20] = entry
    index.cut(1000 + lost, lambda offset: 5)
    assert [found(index, n) for n in range(9)] == [[1000 + n] if n < lost else [] for n in range(9)]
    assert index.end_offset == (999 + lost if lost else -1)
    index.close()


def test_strange_files_are_refused_by_name(tmp_path) -> None:
    index = open_index(tmp_path)
    put(index, [(1, n) for n in range(12)], 5)
    names = [path.name for path in sorted((tmp_path / "index").iterdir())]
    index.close()
    with open(tmp_path / "index" / names[1], "ab") as file:
        file.write(b"x")
    with pytest.raises(StoreFormatError, match=names[1]):
        open_index(tmp_path)
    (tmp_path / "index" / "notes.txt").touch()
    with pytest.raises(StoreFormatError, match=r"notes\.txt"):
        open_index(tmp_path)


@pytest.mark.parametrize(("slots", "entries"), [(10, 40), (25, 50), (7, 7), (60, 180)])
def test_the_slot_count_is_that_of_the_chains(tmp_path, slots: int, entries: int) -> None:
    index = KeyIndex(str(tmp_path), slots=slots, entries=entries, now_ms=CLOCK.now_ms)
    put(index, [(n * 7919 % 1009, n) for n in range(entries - 1)], 5)
    path = index._files[0].path
    index.close()
    size = index_file_bytes(slots, entries)
    assert find_slot_count(path, size, slots=5_000_000, entries=20_000_000) == (slots, entries)
    assert find_slot_count(path, size, slots=slots + 5, entries=entries - 1) == (slots, entries)


@pytest.mark.parametrize("used", [-1, 9, (1 << 31) - 1])
def test_a_header_that_counts_more_used_slots_than_there_are_is_made_anew(tmp_path, used: int) -> None:
    """The next key would be counted on top of it, until the number does not fit its field."""
    index = open_index(tmp_path)
    put(index, [(n, 100 + n) for n in range(4)], 5)
    file = index._files[-1]
    values = list(INDEX_HEADER.unpack_from(file._file.map))
    INDEX_HEADER.pack_into(file._file.map, 0, *values[:4], used, values[5])
    index.close()
    again = open_index(tmp_path)
    again.trust(1000)
    assert again.needs_from == 0  # the log is read again
    put(again, [(n, 100 + n) for n in range(4)], 5)
    assert found(again, 2) == [102]
    again.close()
