"""The data pipeline: what queries keep at brokers, holds against retention, what a sink cannot write."""

from __future__ import annotations

from .base import ZenitError


class QueryOffsetsNotFound(ZenitError):
    """Nothing is kept of a query. Args: query."""

    code = 9085

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def __str__(self) -> str:
        return f"no offsets are kept of query {self.query!r} (zenit query-offsets list)"


class TooManyQueries(ZenitError):
    """A broker keeps as much of queries as it may. Args: limit, what (is counted)."""

    code = 9086

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return (
            f"the broker keeps at most {self.limit} {self.what}: drop those of queries that are gone"
            " (zenit query-offsets drop)"
        )


class QueryOffsetsDiffer(ZenitError):
    """Brokers keep different offsets of one query: one was away while the query began a second time. Args: query, brokers."""

    code = 9087

    def __init__(self, query: str, brokers: str) -> None:
        super().__init__(query, brokers)
        self.query = query
        self.brokers = brokers

    def __str__(self) -> str:
        return (
            f"brokers {self.brokers} keep different offsets of query {self.query!r}; look at them"
            " (zenit query-offsets show --json), then drop them and start the query at explicit offsets"
        )


class HoldNotFound(ZenitError):
    """A hold is over: not renewed in time, or the broker that gave it leads no more. Args: hold_id."""

    code = 9088

    def __init__(self, hold_id: str) -> None:
        super().__init__(hold_id)
        self.hold_id = hold_id

    def __str__(self) -> str:
        return f"hold {self.hold_id!r} is over; take a new one"


class TooManyHolds(ZenitError):
    """A broker has as many holds as it takes. Args: limit, what (is counted)."""

    code, retriable = 9089, True

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return f"the broker takes at most {self.limit} {self.what}; others end when their readers do, or within an hour"


class UnwritableColumn(ZenitError):
    """A sink cannot write this column of a row. Args: column, reason."""

    code = 9091

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"column {self.column!r} cannot be written to a topic: {self.reason}"
