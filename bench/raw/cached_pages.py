"""Brings the pages of a file into memory, and maps them in this machine, before they are overwritten.

A machine drops from its page cache what nobody has used for a while. On a virtual machine, a page that comes back from the
disk costs a fault in the host when the processor first touches it. A figure of warm pages must contain neither.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...store.log.segment import MappedFile

_STEP_BYTES: Final = 4096  # the smallest page size of any machine


def touch_pages(path: str, size_bytes: int) -> None:
    """Reads one byte of each page of a file of this size. Raises OSError, StoreFormatError."""
    file = MappedFile(path, size_bytes)
    file.populate(0, size_bytes)
    int(np.frombuffer(file.map, dtype=np.uint8)[::_STEP_BYTES].sum())
    file.close()
