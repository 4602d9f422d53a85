"""What a batch of the archive must read, as rows: one range of a queue each. The messages themselves do not pass through
Spark.

Spark stores the position of the query and plans its batches, as for any stream. The job distributes the ranges to tasks,
each of which reads messages and writes files (range_files). Passing each message through Java would be most of the cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ....client.connection.cluster import name_servers
from ....model.errors import ArchivedTopicReplaced
from ...options.options import ReadOptions
from ...reading.offsets import Offsets, OffsetsDocument, QueueRange
from ...reading.range_partition import RangePartition
from ...reading.stream_reader import StreamReader
from ...session.connections import checked_key
from ...source import ZenitDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NAME: Final = "zenit-archive-ranges"
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("incarnation", pa.int64()),
        ("cluster_id", pa.string()),
    ]
)
SPARK_SCHEMA: Final = (
    "topic STRING, broker STRING, queue_id INT, start BIGINT, end BIGINT, incarnation BIGINT, cluster_id STRING"
)


class RangeList(InputPartition):
    """All ranges of a batch: one task returns them."""

    value: tuple[QueueRange, ...]


class RangeReader(StreamReader):
    """The stream's reader, except for what is read."""

    def __reduce__(self) -> tuple[type[RangeReader], tuple[ReadOptions]]:
        return RangeReader, (self._options,)

    def partitions(self, start: OffsetsDocument, end: OffsetsDocument) -> list[InputPartition]:
        """See `StreamReader`."""
        pieces = super().partitions(start, end)
        return [RangeList(tuple(piece.value for piece in pieces if isinstance(piece, RangePartition)))]

    def _check_replaced(self, read: Offsets, anew: frozenset[tuple[str, str]]) -> None:
        """An archive has one incarnation of a topic, whatever data loss is allowed. Raises ArchivedTopicReplaced."""
        del read
        for topic, broker in sorted(anew):
            raise ArchivedTopicReplaced(topic, broker)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the ranges."""
        ranges = partition.value if isinstance(partition, RangeList) else ()
        rows = [astuple(each) for each in ranges]
        columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
        yield pa.record_batch(
            [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)], SCHEMA
        )


class RangeSource(ZenitDataSource):
    """The source as Spark finds it; its options are those of the format zenit."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> str:  # type: ignore[override]  # another allowed return type
        """The schema of a range."""
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> RangeReader:  # noqa: N802  # Spark's name
        """The reader of a stream."""
        del schema
        return RangeReader(located(dict(self.options)))


def located(settings: dict[str, str]) -> ReadOptions:
    """Options of a stream, with the driver's name servers: an executor may run elsewhere."""
    options = ReadOptions.parse({name.lower(): value for name, value in settings.items()}).for_stream()
    return replace(options, namesrv=",".join(name_servers(options.namesrv)), key=checked_key(options.key))


def ranges_of(frame: DataFrame) -> list[QueueRange]:
    """The ranges of a batch, in order."""
    return sorted(QueueRange(*row) for row in frame.collect())


def shared_out(ranges: Sequence[QueueRange], count: int) -> list[tuple[QueueRange, ...]]:
    """The ranges in at most `count` shares of equal numbers of rows, in order; a queue is cut where a share is full."""
    total = sum(each.rows for each in ranges)
    shares: dict[int, list[QueueRange]] = {}
    done = 0
    for each in ranges:
        begin = each.start
        while begin < each.end:
            share = done * count // total
            room = -(-(share + 1) * total // count) - done  # rows until the next share begins
            end = min(each.end, begin + room)
            shares.setdefault(share, []).append(replace(each, start=begin, end=end))
            done += end - begin
            begin = end
    return [tuple(share) for share in shares.values()]
