"""The root of the error tree. Pure."""

from __future__ import annotations

from typing import ClassVar


class ZenitError(Exception):
    """The root of all errors that ZenitMQ raises. Args: the facts of the class, in the order of its `__init__`."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    route_stale: ClassVar[bool] = False
