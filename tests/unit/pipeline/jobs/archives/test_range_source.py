"""Ranges of a batch, shared out among tasks; and as rows on their way there."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest

from zenitmq.pipeline.jobs.archives.range_source import SCHEMA, RangeList, RangeReader, located, shared_out
from zenitmq.pipeline.reading.offsets import QueueRange


def queue(queue_id: int, start: int, end: int) -> QueueRange:
    return QueueRange("t", "a", queue_id, start, end, 77, "9f1c")


def test_shares_have_as_many_rows_each_and_keep_the_order() -> None:
    assert shared_out([queue(0, 0, 3), queue(1, 10, 14)], 2) == [
        (queue(0, 0, 3), queue(1, 10, 11)),
        (queue(1, 11, 14),),
    ]
    assert shared_out([], 4) == []
    assert shared_out([queue(0, 5, 7)], 4) == [(queue(0, 5, 6),), (queue(0, 6, 7),)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("sizes", [(1,), (5,), (1, 1, 1), (100, 1, 1), (3, 50, 7, 11), (13,) * 20])
def test_no_row_is_left_out_or_shared_out_twice(sizes: tuple[int, ...], count: int) -> None:
    ranges = [queue(number, 10 * number, 10 * number + size) for number, size in enumerate(sizes)]
    shares = shared_out(ranges, count)
    rows = [sum(each.rows for each in share) for share in shares]
    assert len(shares) == min(count, sum(sizes))
    assert max(rows) - min(rows) <= 1
    pieces = [each for share in shares for each in share]
    assert all(each.rows for each in pieces)
    joined = [pieces[0]]
    for last, each in pairwise(pieces):
        if each.key == last.key:
            assert each.start == last.end
            joined[-1] = queue(each.queue_id, joined[-1].start, each.end)
        else:
            joined.append(each)
    assert joined == ranges


def test_ranges_travel_as_rows() -> None:
    reader = RangeReader(located({"namesrv": "127.0.0.1:1", "subscribe": "t"}))
    again = pickle.loads(pickle.dumps(reader))
    assert isinstance(again, RangeReader)
    (batch,) = again.read(RangeList((queue(0, 1, 2), queue(3, 4, 9))))
    assert batch.schema == SCHEMA
    assert [QueueRange(*row.values()) for row in batch.to_pylist()] == [queue(0, 1, 2), queue(3, 4, 9)]
    (empty,) = again.read(RangeList(()))
    assert (empty.schema, empty.num_rows) == (SCHEMA, 0)
