"""The rows of an archive as a data frame: only from files that its manifests list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..column_names import COLUMN_NAMES
from ..reading.offsets import QueueRange
from ..schema import spark_schema
from .archives.archive_tree import ArchiveTree, local_path
from .archives.manifest import ArchivedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGE_SCHEMA: Final = "wantedTopic string, wantedBroker string, wantedQueueId int, begin bigint, end bigint"


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


def within(frame: DataFrame, ranges: Sequence[QueueRange]) -> DataFrame:
    """Its rows that are in one of the ranges.

    The ranges are a table to join with: Spark's planner recurses into a condition of hundreds of terms until its stack
    ends.
    """
    from pyspark.sql import functions as f

    rows = [(each.topic, each.broker, each.queue_id, each.start, each.end) for each in ranges]
    wanted = frame.sparkSession.createDataFrame(rows, RANGE_SCHEMA)
    same_queue = (
        (f.col("topic") == f.col("wantedTopic"))
        & (f.col("broker") == f.col("wantedBroker"))
        & (f.col("queueId") == f.col("wantedQueueId"))
    )
    inside = (f.col("queueOffset") >= f.col("begin")) & (f.col("queueOffset") < f.col("end"))
    return frame.join(f.broadcast(wanted), same_queue & inside, "left_semi")
