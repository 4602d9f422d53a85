"""What a checksum file says, whatever has become of its bytes."""

from itertools import pairwise

import pytest

from zenitmq.store.checksum.checksum_entry import ENTRY, GAP_LENGTH, entries_in, has_gap, pack_gap, raws_in, slots_in
from zenitmq.store.checksum.checksum_reader import ChecksumReader

BEGIN, LIMIT = 4096, 8192
LENGTHS = [100, 200, 64, 500, 300, 128, 77, 1000]


def whole() -> list[tuple[int, int, int]]:
    found, at = [], BEGIN
    for number, length in enumerate(LENGTHS):
        found.append((at, length, 1000 + number))
        at += length
    return found


def packed(raws: list[tuple[int, int, int]], behind: bytes = bytes(64)) -> bytes:
    return b"".join(ENTRY.pack(*raw) for raw in raws) + behind


def read(data: bytes) -> list[tuple[int, int, int, bool]]:
    return [
        (entry.offset, entry.length, entry.crc, entry.is_loose)
        for _, entry in entries_in(raws_in(data), begin=BEGIN, limit=LIMIT)
    ]


@pytest.mark.parametrize("behind", [b"", bytes(16), bytes(640), bytes(7), pack_gap(6465)])
def test_whole_entries_meet_each_other(behind: bytes) -> None:
    data = packed(whole(), behind)
    assert read(data) == [(*raw, False) for raw in whole()]
    slots = slots_in(data, begin=BEGIN, limit=LIMIT)
    assert (slots, has_gap(data, slots)) == (len(LENGTHS), behind == pack_gap(6465))


@pytest.mark.parametrize("bit", range(96))
@pytest.mark.parametrize("slot", range(len(LENGTHS) - 1))
def test_one_bit_costs_its_own_entry_at_most(slot: int, bit: int) -> None:
    """Of the offset or the length: it is passed over, or loose; no other entry is missing, and none covers its bytes."""
    data = bytearray(packed(whole()))
    data[slot * 16 + bit // 8] ^= 0x80 >> bit % 8
    found = read(bytes(data))
    others = {raw for number, raw in enumerate(whole()) if number != slot}
    assert others <= {raw[:3] for raw in found}
    assert all(offset + length <= after for (offset, length, *_), (after, *_) in pairwise(found))
    assert all(is_loose for *raw, is_loose in found if tuple(raw) not in others)


def test_the_entry_before_missing_ones_is_loose() -> None:
    raws = whole()
    del raws[3]
    assert [is_loose for *_, is_loose in read(packed(raws))] == [False, False, True, False, False, False, False]
    assert [is_loose for *_, is_loose in read(packed([raws[0], raws[2]]))] == [True, True]


def test_a_gap_is_told_from_an_entry() -> None:
    data = packed([*whole()[:2], (4396, GAP_LENGTH, 0), *whole()[3:]])
    assert len(read(data)) == 2
    assert has_gap(data, 2)
    assert not has_gap(data, 3)
    assert not has_gap(data[:32], 2)


@pytest.mark.parametrize("bit", range(96))
def test_the_entries_of_a_place_are_found_beside_a_rotten_one(tmp_path, bit: int) -> None:
    """The search by halving may meet that one first."""
    raws, at = [], BEGIN
    for number in range(40):
        raws.append((at, 100, number))
        at += 100
    for slot in (0, 1, 9, 19, 20, 21, 38):
        data = bytearray(packed(raws))
        data[slot * 16 + bit // 8] ^= 0x80 >> bit % 8
        (tmp_path / f"{BEGIN:020d}").write_bytes(data)
        reader = ChecksumReader(str(tmp_path), BEGIN)
        whole = [entry for _, entry in entries_in(raws_in(bytes(data)), begin=BEGIN, limit=LIMIT)]
        for begin, end in ((BEGIN, LIMIT), (BEGIN + 150, BEGIN + 350), (BEGIN + 1_900, BEGIN + 2_300), (at - 1, at)):
            assert reader.overlapping(begin, end) == [e for e in whole if e.offset < end and e.end > begin], slot
