"""Refuses machines whose addresses are too narrow for the kernels. Pure.

A record's size and its body's length are unsigned 32-bit fields, and a log's segments are mapped whole. If a memory index
has only 32 bits, a damaged length would count as negative and pass the checks for it.
"""

from __future__ import annotations

from typing import Final

from ..model.errors import HostTooNarrow

INDEX_BYTES: Final = 8  # the required size of a memory index


def check_host(index_bytes: int) -> None:
    """`index_bytes`: the size of an index here, `struct.calcsize("n")`. Raises HostTooNarrow."""
    if index_bytes < INDEX_BYTES:
        raise HostTooNarrow(8 * index_bytes)
