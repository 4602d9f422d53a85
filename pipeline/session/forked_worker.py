"""Keeps tasks cheap in the Python workers that pyspark's daemon forks.

The daemon has Python look for garbage after each task, through all objects of all imported modules: 25 ms, which is more than
a short task takes. What was imported is no garbage, so it is put where Python does not look.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_DAEMON: Final = "pyspark.daemon"
_modules_kept = 0


def keep_imports() -> None:
    """Call it when a task has imported what it needs. Does nothing in other processes, and if nothing was imported since."""
    global _modules_kept
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != _DAEMON or len(sys.modules) == _modules_kept:
        return
    _modules_kept = len(sys.modules)
    gc.freeze()
