"""Refuses a compiled kernel that does not match the sources beside it.

In a checkout a pull brings new source and leaves what was compiled before, which Python would take: old code below new
code that knows another one. So setup.py has the kernel ask here, at its import, with the CRC-32 of what it was made of.
A refusal, not the interpreted kernel instead: that would be correct, but many times slower, and the remedy takes a minute.
Where there is no setup.py, as in what pip installs from a wheel, both came together and nothing is read.
"""

from __future__ import annotations

import os
import zlib

from ..model.errors import KernelOutdated
from .kernel_join import PARTS


def check_source(extension: str, checksum: int) -> None:
    """`extension`: the path of the compiled kernel; `checksum`: of its parts, one after the other. Raises KernelOutdated."""
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
