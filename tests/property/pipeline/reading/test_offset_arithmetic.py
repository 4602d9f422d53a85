"""Whatever the queues hold: limits and splits leave nothing out, and take nothing twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.pipeline.reading.offsets import (
    QueueKey,
    document_of,
    offsets_of,
    ranges_between,
    row_count,
    split_ranges,
    within_bytes,
    within_rows,
)
from zenitmq.pipeline.reading.stream_plan import BatchLimits, next_end, reachable, until

KEYS = st.builds(QueueKey, st.sampled_from("st"), st.sampled_from("ab"), st.integers(0, 12))
OFFSETS = st.dictionaries(KEYS, st.integers(0, 1 << 40), max_size=8)
GROWTH = st.dictionaries(KEYS, st.integers(0, 5000), max_size=8)


def grown(start: dict[QueueKey, int], growth: dict[QueueKey, int]) -> dict[QueueKey, int]:
    return start | {key: start.get(key, 0) + rows for key, rows in growth.items()}


@given(OFFSETS)
def test_offsets_come_back_from_their_document(offsets: dict[QueueKey, int]) -> None:
    assert offsets_of(document_of(offsets)) == offsets


@given(OFFSETS, GROWTH, st.integers(1, 20_000))
def test_a_row_limit_is_used_up_and_starves_nobody(
    start: dict[QueueKey, int], growth: dict[QueueKey, int], rows_max: int
) -> None:
    end = grown(start, growth)
    taken = within_rows(start, end, rows_max)
    assert taken.keys() == end.keys()
    assert all(start.get(key, 0) <= taken[key] <= end[key] for key in end)
    busy = [key for key in end if end[key] > start.get(key, 0)]
    assert all(taken[key] > start.get(key, 0) for key in busy)
    assert row_count(start, taken) == min(row_count(start, end), max(rows_max, len(busy)))


@given(OFFSETS, GROWTH, st.integers(1, 1 << 24), st.integers(1, 4096))
def test_a_byte_limit_is_kept_but_for_one_row_a_queue(
    start: dict[QueueKey, int], growth: dict[QueueKey, int], bytes_max: int, seed: int
) -> None:
    end = grown(start, growth)
    sizes = {key: 1 + seed * (number + 1) % 4096 for number, key in enumerate(end)}
    taken = within_bytes(start, end, bytes_max, sizes)
    rows = {key: taken[key] - start.get(key, 0) for key in end}
    busy = [key for key in end if end[key] > start.get(key, 0)]
    assert all(0 < rows[key] <= end[key] - start.get(key, 0) for key in busy)
    assert sum(rows[key] * sizes[key] for key in busy) <= max(bytes_max, sum(sizes[key] for key in busy))


@given(OFFSETS, GROWTH, st.integers(0, 50), st.integers(0, 700))
def test_pieces_are_the_ranges_without_gap_or_overlap(
    start: dict[QueueKey, int], growth: dict[QueueKey, int], partitions_min: int, rows_max: int
) -> None:
    ranges = ranges_between(start, grown(start, growth))
    pieces = split_ranges(ranges, partitions_min=partitions_min, rows_max=rows_max)
    joined = [(item.key, offset) for item in ranges for offset in (item.start, item.end)]
    edges = []
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if before is None or before.key != piece.key:
            edges += [(before.key, before.end)] if before is not None else []
            edges.append((piece.key, piece.start))
        else:
            assert before.end == piece.start
    edges += [(pieces[-1].key, pieces[-1].end)] if pieces else []
    assert edges == joined
    assert all(piece.rows for piece in pieces)
    assert all(piece.rows <= rows_max for piece in pieces if rows_max)
    assert len(pieces) >= min(partitions_min, sum(item.rows for item in ranges))


@given(OFFSETS, st.lists(GROWTH, min_size=1, max_size=5), st.integers(300, 5000), st.integers(0, 5))
def test_triggers_reach_the_target_and_read_each_row_once(
    start: dict[QueueKey, int], arrivals: list[dict[QueueKey, int]], rows_max: int, pinned_at: int
) -> None:
    """A run that ends: whatever comes later, and whatever goes away, batches add up to what was there at first."""
    target = grown(start, arrivals[0])
    there, at, rows = target, start, 0
    for step in range(row_count(start, target) + 2):
        there = grown(there, arrivals[min(step, len(arrivals) - 1)])
        seen = {key: offset for key, offset in there.items() if step != pinned_at or key.broker == "a"}
        end = next_end(at, until(target, at, reachable(at, seen)), BatchLimits(rows_max=rows_max), {})
        rows += sum(item.rows for item in ranges_between(at, end))
        if end == at and step > pinned_at:
            break
        at = end
    assert at == target
    assert rows == row_count(start, target)
