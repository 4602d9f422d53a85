"""The buffer into which requests are received contiguously, and from which they are written to the log without a copy.
Pure.

Owned by the data loop. The server socket receives each payload at `used`. Code that takes a payload (the store, when it
stages a batch) moves `used` behind it; code that refuses it leaves `used` alone, and the next payload overwrites it.
"""

from __future__ import annotations

from collections.abc import Callable


def _from_heap(size_bytes: int) -> memoryview:
    return memoryview(bytearray(size_bytes))


class Arena:
    """`view[:used]` is staged; the rest is free. `frame_bytes_max` always fits behind `drain_bytes`."""

    __slots__ = ("drain_bytes", "frame_bytes_max", "used", "view")

    def __init__(
        self, drain_bytes: int, frame_bytes_max: int, allocate: Callable[[int], memoryview] = _from_heap
    ) -> None:
        """`allocate`: allocates so many bytes, which are freed with the last view of them."""
        self.drain_bytes = drain_bytes
        self.frame_bytes_max = frame_bytes_max
        self.view = allocate(drain_bytes + frame_bytes_max)
        self.used = 0

    @property
    def is_full(self) -> bool:
        """True after a turn of the loop has drained enough."""
        return self.used >= self.drain_bytes
