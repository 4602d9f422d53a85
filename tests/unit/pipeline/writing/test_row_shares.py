"""Which way each row goes, and that it goes there again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.sending.queue_choice import shard_queue
from zenitmq.model.queue import MessageQueue
from zenitmq.pipeline.writing.arrow_records import ArrowRows
from zenitmq.pipeline.writing.row_shares import BLOCK_ROWS, Share, pinned_queue, shares

QUEUES = tuple(MessageQueue("t", broker, queue_id) for broker in ("a", "b") for queue_id in range(2))


def empty_rows(count: int, topics: str | list[str] = "t", **columns: Any) -> ArrowRows:
    return ArrowRows(pa.array([b""] * count, pa.binary()), [0] * count, topics, **columns)


def any_queue(_topic: str, _group: str | None, _block: int) -> None:
    return None


def pinned(topic: str, group: str | None, block: int) -> MessageQueue:
    queues = [MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in QUEUES]
    return pinned_queue(queues, group, 5, block)


def test_rows_of_one_topic_go_in_blocks_that_do_not_depend_on_where_a_batch_begins() -> None:
    rows = empty_rows(BLOCK_ROWS + 10)
    assert shares(rows, 0, any_queue) == [
        Share("t", None, range(BLOCK_ROWS)),
        Share("t", None, range(BLOCK_ROWS, BLOCK_ROWS + 10)),
    ]
    late = shares(rows, 3 * BLOCK_ROWS - 4, pinned)
    assert [(share.queue, share.picks) for share in late] == [
        (QUEUES[(5 + 2) % 4], range(4)),
        (QUEUES[(5 + 3) % 4], range(4, BLOCK_ROWS + 4)),
        (QUEUES[(5 + 4) % 4], range(BLOCK_ROWS + 4, BLOCK_ROWS + 10)),
    ]
    assert shares(empty_rows(0), 7, any_queue) == []


def test_rows_of_several_topics_or_groups_are_put_together_by_their_way() -> None:
    rows = empty_rows(4, topics=["t", "u", "t", "u"])
    assert shares(rows, 0, any_queue) == [Share("t", None, [0, 2]), Share("u", None, [1, 3])]
    groups = ["x", None, "x", "y"]
    grouped = shares(empty_rows(4, groups=groups), 0, pinned)
    assert {index: share.queue for share in grouped for index in share.picks} == {
        0: shard_queue(QUEUES, "x"),
        1: QUEUES[5 % 4],
        2: shard_queue(QUEUES, "x"),
        3: shard_queue(QUEUES, "y"),
    }


@given(
    sizes=st.lists(st.integers(0, 700), max_size=6),
    others=st.lists(st.integers(50, 700), min_size=1, max_size=20),
    groups=st.booleans(),
)
def test_however_rows_come_in_batches_each_goes_the_same_way_in_the_same_order(
    sizes: list[int], others: list[int], groups: bool
) -> None:
    total = sum(sizes)
    names = [None if n % 3 else f"g{n % 7}" for n in range(total)]

    def ways(batches: list[int]) -> dict[MessageQueue | None, list[int]]:
        found: dict[MessageQueue | None, list[int]] = {}
        first = 0
        for size in batches:
            own = names[first : first + size] if groups else None
            for share in shares(empty_rows(size, groups=own), first, pinned):
                found.setdefault(share.queue, []).extend(first + index for index in share.picks)
            first += size
        return found

    split = []
    left = total
    while left:
        split.append(min(left, others[len(split) % len(others)]))
        left -= split[-1]
    assert ways(sizes) == ways(split)
