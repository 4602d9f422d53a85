"""The writers of the format "zenit": rows of a data frame become messages.

    writer(schema, options)        planned in a process of the driver: checks columns and options, asks for the cluster's id
        write(batches)             in a task: rows -> shares (row_shares) -> requests -> queues (row_sends) -> counts
        commit | abort(counts)     in the driver: reports the counts

Consumers see a row as soon as it is stored; a topic cannot take it back. So `commit` does not make rows visible, and the
rows of a failed or repeated task stay. `delivery` says what that means: at-least-once, or dedup.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ...client.connection.cluster import name_servers
from ...model.errors import InvalidParameter, OptionRefused, ZenitError
from ...model.plain_dataclass import dataclass
from ..options.options import WriteOptions
from .write_columns import WriteColumns, plan_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ...client.connection.connection import Connection
    from .row_sends import RowSends

log = logging.getLogger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"  # Spark's property for a task of a stream
BATCH_ID: Final = "streaming.sql.batchId"
SPECULATION: Final = "spark.speculation"
IDENTITY_LENGTH_MAX: Final = 64
QUERIES_MAX: Final = 1024  # remembered by a process
PLAN_TIMEOUT_MS: Final = 2_000  # a stream is planned at each batch, and again when that is committed

_met: Final[dict[str, str]] = {}  # query id -> the first cluster of its tasks in this process


@dataclass(frozen=True, slots=True)
class BatchName:
    """A batch that is written with delivery=dedup: its writer, its number, the attempt, the cluster.

    `finish`: the name under which its completion is stored; "" if it is not.
    """

    identity: str
    batch_id: int
    attempt: str
    cluster_id: str
    finish: str


@dataclass(frozen=True, slots=True)
class TaskCounts(WriterCommitMessage):
    """What one task wrote: rows, bytes of their bodies, requests; `duplicates`: rows that were stored before.

    `partition_id`: of the task. `batch`: its batch, if that is written once; `topics`: of the task's rows; `came_again`:
    rows of it may have been stored before.
    """

    rows: int = 0
    body_bytes: int = 0
    requests: int = 0
    duplicates: int = 0
    partition_id: int = 0
    batch: BatchName | None = None
    topics: tuple[str, ...] = ()
    came_again: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    """Everything that a task needs; pickled to it.

    `cluster_id`: of the cluster that all tasks write to; "" = not known. `attempt`: unique for each attempt at a batch.
    """

    options: WriteOptions
    columns: WriteColumns
    cluster_id: str = ""
    attempt: str = ""

    def run(self, batches: Iterator[pa.RecordBatch], *, is_stream: bool) -> TaskCounts:
        """Writes a task's rows. Raises InvalidParameter, UnwritableColumn, and errors of sends."""
        from ..session.connections import connection
        from .arrow_records import rows_of
        from .row_shares import shares

        task = TaskContext.get()
        assert task is not None
        check_speculation(task)
        query = task.getLocalProperty(QUERY_ID) if is_stream else None
        cluster_id = cluster_of_query(query, self.cluster_id) if query else self.cluster_id
        first_row = body_bytes = requests = 0
        with connection(self.options.namesrv, cluster_id, key=self.options.key) as cluster:
            sends = self._new_sends(task, cluster, cluster_id, is_stream=is_stream)
            try:
                for batch in batches:
                    rows = rows_of(batch, self.columns, self.options.topic)
                    for share in shares(rows, first_row, sends.destination):
                        for picks in rows.requests(share.picks):
                            sends.send(share.topic, share.queue, rows, picks)
                            requests += 1
                    first_row += len(rows)
                    body_bytes += rows.body_bytes
                sends.lanes.finish()
            finally:
                sends.lanes.abandon()
        counts = TaskCounts(first_row, body_bytes, requests, sends.lanes.duplicates, task.partitionId())
        return _named(counts, sends)

    def check_whole(self, messages: Sequence[WriterCommitMessage | None], *, is_stream: bool) -> None:
        """Called when all tasks are done: if the batch was repeated, checks that no earlier task wrote more, then closes
        the batch for new rows. Raises BatchChanged, BatchOutdated, and errors of requests.

        A batch outside a stream may be one of several that are written under its name and number, each to its own topics.
        """
        from ..session.connections import connection
        from .written_rows import check_whole_batch, finish_batch

        counts = [message for message in messages if isinstance(message, TaskCounts)]
        batch = next((count.batch for count in counts if count.batch is not None), None)
        if batch is None:
            return
        with connection(self.options.namesrv, batch.cluster_id, key=self.options.key) as cluster:
            written = {topic for count in counts for topic in count.topics}
            named = {self.options.topic} if self.options.topic is not None else written
            check_whole_batch(
                cluster,
                self.options,
                batch.cluster_id,
                identity=batch.identity,
                batch_id=batch.batch_id,
                attempt=batch.attempt,
                topics=None if is_stream else sorted(named),
                written=written,
                rows={count.partition_id: count.rows for count in counts},
                came_again=any(count.came_again for count in counts),
            )
            if batch.finish:
                finish_batch(
                    cluster,
                    batch.finish,
                    identity=batch.identity,
                    batch_id=batch.batch_id,
                    rows=sum(count.rows for count in counts),
                    timeout_ms=self.options.request_timeout_ms,
                )

    def _new_sends(self, task: TaskContext, cluster: Connection, cluster_id: str, *, is_stream: bool) -> RowSends:
        from .batch_pins import finish_name
        from .row_sends import LooseSends, PinnedSends, SinkTask

        options = self.options
        if options.delivery != "dedup":
            return LooseSends(cluster, total_ms=options.request_timeout_ms, by_row=options.route_by == "row")
        identity, batch_id = identity_of(task, options, is_stream=is_stream)
        is_again = task.attemptNumber() > 0
        finish = ""
        if is_stream or options.topic is not None:
            finish = finish_name(identity, None if is_stream else options.topic)
        sink_task = SinkTask(identity, task.partitionId(), batch_id, self.attempt, is_again, cluster_id, finish)
        return PinnedSends(cluster, options, sink_task)


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCounts:
        """See `Writing.run`."""
        return self._writing.run(iterator, is_stream=False)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks are done. Raises BatchChanged."""
        self._writing.check_whole(messages, is_stream=False)
        log.info("batch written %s", summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task failed for good; rows of others stay."""
        log.warning("batch given up, of tasks that ended there are stored: %s", summary(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCounts:
        """See `Writing.run`."""
        return self._writing.run(iterator, is_stream=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """All tasks of the batch are done. Raises BatchChanged."""
        self._writing.check_whole(messages, is_stream=True)
        log.info("batch written batch=%s %s", batchId, summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """A task failed for good; rows of others stay, and the batch is repeated when the query restarts."""
        log.warning("batch given up batch=%s, of tasks that ended there are stored: %s", batchId, summary(messages))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName, UnwritableColumn."""
    if overwrite:
        raise InvalidParameter("mode", "overwrite", "append: a topic cannot remove messages")
    writing = plan(options, schema)
    if writing.options.delivery == "dedup" and None in (writing.options.query_name, writing.options.batch_id):
        raise OptionRefused("delivery", "dedup needs queryName and batchId for a batch: they identify a repeated batch")
    return BatchWriter(with_cluster(writing, writing.options.request_timeout_ms))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName, UnwritableColumn."""
    if overwrite:
        raise InvalidParameter("outputMode", "complete", "append or update: a topic cannot remove messages")
    writing = plan(options, schema)
    try:
        writing = with_cluster(writing, min(PLAN_TIMEOUT_MS, writing.options.request_timeout_ms))
    except ZenitError as error:
        if not error.retriable:
            raise
        log.warning("nobody says which cluster a batch is written to, its tasks look for themselves: %s", error)
    return StreamWriter(writing)


def plan(options: Mapping[str, str], schema: StructType) -> Writing:
    """The common plan of both. Uses the driver's name servers: an executor may run elsewhere. Raises KeyFileRefused if the
    key cannot be used here."""
    from ..session.connections import checked_key

    parsed = WriteOptions.parse(options)
    columns = plan_columns(
        ((field.name, field.dataType.simpleString()) for field in schema.fields),
        has_topic=parsed.topic is not None,
        is_dedup=parsed.delivery == "dedup",
    )
    named = replace(parsed, namesrv=",".join(name_servers(parsed.namesrv)), key=checked_key(parsed.key))
    return Writing(named, columns, attempt=secrets.token_hex(8))


def with_cluster(writing: Writing, timeout_ms: int) -> Writing:
    """The plan for the cluster that is there now: no task of the batch accepts another one.

    Raises NoRoute, and errors of the name servers.
    """
    from ..session.connections import cluster_that_answers

    return replace(
        writing,
        cluster_id=cluster_that_answers(writing.options.namesrv, timeout_ms=timeout_ms, key=writing.options.key),
    )


def cluster_of_query(query: str, cluster_id: str) -> str:
    """The cluster of a query.

    Spark plans a new writer for each batch, so every process that runs its tasks remembers the first one.
    """
    while len(_met) >= QUERIES_MAX and query not in _met:
        del _met[next(iter(_met))]
    _met[query] = _met.get(query) or cluster_id
    return _met[query]


def check_speculation(task: TaskContext) -> None:
    """Raises InvalidParameter if Spark may run a task twice at the same time: both would store its rows."""
    if str(task.getLocalProperty(SPECULATION)).lower() == "true":
        raise InvalidParameter(SPECULATION, "true", "false for a sink: two tasks would each store the rows")


def identity_of(task: TaskContext, options: WriteOptions, *, is_stream: bool) -> tuple[str, int]:
    """The name of the writer, and the number of the batch: from the stream, or from the options. Raises InvalidParameter.

    A batch that a stream writes (foreachBatch) belongs to that stream: the batches of a new checkpoint begin at 0 again,
    and under the name alone its rows would pass for those of the checkpoint before.
    """
    if not is_stream:
        assert options.query_name is not None
        assert options.batch_id is not None
        stream = task.getLocalProperty(QUERY_ID)  # set if it is written from foreachBatch
        is_told = not stream or stream == options.query_name
        return short_identity(options.query_name if is_told else f"{options.query_name}/{stream}"), options.batch_id
    query_id, batch_id = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
    if not query_id or not batch_id:
        raise InvalidParameter(QUERY_ID, query_id, "what Spark tells tasks of a stream; use delivery=at-least-once")
    return short_identity(query_id), int(batch_id)


def short_identity(name: str) -> str:
    """A name as a part of a producer's name; a hash if it is long."""
    return name if len(name) <= IDENTITY_LENGTH_MAX else hashlib.sha256(name.encode()).hexdigest()[:32]


def _named(counts: TaskCounts, sends: RowSends) -> TaskCounts:
    """The counts, with their batch if that is written once."""
    from .row_sends import PinnedSends

    if not isinstance(sends, PinnedSends):
        return counts
    task = sends.task
    batch = BatchName(task.identity, task.batch_id, task.attempt, task.cluster_id, task.finish)
    return replace(counts, batch=batch, topics=sends.topics, came_again=sends.came_again)


def summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    """The sums of all tasks' counts."""
    counts = [message for message in messages if isinstance(message, TaskCounts)]
    return (
        f"tasks={len(counts)} rows={sum(count.rows for count in counts)}"
        f" body_bytes={sum(count.body_bytes for count in counts)} requests={sum(count.requests for count in counts)}"
        f" duplicates={sum(count.duplicates for count in counts)}"
    )
