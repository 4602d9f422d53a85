"""Compiles a small library that is loaded into a drill's brokers by LD_PRELOAD."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from ....model.errors import RequirementMissing, SystemFault

COMPILERS: Final = ("cc", "gcc", "clang")
REMEDY: Final = "install a C compiler: sudo apt-get install -y gcc libc6-dev"
COMPILE_TIMEOUT_S: Final = 60


def compile_library(source: str, folder: str) -> str:
    """The path of the library compiled into `folder` from `source`, a file beside this one.

    Raises RequirementMissing without a compiler, SystemFault if it fails.
    """
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise RequirementMissing("a C compiler for faults of disks", REMEDY)
    os.makedirs(folder, exist_ok=True)
    library = os.path.join(os.path.realpath(folder), f"{os.path.splitext(source)[0]}.so")
    path = os.path.join(os.path.dirname(__file__), source)
    command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", library, path, "-ldl"]
    done = subprocess.run(  # noqa: S603 (a compiler found on the path, and our own source)
        command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise SystemFault(f"{source} does not compile: {done.stderr.strip()[:500]}")
    return library
