"""The ring of consistent hashing: where members and queues stand on it, as RocketMQ places them. Pure."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from functools import lru_cache
from typing import Final

from ...model.queue import MessageQueue

VIRTUAL_NODES: Final = 10

Ring = tuple[tuple[int, ...], tuple[str, ...]]
"""(points, ascending; whose each is)."""


@lru_cache(maxsize=64)
def hash_ring(members: tuple[str, ...], virtual_nodes: int) -> Ring:
    """`members`: sorted. Where two points fall together, the later member's counts."""
    owners = {_hash(f"{member}-{index}"): member for member in members for index in range(virtual_nodes)}
    points = tuple(sorted(owners))
    return points, tuple(owners[point] for point in points)


def position_of(points: tuple[int, ...], queue: MessageQueue) -> int:
    """The index of the first point at or behind the queue's own, going round."""
    own = _hash(f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]")
    return bisect_left(points, own) % len(points)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4])
