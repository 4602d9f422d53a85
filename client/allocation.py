"""How the queues of a topic are shared out among the members of a consumer group. Pure.

Every member computes the same answer from the same two sorted lists, so no one has to hand it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..model.errors import InvalidParameter
from ..model.queue import MessageQueue

Allocation = Callable[[str, Sequence[str], Sequence[MessageQueue]], list[MessageQueue]]
"""(this member's client id, all client ids, all queues) -> this member's queues."""


def averaging(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Neighbouring queues, as evenly as they divide; the first members take one more where they do not.

    A member that is not in the list gets nothing.
    """
    ordered = sorted(set(members))
    if client_id not in ordered:
        return []
    index = ordered.index(client_id)
    share, rest = divmod(len(queues), len(ordered))
    begin = index * share + min(index, rest)
    return sorted(queues)[begin : begin + share + (1 if index < rest else 0)]


ALLOCATIONS: Final[dict[str, Allocation]] = {"averaging": averaging}


def allocation_named(name: str) -> Allocation:
    """An allocation by name. Raises InvalidParameter."""
    if name not in ALLOCATIONS:
        raise InvalidParameter("allocation", name, f"one of {', '.join(ALLOCATIONS)}")
    return ALLOCATIONS[name]
