"""Connects each request with the server method that answers it (the table is in `commands/base`).

A server lists its rows and has them checked at its start: each request that it serves according to the table has exactly
one row, and no other request has any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from ..model.plain_dataclass import dataclass
from .commands import REQUESTS, Reply, Request, ServedBy
from .server import Call, Handler

_R = TypeVar("_R", bound=Request)


@dataclass(frozen=True, slots=True)
class Row:
    """`handler` answers requests of `request_class`, as in `RequestLoop.handle`."""

    request_class: type[Request]
    handler: Handler


def row(request_class: type[_R], handler: Callable[[Call[_R]], Reply | None]) -> Row:
    """One row. The type checker verifies that the handler takes this class."""
    return Row(request_class, handler)


def check_rows(rows: Iterable[Row], roles: Collection[ServedBy]) -> None:
    """Raises ValueError unless each request that one of `roles` serves has one row, and no other request has any."""
    classes = [row.request_class for row in rows]
    served = {cls for cls in REQUESTS.values() if cls.served_by in roles}
    twice = {cls for cls in classes if classes.count(cls) > 1}
    for what, wrong in (
        ("no handler answers", served.difference(classes)),
        ("not served here:", set(classes) - served),
        ("several handlers answer", twice),
    ):
        if wrong:
            raise ValueError(f"{what} {', '.join(sorted(cls.__name__ for cls in wrong))}")
