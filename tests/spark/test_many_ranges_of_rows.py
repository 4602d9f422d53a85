"""An archive of many queues: which rows of it are wanted, one range a queue."""

from __future__ import annotations

from pyspark.sql import SparkSession

from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.jobs.archived_rows import within
from zenitmq.pipeline.reading.offsets import QueueRange
from zenitmq.pipeline.schema import spark_schema

QUEUES = 2000  # Spark's planner ended with a StackOverflowError at 300 terms of a condition


def test_ranges_of_thousands_of_queues(spark: SparkSession) -> None:
    names = COLUMN_NAMES
    places = [("t", "a", QUEUES - 1, offset) for offset in range(6)] + [("t", "b", 0, 3), ("u", "a", 0, 3)]
    rows = [
        tuple(dict(zip(("topic", "broker", "queueId", "queueOffset"), place, strict=True)).get(name) for name in names)
        for place in places
    ]
    frame = spark.createDataFrame(rows, spark_schema(names))
    ranges = [QueueRange("t", "a", queue, 2, 4) for queue in range(QUEUES)]
    ranges.append(QueueRange("t", "a", QUEUES - 1, 5, 6))
    found = within(frame, ranges)
    assert found.columns == list(names)
    assert sorted(row["queueOffset"] for row in found.collect()) == [2, 3, 5]
