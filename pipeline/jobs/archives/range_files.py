"""Writes ranges of queues to staged files: the work of the tasks of an archive's batch.

A task reads the messages of its share and writes them as they come. Its memory is bounded by the data requested ahead and
one row group per file. Failed or repeated attempts leave files that no manifest lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ...options.options import ReadOptions
from ...reading.offsets import QueueRange
from ...reading.queue_reader import read_range
from .archive_tree import StagedFile
from .parquet_files import staged_of, staged_text, write_rows
from .range_source import shared_out

if TYPE_CHECKING:
    from pyspark import SparkContext


def write_ranges(
    context: SparkContext, options: ReadOptions, ranges: Sequence[QueueRange], directory: str, target_bytes: int
) -> list[StagedFile]:
    """Writes the messages of ranges (in order) into files in `directory`, which the driver and all executors can reach.

    As many tasks as cores: more would only make more and smaller files. `options` name every column.
    """

    def written(share: Sequence[QueueRange]) -> list[str]:
        batches = chain.from_iterable(read_range(options, each) for each in share)
        return [staged_text(each) for each in write_rows(batches, directory, target_bytes)]

    shares = shared_out(ranges, context.defaultParallelism)
    if not shares:
        return []
    return [staged_of(text) for text in context.parallelize(shares, len(shares)).flatMap(written).collect()]
