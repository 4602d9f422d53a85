"""Which messages of a queue go out with a pop. Pure.

What is available again goes first, in the order of the queue, then what nobody looked at. In an ordered group a message whose
sharding key is busy (one of it is leased, or an earlier one was passed over) is passed over; messages without a key are of
one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

LOOKS_MAX: Final = 256
"""Messages that one ordered pop looks at in a queue; as many may be passed over before the queue waits for acknowledgements."""


def key_hash(sharding_key: str) -> int:
    """Two keys with the same hash wait for each other, which is rare and harmless."""
    return crc32(sharding_key.encode()) if sharding_key else 0


def runs_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of each stretch of ascending offsets that follow each other."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][0] + runs[-1][1]:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((offset, 1))
    return runs


@dataclass(slots=True)
class OrderedChoice:
    """An ordered pop's choice in one queue, message by message in the order of the queue."""

    room: int
    blocked: set[int]
    """Hashes of keys that are busy."""
    chosen: list[tuple[int, int]] = field(default_factory=list)
    """(offset, key hash)."""
    passed: list[tuple[int, int]] = field(default_factory=list)

    def offer(self, offset: int, key: int) -> bool:
        """Whether the message goes out."""
        is_free = key not in self.blocked and len(self.chosen) < self.room
        self.blocked.add(key)
        (self.chosen if is_free else self.passed).append((offset, key))
        return is_free

    @property
    def is_full(self) -> bool:
        """No more are wanted."""
        return len(self.chosen) >= self.room
