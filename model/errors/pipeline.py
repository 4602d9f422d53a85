"""The data pipeline: options, ranges, what queries keep at brokers, holds against retention, what a sink cannot write. Pure."""

from __future__ import annotations

from .base import ZenitError


class UnknownOption(ZenitError):
    """The source or the sink has no option of this name. Args: option, nearest (a name that it has, or "")."""

    code = 9060

    def __init__(self, option: str, nearest: str) -> None:
        super().__init__(option, nearest)
        self.option = option
        self.nearest = nearest

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"the format zenit has no option {self.option!r}{hint}"


class OptionRefused(ZenitError):
    """An option that cannot be used here. Args: option, reason."""

    code = 9061

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"option {self.option}: {self.reason}"


class OffsetsBackwards(ZenitError):
    """A range of offsets ends before it begins: its rows would be left out without a word. Args: queue (as text), start, end.

    On a stream: the offsets that it began with are not those that its checkpoint was made with.
    """

    code = 9062

    def __init__(self, queue: str, start: int, end: int) -> None:
        super().__init__(queue, start, end)
        self.queue = queue
        self.start = start
        self.end = end

    def __str__(self) -> str:
        return (
            f"{self.queue}: start {self.start} is beyond end {self.end}; a stream that starts at latest or at a time needs"
            " the option queryName, under which the broker keeps what it began with"
        )


class OffsetsIncomplete(ZenitError):
    """Offsets were given for some queues of a topic, not for all of those there are, or for one there is not.

    Args: option, queue (as text), reason.
    """

    code = 9063

    def __init__(self, option: str, queue: str, reason: str) -> None:
        super().__init__(option, queue, reason)
        self.option = option
        self.queue = queue
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.option}: {self.queue} {self.reason}"


class DataLost(ZenitError):
    """Rows that were to be read have expired, or were deleted. Args: queue (as text), offset (wanted), minimum (left)."""

    code = 9064

    def __init__(self, queue: str, offset: int, minimum: int) -> None:
        super().__init__(queue, offset, minimum)
        self.queue = queue
        self.offset = offset
        self.minimum = minimum

    def __str__(self) -> str:
        return (
            f"{self.queue}: offset {self.offset} was to be read, what is left begins at {self.minimum}; with"
            " failOnDataLoss=false the rest is read, and what is lost is counted in the log"
        )


class TopicReplaced(ZenitError):
    """A topic was deleted and made again since it was read: what is there now is another one. Args: topic, broker, offset
    (the highest that was read of the old one)."""

    code = 9152

    def __init__(self, topic: str, broker: str, offset: int) -> None:
        super().__init__(topic, broker, offset)
        self.topic = topic
        self.broker = broker
        self.offset = offset

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} at {self.broker} was deleted and made again since it was read up to offset {self.offset};"
            " with failOnDataLoss=false the new one is read from its first row, and what was not read of the old one is lost"
        )


class DamagedMessage(ZenitError):
    """A message that was to be read is damaged. Args: queue (as text), offset, reason."""

    code = 9070

    def __init__(self, queue: str, offset: int, reason: str) -> None:
        super().__init__(queue, offset, reason)
        self.queue = queue
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: the message at offset {self.offset} is damaged: {self.reason}; with onCorrupt=quarantine such"
            " messages are passed over, and told of in the log"
        )


class RangeUnread(ZenitError):
    """Messages of a range did not come, however often they were asked for. Args: queue (as text), offset, waited_ms, reason."""

    code, retriable, route_stale = 9071, True, True

    def __init__(self, queue: str, offset: int, waited_ms: int, reason: str) -> None:
        super().__init__(queue, offset, waited_ms, reason)
        self.queue = queue
        self.offset = offset
        self.waited_ms = waited_ms
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.queue}: nothing came from offset {self.offset} on within {self.waited_ms} ms: {self.reason}"


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


class BatchOutdated(ZenitError):
    """A batch is to be written with delivery=dedup, and a later one of its query was: what it brings that is new would count
    as written. Args: query, batch_id, known (the later one's).
    """

    code = 9106

    def __init__(self, query: str, batch_id: int, known: int) -> None:
        super().__init__(query, batch_id, known)
        self.query = query
        self.batch_id = batch_id
        self.known = known

    def __str__(self) -> str:
        return (
            f"batch {self.batch_id} of query {self.query!r} is to be written, but its batch {self.known} was before: a"
            " checkpoint was set back, or a batchId is not higher, and what is new in the batch would count as written; go on"
            " with a new checkpoint (or queryName) at offsets behind what was written"
        )


class BatchChanged(ZenitError):
    """A batch comes again with delivery=dedup, and its rows are not those that were written of it.

    Args: query, batch_id, reason.
    """

    code = 9170

    def __init__(self, query: str, batch_id: int, reason: str) -> None:
        super().__init__(query, batch_id, reason)
        self.query = query
        self.batch_id = batch_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"batch {self.batch_id} of query {self.query!r} comes again with other rows than were written of it: {self.reason};"
            " go on with a new checkpoint (or queryName, or batchId) at offsets behind what was written"
        )


class UnwritableColumn(ZenitError):
    """A sink cannot write this column of a row. Args: column, reason."""

    code = 9091

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"column {self.column!r} cannot be written to a topic: {self.reason}"
