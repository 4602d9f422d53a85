"""Refuses a compiled kernel that does not match the sources beside it.

In a checkout, a pull brings new source and leaves the old extension, which Python would import: old kernel code under new
callers. So setup.py makes the kernel call this at its import, with the CRC-32 of its sources. It refuses instead of using
the interpreted kernel: that would be correct, but many times slower, and a rebuild takes a minute. Without a setup.py, as
in an installed wheel, both came together and nothing is read.
"""

from __future__ import annotations

import os
import zlib

from ..model.errors import KernelOutdated
from .kernel_join import PARTS


def check_source(extension: str, checksum: int) -> None:
    """`extension`: the path of the compiled kernel; `checksum`: of its parts, concatenated. Raises KernelOutdated."""
    folder, name = os.path.split(extension)
    root = os.path.dirname(folder)
    if not os.path.exists(os.path.join(root, "setup.py")):
        return
    found = 0
    for part in PARTS:
        try:
            with open(os.path.join(folder, f"{part}.py"), "rb") as file:
                found = zlib.crc32(file.read(), found)
        except FileNotFoundError:
            return
    if found != checksum:
        raise KernelOutdated(name, root)
