"""Which lite topics are idle and may be collected. Pure.

A lite topic goes with all that is kept of it once its last message is older than its parent's expiration, and no group that
receives it has anything of it left to receive or to acknowledge. A group that stays away keeps it no longer than the log keeps
its messages: what retention takes is not left to receive. One that has no messages any more goes at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...model.topics.light_queues import lite_topic_of


@dataclass(frozen=True, slots=True)
class LiteState:
    """A lite topic: `last_ms`: when its last message was stored, since the epoch; None = it has none. `is_wanted`: a group
    has something of it to receive or to acknowledge. `is_kept`: something is kept of it, here or in a group."""

    last_ms: int | None
    is_wanted: bool
    is_kept: bool


def is_over(state: LiteState, expiration_ms: int | None, now_ms: int) -> bool:
    """`expiration_ms`: None = never, as long as it has messages."""
    if state.is_wanted or not state.is_kept:
        return False
    if state.last_ms is None:
        return True
    return expiration_ms is not None and now_ms - state.last_ms > expiration_ms


class LiteScan:
    """One scan over all lite topics, some at a time. `counts`: how many each parent had when they were looked at."""

    def __init__(self, queues: Iterable[str]) -> None:
        """`queues`: names of light queues; those of no lite topic are passed over."""
        self._left = deque(queues)
        self.counts: dict[str, int] = {}

    @property
    def is_done(self) -> bool:
        """All were looked at."""
        return not self._left

    def some(self, count: int, is_over: Callable[[str, str, str], bool]) -> dict[str, list[tuple[str, str]]]:
        """{parent: [(lite topic, light queue)]} of the next `count` that are over. `is_over(parent, lite topic, queue)`."""
        found: dict[str, list[tuple[str, str]]] = {}
        for _ in range(min(count, len(self._left))):
            queue = self._left.popleft()
            lite = lite_topic_of(queue)
            if lite is None:
                continue
            parent, name = lite
            if is_over(parent, name, queue):
                found.setdefault(parent, []).append((name, queue))
            else:
                self.counts[parent] = self.counts.get(parent, 0) + 1
        return found
