"""A batch read: the driver plans its ranges, and tasks read them; each task looks up the brokers itself.

Two classes, because Spark refuses a reader that takes filters in a session that does not push any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from ..options.boundary import EARLIEST, Boundary
from ..options.options import ReadOptions
from .boundaries import Held, Side, offsets_at, times_wanted
from .data_loss import passed_over
from .offsets import Offsets, QueueRange, ranges_between, split_ranges
from .pushed_filters import Narrowed, Predicate, narrow
from .range_holds import hold_ranges, while_held
from .range_partition import RangePartition
from .topic_positions import TopicPositions

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARISONS: Final = (EqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, In)
_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}


class BatchReader(DataSourceReader):
    """Reads the queues' messages between two boundaries. Pickled to executors: options only, no sockets."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowed = Narrowed()

    def partitions(self) -> list[InputPartition]:
        """The ranges, on the driver. Raises if they cannot be determined."""
        options, narrowed = self._options, self._narrowed
        positions = TopicPositions(options)
        held = positions.look()
        start = self._resolve(positions, options.starting or EARLIEST, held, side="starting")
        end = self._resolve(positions, options.ending, held, side="ending")
        start = passed_over(start, held.minimum, fail=options.fail_on_data_loss, compacted=held.compacted)
        end = {key: max(offset, start[key]) if offset < held.minimum[key] else offset for key, offset in end.items()}
        ranges = [
            item for item in ranges_between(start, end, held.lives, positions.cluster_id) if narrowed.wants(item.key)
        ]
        ranges = [cut for item in self._narrow_by_time(positions, ranges) if (cut := narrowed.cut(item)).rows]
        pieces = split_ranges(ranges, partitions_min=options.partitions_min, rows_max=options.partition_rows_max)
        hold = hold_ranges(options, ranges, positions.cluster_id)
        return [RangePartition(piece, hold) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in an executor. An empty read has one empty partition."""
        from .queue_reader import read_range

        if not isinstance(partition, RangePartition):
            return iter(())
        batches = read_range(self._options, partition.value)
        return while_held(self._options, partition.hold, batches, partition.value.cluster_id)

    def _resolve(self, positions: TopicPositions, boundary: Boundary, held: Held, *, side: Side) -> Offsets:
        at_time = positions.at_times(times_wanted(boundary, held))
        return offsets_at(boundary, held, at_time, side=side, none_from_time=self._options.none_from_time)

    def _narrow_by_time(self, positions: TopicPositions, ranges: list[QueueRange]) -> list[QueueRange]:
        begin_ms, end_ms = self._narrowed.stored_begin_ms, self._narrowed.stored_end_ms
        keys = [item.key for item in ranges]
        begins = positions.at_times(dict.fromkeys(keys, begin_ms)) if begin_ms is not None else {}
        ends = positions.at_times(dict.fromkeys(keys, end_ms)) if end_ms is not None else {}
        cut = []
        for item in ranges:
            start = min(max(item.start, begins.get(item.key, item.start)), item.end)
            end = max(start, min(item.end, ends.get(item.key, item.end)))
            cut.append(replace(item, start=start, end=end))
        return cut


class FilteringBatchReader(BatchReader):
    """The same, narrowed by filters of the query. For sessions that push filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Takes the filters on the places of rows; returns those that Spark must test itself."""
        may_filter_tags = self._options.filter is None and self._options.sql_filter is None
        predicates = [_predicate_of(item) for item in filters]
        self._narrowed, done = narrow(predicates, may_filter_tags=may_filter_tags)
        if self._narrowed.tag_expression is not None:
            self._options = replace(self._options, filter=self._narrowed.tag_expression)
        return [item for item, is_done in zip(filters, done, strict=True) if not is_done]


def _predicate_of(item: Filter) -> Predicate | None:
    if not isinstance(item, _COMPARISONS) or len(item.attribute) != 1:
        return None
    return Predicate(item.attribute[0], _OPERATORS[type(item)], item.value)
