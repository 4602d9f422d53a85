"""How far behind a group is in one queue. Pure; numbers are never negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .offset_table import UNKNOWN


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue as a group sees it. `oldest_ms`: when the first message it has yet to consume was stored."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    committed: int  # UNKNOWN where the group never committed
    oldest_ms: int | None = None

    @property
    def lag(self) -> int:
        """Messages yet to consume, of those still held; all of them where the group never committed."""
        return max(0, self.max_offset - max(self.committed, self.min_offset))

    def lag_seconds(self, now_ms: int) -> float | None:
        """Age of the first message yet to consume; 0.0 where there is none, None where nobody knows which it is."""
        if self.lag == 0:
            return 0.0
        if self.committed == UNKNOWN or self.oldest_ms is None:
            return None
        return max(0, now_ms - self.oldest_ms) / 1000

    def document(self, now_ms: int, owner: str | None) -> dict[str, Any]:
        """The row of `zenit group describe`."""
        return {
            "topic": self.topic,
            "queue_id": self.queue_id,
            "broker_queue_offset": self.max_offset,
            "consumer_queue_offset": self.committed,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds(now_ms),
            "owner": owner,
        }


def reset_target(to: str, value: int, *, min_offset: int, max_offset: int) -> int:
    """The offset that "earliest", "latest" or "offset" (`value`) means for a queue: within what it holds."""
    wanted = {"earliest": min_offset, "latest": max_offset, "offset": value, "time": value}[to]
    return max(min_offset, min(wanted, max_offset))
