"""How far a group is behind in one queue. Pure; numbers are never negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .offset_table import UNKNOWN


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue from a group's view. `has_begun`: it has committed in the topic, perhaps not in this queue, which it
    then consumes from the first message on. `oldest_ms`: when the first message it has yet to consume was stored.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    committed: int  # UNKNOWN if the group never committed
    has_begun: bool
    oldest_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Messages yet to consume, of those still held; None if it is unknown where the group will begin."""
        lag = max(0, self.max_offset - max(self.committed, self.min_offset))
        return lag if lag == 0 or self.has_begun else None

    def lag_seconds(self, now_ms: int) -> float | None:
        """Age of the first message yet to consume; 0.0 if there is none, None if unknown."""
        lag = self.lag
        if lag == 0:
            return 0.0
        if lag is None or self.oldest_ms is None:
            return None
        return max(0, now_ms - self.oldest_ms) / 1000

    def document(self, now_ms: int, owner: str | None) -> dict[str, Any]:
        """The row of `zenit group describe`; None = unknown."""
        return {
            "topic": self.topic,
            "queue_id": self.queue_id,
            "broker_queue_offset": self.max_offset,
            "consumer_queue_offset": known_offset(self.committed),
            "lag": self.lag,
            "lag_seconds": self.lag_seconds(now_ms),
            "owner": owner,
        }


def known_offset(committed: int) -> int | None:
    """A committed offset as documents have it: None if there is none."""
    return None if committed == UNKNOWN else committed


def reset_target(to: str, value: int, *, min_offset: int, max_offset: int) -> int:
    """The offset for "earliest", "latest" or "offset" (`value`), limited to what the queue holds."""
    wanted = {"earliest": min_offset, "latest": max_offset, "offset": value, "time": value}[to]
    return max(min_offset, min(wanted, max_offset))
