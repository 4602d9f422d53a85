"""Which rows a merge keeps, and what a damaged row is taken for."""

import random
from itertools import pairwise

import pytest

from zenitmq.store.compaction.compacted_rows import (
    ROW_BYTES,
    TOMBSTONE,
    CompactedRow,
    decode_row,
    encode_row,
    kept_rows,
    key_digest,
    rows_of,
)


def row(offset: int, key: str, *, is_tombstone: bool = False, stored_ms: int = 0) -> CompactedRow:
    flags = TOMBSTONE if is_tombstone else 0
    return CompactedRow(offset, stored_ms, offset * 100, flags, 7, 0, 90, -5, key_digest(key, offset))


@pytest.mark.parametrize("memory_bytes", [64, 1000, 1 << 20])
@pytest.mark.parametrize("seed", range(5))
def test_the_newest_of_each_key_is_kept_in_however_many_passes(seed: int, memory_bytes: int) -> None:
    chosen = random.Random(seed)
    rows = [
        row(
            at,
            chosen.choice("abcdef") if chosen.random() < 0.9 else "",
            is_tombstone=chosen.random() < 0.3,
            stored_ms=at,
        )
        for at in range(chosen.randrange(60))
    ]
    cuts = sorted({0, len(rows), *(chosen.randrange(len(rows) + 1) for _ in range(3))})
    files = [rows[begin:end] for begin, end in pairwise(cuts)]
    newest = {one.digest: one for one in rows}
    wanted = [
        [newest[one.digest] is one and not (one.is_tombstone and one.stored_ms < 30) for one in file] for file in files
    ]
    found = kept_rows(
        [len(file) for file in files],
        lambda at: rows_of(b"".join(map(encode_row, files[at]))),
        tombstones_before_ms=30,
        memory_bytes=memory_bytes,
    )
    assert [list(one) for one in found] == wanted


def test_records_without_a_key_replace_nothing() -> None:
    assert len({key_digest("", 1), key_digest("", 2), key_digest("a", 1), key_digest("b", 1)}) == 4
    assert key_digest("a", 1) == key_digest("a", 2)


def test_a_row_with_any_bit_wrong_is_no_row() -> None:
    whole = encode_row(row(5, "k", is_tombstone=True, stored_ms=1 << 41))
    assert len(whole) == ROW_BYTES
    assert decode_row(whole) == row(5, "k", is_tombstone=True, stored_ms=1 << 41)
    for bit in range(ROW_BYTES * 8):
        torn = bytearray(whole)
        torn[bit // 8] ^= 1 << bit % 8
        assert decode_row(bytes(torn)) is None
    assert decode_row(whole[:-1]) is None
