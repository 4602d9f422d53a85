"""Records that are staged at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BLOCK_BYTES: Final = 256 << 10
"""Staged at once; one record more."""


def blocks(sizes: Sequence[int], bytes_max: int) -> list[slice]:
    """The records of these sizes in order, side by side as far as `bytes_max` allows."""
    found: list[slice] = []
    begin = size = 0
    for at, one in enumerate(sizes):
        if at > begin and size + one > bytes_max:
            found.append(slice(begin, at))
            begin, size = at, 0
        size += one
    if begin < len(sizes):
        found.append(slice(begin, len(sizes)))
    return found
