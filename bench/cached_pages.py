"""Brings the pages of a file into memory, and into this processor's use, before they are overwritten.

A machine drops from its page cache what nobody used for a while. On a virtual one, a page that comes back from the disk still
costs the host a fault when the processor first touches it. Neither is what a figure of warm pages is about.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..store.log.segment import MappedFile

_STEP_BYTES: Final = 4096  # the smallest page that any machine has


def touch_pages(path: str, size_bytes: int) -> None:
    """Reads one byte of each page of a file of this size. Raises OSError, StoreFormatError."""
    file = MappedFile(path, size_bytes)
    file.populate(0, size_bytes)
    int(np.frombuffer(file.map, dtype=np.uint8)[::_STEP_BYTES].sum())
    file.close()
