"""Sets of offsets as spans, by example."""

from __future__ import annotations

import pytest

from zenitmq.pipeline.jobs.archives.spans import Span, common, count, first_and_end, missing, repeated, union


@pytest.mark.parametrize(
    ("spans", "joined"),
    [
        ([], ()),
        ([(3, 3), (5, 4)], ()),
        ([(5, 7), (0, 2)], ((0, 2), (5, 7))),
        ([(0, 2), (2, 4)], ((0, 4),)),
        ([(0, 9), (2, 4), (8, 10)], ((0, 10),)),
    ],
)
def test_the_union_is_ordered_and_joined(spans: list[Span], joined: tuple[Span, ...]) -> None:
    assert union(spans) == joined


@pytest.mark.parametrize(
    ("spans", "twice"),
    [
        ([(0, 2), (2, 4)], ()),
        ([(0, 3), (2, 4)], ((2, 3),)),
        ([(0, 9), (2, 4), (6, 12)], ((2, 4), (6, 9))),
        ([(0, 2), (0, 2), (0, 2)], ((0, 2),)),
        ([(1, 1), (0, 2)], ()),
    ],
)
def test_what_is_in_there_twice(spans: list[Span], twice: tuple[Span, ...]) -> None:
    assert repeated(spans) == twice


@pytest.mark.parametrize(
    ("spans", "bounds", "gaps"),
    [
        ((), (2, 5), ((2, 5),)),
        ((), (2, 2), ()),
        (((0, 2), (4, 6)), (0, 8), ((2, 4), (6, 8))),
        (((0, 9),), (2, 5), ()),
        (((6, 9),), (2, 5), ((2, 5),)),
        (((3, 4), (7, 9)), (0, 8), ((0, 3), (4, 7))),
    ],
)
def test_what_is_missing(spans: tuple[Span, ...], bounds: Span, gaps: tuple[Span, ...]) -> None:
    assert missing(spans, *bounds) == gaps


def test_what_two_sets_have_in_common() -> None:
    assert common(((0, 5), (8, 9)), ((3, 8), (8, 20))) == ((3, 5), (8, 9))
    assert common(((0, 5),), ((5, 8),)) == ()
    assert common(((4, 6),), ((0, 5), (5, 9))) == ((4, 5), (5, 6))


def test_counts_and_bounds() -> None:
    assert count([(0, 3), (2, 4), (9, 1)]) == 5
    assert first_and_end(()) is None
    assert first_and_end(((2, 4), (7, 8))) == (2, 8)
