"""Half messages that were just stored, decoded: most are decided at once, and are not read from the log for that. Loop thread.

A message keeps the bytes of its whole block in memory, so what is bounded is the bytes of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..waiting.waiting_records import Found

RECENT_MAX: Final = 4096
RECENT_BYTES_MAX: Final = 8 << 20


class _Block:
    """`left`: how many of its messages are kept."""

    __slots__ = ("left", "size_bytes")

    def __init__(self, left: int, size_bytes: int) -> None:
        self.left = left
        self.size_bytes = size_bytes


class HalfCache:
    """By where they begin in the log."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Found, _Block]] = {}  # in the order in which they were stored
        self._size_bytes = 0  # of their blocks

    def keep(self, halves: Sequence[Found], size_bytes: int) -> None:
        """These are in the log, and were decoded from one block of that size."""
        block = _Block(len(halves), size_bytes)
        self._size_bytes += size_bytes
        for found in halves:
            self._found[found[0].physical_offset] = found, block
        while len(self._found) > RECENT_MAX or self._size_bytes > RECENT_BYTES_MAX:
            self.take(next(iter(self._found)))

    def take(self, offset: int) -> Found | None:
        """The one that begins there; it is kept no longer."""
        kept = self._found.pop(offset, None)
        if kept is None:
            return None
        found, block = kept
        block.left -= 1
        if not block.left:
            self._size_bytes -= block.size_bytes
        return found

    def clear(self) -> None:
        """The log may not have them any more."""
        self._found.clear()
        self._size_bytes = 0
