"""The version of a query's stored document: its member `version`. Pure.

Of two documents of one query that of the higher version counts, in a broker and among the copies of several brokers.
"""

from __future__ import annotations

import json
from typing import Final

VERSION_MAX: Final = (1 << 63) - 1


def version_of(text: str) -> int:
    """The version, an integer from 0 on; 0 of a document without one."""
    try:
        version = json.loads(text).get("version", 0)
    except (AttributeError, ValueError, RecursionError):
        return 0
    return version if type(version) is int and 0 <= version <= VERSION_MAX else 0
