"""Sets of offsets as spans do what sets of numbers do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.pipeline.jobs.archives.spans import Span, common, count, missing, repeated, union

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def offsets(spans: tuple[Span, ...] | list[Span]) -> list[int]:
    return [offset for begin, end in spans for offset in range(begin, end)]


def is_a_set(spans: tuple[Span, ...]) -> bool:
    return all(begin < end for begin, end in spans) and all(left[1] < right[0] for left, right in pairwise(spans))


@given(SPANS)
def test_union_and_repeated_are_what_a_count_of_each_offset_says(spans: list[Span]) -> None:
    times = Counter(offsets(spans))
    assert is_a_set(union(spans))
    assert is_a_set(repeated(spans))
    assert offsets(union(spans)) == sorted(times)
    assert offsets(repeated(spans)) == sorted(offset for offset, number in times.items() if number > 1)
    assert count(spans) == times.total()


@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_what_is_missing_and_what_is_there_make_the_whole(spans: list[Span], begin: int, end: int) -> None:
    there = union(spans)
    gaps = missing(there, begin, end)
    assert offsets(gaps) == [offset for offset in range(begin, end) if offset not in set(offsets(there))]


@given(SPANS, SPANS)
def test_common_is_the_intersection(left: list[Span], right: list[Span]) -> None:
    assert offsets(common(union(left), union(right))) == sorted(set(offsets(left)) & set(offsets(right)))
