"""Splits records into blocks, each small enough to be staged at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BLOCK_BYTES: Final = 256 << 10
"""The largest block; a single record may be larger."""


def blocks(sizes: Sequence[int], bytes_max: int) -> list[slice]:
    """Groups records of these sizes, in order, into blocks of at most `bytes_max`."""
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
