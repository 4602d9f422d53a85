"""A stream's reader: its begin, the end offsets of each trigger, and its ranges.

Spark stores the position (its checkpoint), and asks for the beginning in each run until a batch of the query is committed.
A beginning such as "latest" would be different each time, and the rows in between would be left out. So it is determined
once, and stored at the brokers under `queryName` for later runs. On the driver all of this runs in one Python process, one
call at a time; only `read` runs in executors.

A query belongs to one cluster: the first one that answers it, or the one in its checkpoint. Another one at the same
addresses is refused (WrongCluster), even if it has the same topics.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ...client.administration.pipeline_calls import PipelineCalls
from ...model.clock import monotonic_ms
from ...model.errors import DataLost, TopicReplaced
from ..options.boundary import LATEST
from ..options.options import ReadOptions
from .boundaries import offsets_at, times_wanted
from .data_loss import passed_over
from .offset_commits import commit_for_show
from .offsets import (
    Lives,
    Offsets,
    OffsetsDocument,
    cluster_of,
    document_of,
    lives_of,
    offsets_json,
    offsets_of,
    parse_lives,
    parse_offsets,
    ranges_between,
    split_ranges,
)
from .range_partition import RangePartition
from .stream_plan import BatchLimits, begun_anew, is_waiting, made_anew, next_end, reachable, shrunk, until
from .topic_positions import TopicPositions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new messages of the queues. Pickled to executors: options only, no sockets."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._limits = BatchLimits.of(options)
        self._positions = TopicPositions(options)
        self._initial: tuple[Offsets, Lives] | None = None
        self._available: tuple[Offsets, Lives] | None = None
        self._target: Offsets | None = None
        self._taken_ms = monotonic_ms()

    def __reduce__(self) -> tuple[type[StreamReader], tuple[ReadOptions]]:
        return StreamReader, (self._options,)  # the run's state stays on the driver

    # ---- how far

    def initialOffset(self) -> OffsetsDocument:  # noqa: N802  # Spark's name
        """Where the query begins; the same at each call in a run."""
        if self._initial is None:
            self._initial = self._begin()
        return document_of(*self._initial, self._positions.cluster_id)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Tells Spark that there is a limit: it knows limits of one kind at a time, `latestOffset` applies all of them."""
        if self._limits.rows_max:
            return ReadMaxRows(self._limits.rows_max)
        if self._limits.bytes_max:
            return ReadMaxBytes(self._limits.bytes_max)
        if self._limits.rows_min:
            return ReadMinRows(self._limits.rows_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Makes this run end at the present ends."""
        self._target = self._positions.look().end

    def latestOffset(self, start: OffsetsDocument, limit: ReadLimit) -> OffsetsDocument:  # noqa: N802  # Spark's name
        """The end of the next batch; `start` if there is nothing new, or too little."""
        begin, before = offsets_of(start), lives_of(start)
        self._positions.mean(cluster_of(start))
        held = self._positions.look(begin)
        anew = made_anew(before, held.lives)
        self._check_replaced(begin, anew)
        begin, lives = begun_anew(begin, held.minimum, anew), before | held.lives
        self._check_shrunk(begin, held.end)
        end = reachable(begin, held.end)
        self._available = end, lives
        limits = self._limits
        if self._target is not None:
            end, limits = until(self._target, begin, end), limits.without_minimum()
        if not isinstance(limit, ReadAllAvailable):
            now_ms = monotonic_ms()
            if is_waiting(begin, end, limits, waited_ms=now_ms - self._taken_ms):
                return start
            sizes = self._positions.row_bytes(begin, end) if limits.bytes_max else {}
            end = next_end(begin, end, limits, sizes)
            self._taken_ms = now_ms
        return document_of(end, lives, self._positions.cluster_id)

    def reportLatestOffset(self) -> OffsetsDocument | None:  # noqa: N802  # Spark's name
        """The present ends, for the progress of the query: their distance from the end of a batch is the lag."""
        return None if self._available is None else document_of(*self._available, self._positions.cluster_id)

    # ---- what

    def partitions(self, start: OffsetsDocument, end: OffsetsDocument) -> list[InputPartition]:
        """The ranges of a batch. Raises OffsetsBackwards, DataLost if rows of it have expired, TopicReplaced, WrongCluster."""
        self._positions.mean(
            cluster_of(end) or cluster_of(start)
        )  # the cluster of the checkpoint, whichever answered before
        begin, behind, lives = offsets_of(start), offsets_of(end), lives_of(end)
        begin = begun_anew(begin, dict.fromkeys(behind, 0), made_anew(lives_of(start), lives))
        ranges_between(begin, behind)  # before anything is skipped: a start beyond its end is an error
        begin = dict.fromkeys(behind, 0) | {key: offset for key, offset in begin.items() if key in behind}
        if any(offset > begin[key] for key, offset in behind.items()):
            held = self._positions.look(behind)
            gone = made_anew(lives, held.lives)  # since the batch was planned: its rows do not exist any more
            self._check_replaced(behind, gone)
            begin |= {key: offset for key, offset in behind.items() if (key.topic, key.broker) in gone}
            minimum = {key: first for key, first in held.minimum.items() if (key.topic, key.broker) not in gone}
            begin = passed_over(begin, minimum, fail=self._options.fail_on_data_loss, compacted=held.compacted)
            behind = {key: max(offset, begin[key]) for key, offset in behind.items()}
        pieces = split_ranges(
            ranges_between(begin, behind, lives, self._positions.cluster_id),
            partitions_min=self._options.partitions_min,
            rows_max=self._options.partition_rows_max,
        )
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in an executor."""
        from .queue_reader import read_range

        assert isinstance(partition, RangePartition)
        return iter(read_range(self._options, partition.value))

    def commit(self, end: OffsetsDocument) -> None:
        """Spark is past these offsets. It reports that one batch late, and never for the last one: for display only."""
        if self._options.commit_offsets:
            commit_for_show(self._options, offsets_of(end), cluster_of(end) or self._positions.cluster_id)

    def stop(self) -> None:
        """There is nothing to release."""

    # ---- beginning

    def _begin(self) -> tuple[Offsets, Lives]:
        options = self._options
        if options.query_name is None:
            return self._resolve()
        with self._positions.cluster() as shared:
            kept = PipelineCalls(shared, timeout_ms=options.request_timeout_ms).query_offsets(options.query_name)
        if kept is None:
            found = offsets_json(*self._resolve())
            with self._positions.cluster() as shared:
                calls = PipelineCalls(shared, timeout_ms=options.request_timeout_ms)
                kept = calls.keep_query_offsets(options.query_name, found)
        return parse_offsets("queryName", kept), parse_lives("queryName", kept)

    def _resolve(self) -> tuple[Offsets, Lives]:
        options = self._options
        starting = options.starting or LATEST
        if starting.kind not in ("earliest", "offsets") and options.query_name is None:
            message = (
                f"a stream that starts at {starting.option or starting.kind} begins elsewhere when it is restarted before its"
                " first batch is done, and may so leave rows out; name it with the option queryName"
            )
            warnings.warn(message, stacklevel=2)
            log.warning("%s", message)
        held = self._positions.look()
        at_time = self._positions.at_times(times_wanted(starting, held))
        found = offsets_at(starting, held, at_time, side="starting", none_from_time=options.none_from_time)
        return found, held.lives

    def _check_replaced(self, read: Offsets, anew: frozenset[tuple[str, str]]) -> None:
        """Checks for topics that were recreated since they were read. Raises TopicReplaced."""
        for topic, broker in sorted(anew):
            offset = max(
                (offset for key, offset in read.items() if (key.topic, key.broker) == (topic, broker)), default=0
            )
            if self._options.fail_on_data_loss:
                raise TopicReplaced(topic, broker, offset)
            log.warning(
                "a topic was deleted and made again, it is read from its first row on, what was not read of the old one is"
                " lost topic=%s broker=%s read_up_to=%s",
                *(topic, broker, offset),
            )

    def _check_shrunk(self, start: Offsets, end: Offsets) -> None:
        """Checks for queues that end before the present position: they are other queues of the same name. Raises DataLost."""
        for key, rows in sorted(shrunk(start, end).items()):
            if self._options.fail_on_data_loss:
                raise DataLost(str(key), start[key], end[key])
            log.warning("a queue ends before what was read of it, and waits queue=%s rows=%s", key, rows)
