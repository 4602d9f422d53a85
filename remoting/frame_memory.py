"""Keeps the C library from returning the memory of every large frame to the kernel.

By default glibc maps fresh pages for what is larger than 128 KiB, and shrinks its heap as soon as a little of it is
free. Frames of 256 KiB to 1 MiB pay for that with page faults at each receive: without it the bare path carries about
1.8 times as much. The price: a process keeps up to 64 MiB that its largest burst of frames needed. Whoever sets
glibc's own variables for this is left alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1  # mallopt's names for what it sets
_MMAP_THRESHOLD: Final = -3
HEAP_FRAME_BYTES_MAX: Final = 32 * 1024 * 1024  # glibc takes no more; larger frames are mapped
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
OPERATORS_OWN: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_frame_memory() -> bool:
    """For the whole process; may be called again. False where nothing was set: another C library, or its own variables."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in OPERATORS_OWN):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, HEAP_FRAME_BYTES_MAX)) and bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX))
