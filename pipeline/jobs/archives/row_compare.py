"""Compares archived rows with those of the brokers, mostly by blocks of one queue's offsets without moving rows.

Each row gets a hash of its content, including its body's CRC; each block, the count of its rows and the XOR of their
hashes. Single rows are compared only in blocks that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...reading.offsets import OffsetsDocument, QueueKey, QueueRange, document_of, offsets_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_ROWS: Final = 4096
BLOCKS_MAX: Final = 10_000  # of differing blocks; more would not tell more
PLACE: Final = ("topic", "broker", "queueId")
HASHED: Final = ("queueOffset", "messageId", "tags", "keys", "storeTimestamp", "bornTimestamp", "flag", "bodyCrc")


def differing_rows(
    spark: SparkSession, archived: DataFrame, ranges: Sequence[QueueRange], source: Mapping[str, str]
) -> dict[QueueKey, int]:
    """How many rows of the ranges differ from the broker's, by queue; rows missing on one side are not counted.

    `source`: how to reach the brokers, as options of the source.
    """
    from pyspark.sql import functions as f

    left, right = _hashed(archived), _hashed(stored_rows(spark, ranges, source))
    block = [*PLACE, "block"]
    sums = [f.count("*").alias("rows"), f.bit_xor("hash").alias("hash")]
    blocks_left = left.groupBy(*block).agg(*sums)
    blocks_right = right.groupBy(*block).agg(*sums)
    same = blocks_left.intersect(blocks_right)
    wrong = blocks_left.union(blocks_right).join(same, block, "left_anti").select(*block).distinct().limit(BLOCKS_MAX)
    found = wrong.collect()
    if not found:
        return {}
    wanted = f.broadcast(spark.createDataFrame(found))
    both = left.union(right).join(wanted, block)
    rows = both.groupBy(*PLACE, "queueOffset").agg(f.count_distinct("hash").alias("hashes")).where("hashes > 1")
    counted = rows.groupBy(*PLACE).agg(f.count("*").alias("rows")).collect()
    return {QueueKey(row.topic, row.broker, row.queueId): row.rows for row in counted}


def stored_rows(spark: SparkSession, ranges: Sequence[QueueRange], source: Mapping[str, str]) -> DataFrame:
    """The brokers' rows of ranges, one per queue; they must exist, in the right incarnation of the topic."""
    starts = {each.key: each.start for each in ranges}
    ends = {each.key: each.end for each in ranges}
    lives = {(each.topic, each.broker): each.incarnation for each in ranges if each.incarnation}
    settings = {"assign": _queues(document_of(starts)), "startingOffsets": offsets_json(starts, lives)}
    settings |= {"endingOffsets": offsets_json(ends)} | dict(source)
    return spark.read.format("zenit").options(**settings).load()


def _queues(document: OffsetsDocument) -> str:
    chosen = {
        topic: {broker: [int(queue_id) for queue_id in queues] for broker, queues in brokers.items()}
        for topic, brokers in document.items()
    }
    return json.dumps(chosen)


def _hashed(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.select(
        *PLACE,
        "queueOffset",
        f.expr(f"queueOffset div {BLOCK_ROWS}").alias("block"),
        f.xxhash64(*HASHED, f.crc32("body")).alias("hash"),
    )
