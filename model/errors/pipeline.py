"""Errors of the Spark source and sink: options, offset ranges, stored query offsets, retention holds, columns. Pure."""

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
    """A range of offsets ends before it begins, so its rows would silently be left out. Args: queue (as text), start, end.

    On a stream: it began at other offsets than those that its checkpoint was made with.
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
            " the option queryName, under which the broker stores its begin"
        )


class OffsetsIncomplete(ZenitError):
    """Offsets were given for only some queues of a topic, or for a queue that does not exist.

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
    """Rows expired, or were deleted, before they were read. Args: queue (as text), offset (wanted), minimum (left)."""

    code = 9064

    def __init__(self, queue: str, offset: int, minimum: int) -> None:
        super().__init__(queue, offset, minimum)
        self.queue = queue
        self.offset = offset
        self.minimum = minimum

    def __str__(self) -> str:
        return (
            f"{self.queue}: rows from offset {self.offset} on are lost, the queue now begins at {self.minimum}; with"
            " failOnDataLoss=false the rest is read, and the lost rows are counted in the log"
        )


class TopicReplaced(ZenitError):
    """A topic was deleted and created again since it was read. Args: topic, broker, offset
    (the highest that was read of the former one)."""

    code = 9152

    def __init__(self, topic: str, broker: str, offset: int) -> None:
        super().__init__(topic, broker, offset)
        self.topic = topic
        self.broker = broker
        self.offset = offset

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} at {self.broker} was deleted and created again since it was read up to offset {self.offset};"
            " with failOnDataLoss=false the new one is read from its first row, and unread rows of the former one are lost"
        )


class DamagedMessage(ZenitError):
    """A message in the range to read is damaged. Args: queue (as text), offset, reason."""

    code = 9070

    def __init__(self, queue: str, offset: int, reason: str) -> None:
        super().__init__(queue, offset, reason)
        self.queue = queue
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: the message at offset {self.offset} is damaged: {self.reason}; with onCorrupt=quarantine damaged"
            " messages are skipped, and named in the log"
        )


class RangeUnread(ZenitError):
    """The brokers did not deliver the messages of a range, in spite of retries.

    Args: queue (as text), offset, waited_ms, reason.
    """

    code, retriable, route_stale = 9071, True, True

    def __init__(self, queue: str, offset: int, waited_ms: int, reason: str) -> None:
        super().__init__(queue, offset, waited_ms, reason)
        self.queue = queue
        self.offset = offset
        self.waited_ms = waited_ms
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: no message from offset {self.offset} on arrived within {self.waited_ms} ms: {self.reason}"
        )


class QueryOffsetsNotFound(ZenitError):
    """The brokers store no offsets of this query. Args: query."""

    code = 9085

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def __str__(self) -> str:
        return f"no offsets of query {self.query!r} are stored (zenit query-offsets list)"


class TooManyQueries(ZenitError):
    """A broker already stores as many entries of queries as it may. Args: limit, what (is counted)."""

    code = 9086

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return (
            f"the broker stores at most {self.limit} {self.what}: drop those of queries that no longer run"
            " (zenit query-offsets drop)"
        )


class QueryOffsetsDiffer(ZenitError):
    """Brokers store different offsets of one query: one was down when the query began again. Args: query, brokers."""

    code = 9087

    def __init__(self, query: str, brokers: str) -> None:
        super().__init__(query, brokers)
        self.query = query
        self.brokers = brokers

    def __str__(self) -> str:
        return (
            f"brokers {self.brokers} store different offsets of query {self.query!r}; compare them"
            " (zenit query-offsets show --json), then drop them and start the query at explicit offsets"
        )


class HoldNotFound(ZenitError):
    """A retention hold has ended: it was not renewed in time, or its broker is no longer master. Args: hold_id."""

    code = 9088

    def __init__(self, hold_id: str) -> None:
        super().__init__(hold_id)
        self.hold_id = hold_id

    def __str__(self) -> str:
        return f"retention hold {self.hold_id!r} has ended; request a new one"


class TooManyHolds(ZenitError):
    """A broker already has as many retention holds as it may. Args: limit, what (is counted)."""

    code, retriable = 9089, True

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return (
            f"the broker allows at most {self.limit} {self.what}; the others end with their readers, or within an hour"
        )


class BatchOutdated(ZenitError):
    """With delivery=dedup, a batch comes after a later one of its query: new rows in it would count as written.

    Args: query, batch_id, known (the later one's).
    """

    code = 9106

    def __init__(self, query: str, batch_id: int, known: int) -> None:
        super().__init__(query, batch_id, known)
        self.query = query
        self.batch_id = batch_id
        self.known = known

    def __str__(self) -> str:
        return (
            f"batch {self.batch_id} of query {self.query!r} comes after its batch {self.known}: the checkpoint was"
            " set back, or the"
            " batchId is not higher; new rows would count as written. Continue with a new checkpoint (or queryName), at offsets"
            " behind what was written"
        )


class BatchChanged(ZenitError):
    """With delivery=dedup, a repeated batch has other rows than were written before.

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
            f"batch {self.batch_id} of query {self.query!r} is repeated with other rows than were written before:"
            f" {self.reason};"
            " continue with a new checkpoint (or queryName, or batchId), at offsets behind what was written"
        )


class UnwritableColumn(ZenitError):
    """The sink cannot write this column. Args: column, reason."""

    code = 9091

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"column {self.column!r} cannot be written to a topic: {self.reason}"
