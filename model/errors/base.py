"""The root of all we raise. Pure."""

from __future__ import annotations

from typing import ClassVar


class ZenitError(Exception):
    """Root of all we raise. Args: the facts of the class, in the order of its `__init__`."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    route_stale: ClassVar[bool] = False
