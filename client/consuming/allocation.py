"""Divides the queues of a topic among the members of a consumer group. Pure.

Every member computes its own share from the same two lists, members and queues, so there is no coordinator. Every allocation
must therefore give the same answer in every process, whatever the order of the lists, and give each queue to exactly one
member. All members of a group must use the same one.

All allocations here guarantee that, except `by_configuration`, which does what its user says. They follow
RocketMQ's arithmetic, so that a group may be moved from RocketMQ's clients to these member by member.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from ...model.errors import InvalidParameter
from ...model.queue import MessageQueue

Allocation = Callable[[str, Sequence[str], Sequence[MessageQueue]], Iterable[MessageQueue]]
"""(this member's client id, all client ids, all queues of one topic) -> this member's queues."""

VIRTUAL_NODES: Final = 10
CUSTOM: Final = "custom"
"""The name of an allocation that is a function of the user's."""


def averaging(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Neighbouring queues, as evenly as possible; the first members take one more if they do not divide.

    A member that is not in the list gets nothing.
    """
    ordered = sorted(set(members))
    if client_id not in ordered:
        return []
    index = ordered.index(client_id)
    share, rest = divmod(len(queues), len(ordered))
    begin = index * share + min(index, rest)
    return sorted(queues)[begin : begin + share + (1 if index < rest else 0)]


def averaging_by_circle(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """The queues dealt out one by one, in turn: as even as `averaging`, and each broker's spread over more members."""
    ordered = sorted(set(members))
    if client_id not in ordered:
        return []
    return sorted(queues)[ordered.index(client_id) :: len(ordered)]


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Allocation:
    """Members are on a ring, each at `virtual_nodes` points; a queue goes to the next point from its own on.

    A member that joins takes queues from others and moves none between them; one that leaves moves only its own. The shares are
    less even than `averaging`'s: more points, more even shares. Raises InvalidParameter.
    """
    if not 1 <= virtual_nodes <= 1000:
        raise InvalidParameter("virtual_nodes", virtual_nodes, "1 to 1000")

    def allocate(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        points, owners = hash_ring(tuple(sorted(set(members))), virtual_nodes)
        return [queue for queue in sorted(queues) if owners and owners[position_of(points, queue)] == client_id]

    allocate.__name__ = "consistent_hash"
    return allocate


def by_configuration(queues: Iterable[MessageQueue]) -> Allocation:
    """Exactly these queues, as far as they exist, whoever else there is: the user must make sure that each has an owner."""
    own = frozenset(queues)

    def allocate(_client_id: str, _members: Sequence[str], existing: Sequence[MessageQueue]) -> list[MessageQueue]:
        return sorted(own.intersection(existing))

    allocate.__name__ = "by_configuration"
    return allocate


ALLOCATIONS: Final[dict[str, Allocation]] = {
    "averaging": averaging,
    "averaging_by_circle": averaging_by_circle,
    "consistent_hash": consistent_hash(),
}
"""The allocations that need only a name."""


def allocation_of(choice: str | Allocation) -> Allocation:
    """The allocation of this name, or the given function. Raises InvalidParameter."""
    if callable(choice):
        return choice
    if choice not in ALLOCATIONS:
        raise InvalidParameter("allocation", choice, f"one of {', '.join(ALLOCATIONS)}, or a function")
    return ALLOCATIONS[choice]


def name_of(allocation: Allocation) -> str:
    """The name that the members of a group send to the brokers."""
    return next((name for name, known in ALLOCATIONS.items() if known is allocation), CUSTOM)


def share_of(
    allocation: Allocation, client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue]:
    """This member's queues, sorted, each once. Raises InvalidParameter for a share with queues that do not exist."""
    share = sorted(set(allocation(client_id, members, queues)))
    known = frozenset(queues)
    for queue in share:
        if queue not in known:
            raise InvalidParameter("allocation", f"a share with {queue}", "queues of the topic only")
    return share


# ---- the ring of consistent hashing: where members and queues stand on it, as RocketMQ places them

Ring = tuple[tuple[int, ...], tuple[str, ...]]
"""(points, ascending; the owner of each)."""


@lru_cache(maxsize=64)
def hash_ring(members: tuple[str, ...], virtual_nodes: int) -> Ring:
    """`members`: sorted. If two points are equal, the later member's counts."""
    owners = {_hash(f"{member}-{index}"): member for member in members for index in range(virtual_nodes)}
    points = tuple(sorted(owners))
    return points, tuple(owners[point] for point in points)


def position_of(points: tuple[int, ...], queue: MessageQueue) -> int:
    """The index of the first point at or behind the queue's own, going round."""
    own = _hash(f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]")
    return bisect_left(points, own) % len(points)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4])
