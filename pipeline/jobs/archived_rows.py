"""The rows of an archive as a data frame: of the files that its manifests list, never of those that happen to lie there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from ..column_names import COLUMN_NAMES
from ..offsets import QueueRange
from ..schema import spark_schema
from .archive_tree import ArchiveTree, local_path
from .manifest import ArchivedFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def archive_frame(spark: SparkSession, directory: str) -> DataFrame:
    """All rows of an archive, with the columns of the source. Raises NoArchive, ArchiveDamaged, ConfigError."""
    tree = ArchiveTree(local_path("archive", directory))
    return file_frame(spark, tree, tree.settled().files)


def file_frame(spark: SparkSession, tree: ArchiveTree, files: Sequence[ArchivedFile]) -> DataFrame:
    """The rows of some of its files."""
    schema = spark_schema(COLUMN_NAMES)
    if not files:
        return spark.createDataFrame([], schema)
    paths = ["file://" + tree.place(file.path) for file in files]
    frame = spark.read.schema(schema).option("basePath", "file://" + tree.root).parquet(*paths)
    return frame.select(*COLUMN_NAMES)


def within(ranges: Sequence[QueueRange]) -> Column:
    """Whether a row is in one of the ranges, which are not none."""
    from pyspark.sql import functions as f

    return reduce(
        or_,
        (
            (f.col("topic") == each.topic)
            & (f.col("broker") == each.broker)
            & (f.col("queueId") == each.queue_id)
            & (f.col("queueOffset") >= each.start)
            & (f.col("queueOffset") < each.end)
            for each in ranges
        ),
    )
