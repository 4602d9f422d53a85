"""How much memory requests of the remoting protocol may take in one process: what has come of them, and what is handled. Pure.

Parts of requests that nobody ends take room from all. So where they are too many, the connection goes whose part has been the
most bytes for the longest time. In a secured cluster those that have not signed a request yet share a small part of the room.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

STRANGERS_SHARE: Final = 4
"""Of the room, one in so many."""


class HeldBytes:
    """Of one connection. `begun_ms`: monotonic, when the request began to come whose end is awaited."""

    __slots__ = ("begun_ms", "buffered", "handled", "is_known")

    def __init__(self) -> None:
        self.buffered = 0
        self.handled = 0
        self.begun_ms = 0
        self.is_known = False
        """It has signed a request."""


class RequestRoom:
    """`bytes_max`: for what has come, and again for what is handled. `is_secured`: clients sign."""

    def __init__(self, bytes_max: int, *, is_secured: bool) -> None:
        self._bytes_max = bytes_max
        self._strangers_max = bytes_max // STRANGERS_SHARE if is_secured else bytes_max
        self._strangers_buffered = 0
        self._strangers_handled = 0
        self.buffered = 0
        """Of requests that have not come as a whole, or wait to be handled."""
        self.handled = 0
        """Of requests that are being handled."""

    def buffer(self, held: HeldBytes, size_bytes: int) -> None:
        """So many bytes have come, or are no longer waited with."""
        held.buffered += size_bytes
        self.buffered += size_bytes
        if not held.is_known:
            self._strangers_buffered += size_bytes

    def take(self, held: HeldBytes, size_bytes: int) -> bool:
        """One more request is handled; False where there is no room."""
        if self.handled + size_bytes > self._bytes_max:
            return False
        if not held.is_known:
            if self._strangers_handled + size_bytes > self._strangers_max:
                return False
            self._strangers_handled += size_bytes
        held.handled += size_bytes
        self.handled += size_bytes
        return True

    def give_back(self, held: HeldBytes, size_bytes: int) -> None:
        """It is handled."""
        held.handled -= size_bytes
        self.handled -= size_bytes
        if not held.is_known:
            self._strangers_handled -= size_bytes

    def know(self, held: HeldBytes) -> None:
        """It has signed a request."""
        if not held.is_known:
            held.is_known = True
            self._strangers_buffered -= held.buffered
            self._strangers_handled -= held.handled

    def is_over(self) -> bool:
        """Whether parts of requests take more than they may: `worst` says who is to go."""
        return self.buffered > self._bytes_max or self._strangers_buffered > self._strangers_max

    def worst(self, helds: Iterable[HeldBytes], now_ms: int) -> HeldBytes:
        """Whose part is the most bytes times the milliseconds since it began; of strangers where theirs are too many."""
        if self._strangers_buffered > self._strangers_max:
            helds = (held for held in helds if not held.is_known)
        return max(helds, key=lambda held: held.buffered * (now_ms - held.begun_ms + 1))
