"""CRC-32 with zlib's polynomial: the fastest one on this machine, for Python code and for the kernels.

isal's extension module exports the C function that it wraps: `crc32_gzip_refl` of Intel's ISA-L. The kernels call that
function by its address, because a call through Python takes five times as long as the checksum of 128 bytes.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Final

try:
    from isal import isal_zlib
    from isal.isal_zlib import crc32 as crc32

    _LIBRARY: str | None = isal_zlib.__file__
except ImportError:  # no wheel for this machine: the same values, slower
    from zlib import crc32 as crc32

    _LIBRARY = None

FUNCTION: Final = "crc32_gzip_refl"
_PROBE: Final = bytes(range(256))


def crc32_address(library: str | None = _LIBRARY, function: str = FUNCTION) -> int:
    """The address of C's `uint32_t f(uint32_t crc, const uint8_t *data, uint64_t size_bytes)` in a shared library.

    0 if the library has no such function, or its result is not zlib's: then the kernel calls `crc32`.
    """
    if library is None:
        return 0
    try:
        found = getattr(ctypes.CDLL(library), function)
    except (OSError, AttributeError):
        return 0
    found.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64)
    found.restype = ctypes.c_uint32
    if any(found(0, _PROBE[at:], len(_PROBE) - at) != zlib.crc32(_PROBE[at:]) for at in range(len(_PROBE) + 1)):
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0
