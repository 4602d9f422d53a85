"""Decides to which queue each row of a write goes, and which rows go together. Pure.

With delivery=dedup a repeated batch must go to the same queues, row by row, whatever happened to the topic meanwhile. So
its queues are pinned when a query first writes to it, and a row's queue follows only from its number in its task, or from
its message group. Rows without a group change queues in blocks: BLOCK_ROWS adjacent rows share one, so that a request has
many rows of one queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...client.sending.queue_choice import shard_queue
from ...model.queue import MessageQueue
from .arrow_records import ArrowRows

BLOCK_ROWS: Final = 512

Destination = Callable[[str, str | None, int], MessageQueue | None]
"""(topic, message group, block) -> the queue; None: any queue of the topic."""


@dataclass(frozen=True, slots=True)
class Share:
    """Rows (indexes in a batch, in order) with one destination."""

    topic: str
    queue: MessageQueue | None
    picks: Sequence[int]


def shares(rows: ArrowRows, first_row: int, destination: Destination) -> list[Share]:
    """A batch's rows by destination, each in order. `first_row`: the index of the batch's first row in its task."""
    if isinstance(rows.topics, str) and rows.groups is None:
        found = []
        begin = 0
        while begin < len(rows):
            block, within = divmod(first_row + begin, BLOCK_ROWS)
            end = min(len(rows), begin + BLOCK_ROWS - within)
            found.append(Share(rows.topics, destination(rows.topics, None, block), range(begin, end)))
            begin = end
        return found
    ways: dict[tuple[str, MessageQueue | None], list[int]] = {}
    for index in range(len(rows)):
        topic = rows.topic(index)
        queue = destination(topic, rows.group(index), (first_row + index) // BLOCK_ROWS)
        ways.setdefault((topic, queue), []).append(index)
    return [Share(topic, queue, picks) for (topic, queue), picks in ways.items()]


def pinned_queue(queues: Sequence[MessageQueue], group: str | None, salt: int, block: int) -> MessageQueue:
    """The queue of a row, among the pinned ones. `salt`: distributes tasks and batches differently."""
    if group is not None:
        return shard_queue(queues, group)
    return queues[(salt + block) % len(queues)]
