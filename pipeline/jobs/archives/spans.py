"""Sets of offsets as spans [begin, end): union, duplicates, gaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
Spans = tuple[Span, ...]
"""A set: ascending, none empty, none adjacent to the next."""


def union(spans: Iterable[Span]) -> Spans:
    """The set of all offsets in the spans, which may overlap and come in any order."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if begin >= end:
            continue
        if joined and begin <= joined[-1][1]:
            if end > joined[-1][1]:
                joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def count(spans: Iterable[Span]) -> int:
    """The number of offsets in the spans, with repetitions."""
    return sum(end - begin for begin, end in spans if end > begin)


def repeated(spans: Iterable[Span]) -> Spans:
    """The set of offsets that are in more than one of the spans."""
    twice: list[Span] = []
    reach = None
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if reach is not None and begin < reach:
            twice.append((begin, min(end, reach)))
        reach = end if reach is None else max(reach, end)
    return union(twice)


def missing(spans: Spans, begin: int, end: int) -> Spans:
    """The offsets of [begin, end) that are not in a set."""
    gaps = []
    for first, last in spans:
        if first >= end:
            break
        if begin < first:
            gaps.append((begin, first))
        begin = max(begin, last)
    if begin < end:
        gaps.append((begin, end))
    return tuple(gaps)


def common(left: Spans, right: Spans) -> Spans:
    """The offsets in both sets."""
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        begin, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if begin < end:
            found.append((begin, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def first_and_end(spans: Sequence[Span]) -> Span | None:
    """From the first offset of a set to the one behind its last; None for the empty set."""
    return (spans[0][0], spans[-1][1]) if spans else None
