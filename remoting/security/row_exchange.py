"""How two servers come to know the same users and roles: a master asks, the other answers. Pure.

    master                                                name server or controller
      digests of all that I have                     -->
                                                     <--  my digests, and my rows of those that differ
      digests, and my rows of those that still differ -->
                                                     <--  my digests, now the same

Each message is bounded, and what has no room in one comes in a later one. Any message may be lost, or come twice or late.
"""

from __future__ import annotations

from ...model.security.access_rows import AccessRows, parse_rows
from ...model.security.row_codec import SecurityRow
from ..commands import ExchangeReply, ExchangeSecurity


class RowExchange:
    """The side that asks, of one other server. `rows` may change between any two calls."""

    def __init__(self, rows: AccessRows) -> None:
        self._rows = rows
        self._untold: tuple[str, ...] = ()
        self._tell_after = self._ask_after = ""

    @property
    def has_news(self) -> bool:
        """Its next request brings rows that the other seems not to have."""
        return bool(self._untold)

    def request(self) -> ExchangeSecurity:
        """What to ask now."""
        told, self._untold = self._untold, ()
        return ExchangeSecurity(self._rows.digests(), told, self._ask_after)

    def on_reply(self, reply: ExchangeReply, now_ms: int) -> tuple[list[SecurityRow], int]:
        """The rows to take, and how many were told that this version cannot read. Raises InvalidParameter."""
        rows, refused = parse_rows(reply.rows)
        mine, self._tell_after = self._rows.differing(reply.digests, self._tell_after)
        theirs = frozenset(reply.rows)
        self._untold = tuple(text for text in mine if text not in theirs)
        self._ask_after = reply.last
        return self._rows.later(rows, now_ms), len(refused)


def answer(rows: AccessRows, request: ExchangeSecurity) -> ExchangeReply:
    """The reply of the other side, which has taken the rows before. Raises InvalidParameter."""
    told, last = rows.differing(request.digests, request.after)
    return ExchangeReply(rows.digests(), told, last)
