"""The row of a topic: one table from which the Spark schema and the Arrow schema are made.

Spark accepts a batch only if its Arrow schema equals the one that Spark itself would make, including types and nullability
(string, not large_string; timestamps in microseconds, UTC). It checks only the first batch; a later difference crashes the
JVM. So there is one schema object for each choice of columns, used for every batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..model.errors import InvalidParameter
from .column_names import BODY, COLUMN_NAMES, PROPERTIES, SYS_FLAG

Group = Literal["place", "header", "body", "properties"]
"""The origin of a column: the message's place, the record's fixed fields, its body, its properties."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; null if the message has no such value."""

    name: str
    spark: DataType
    arrow: pa.DataType
    group: Group
    meaning: str


_TEXT: Final = (StringType(), pa.string())
_INT: Final = (IntegerType(), pa.int32())
_LONG: Final = (LongType(), pa.int64())
_BYTES: Final = (BinaryType(), pa.binary())
_MAP: Final = (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()))
_TIME: Final = (TimestampType(), pa.timestamp("us", tz="UTC"))

COLUMNS: Final = (
    Column("topic", *_TEXT, "place", "the topic"),
    Column("broker", *_TEXT, "place", "the broker name: the replica group that has the queue"),
    Column("queueId", *_INT, "place", "the queue, within its topic at that broker"),
    Column("queueOffset", *_LONG, "place", "the message's number in its queue"),
    Column("messageId", *_TEXT, "properties", "the id its sender gave it, else its offset message id"),
    Column("keys", *_TEXT, "properties", "its keys, separated by blanks, as stored"),
    Column("tags", *_TEXT, "properties", "its tags"),
    Column("messageGroup", *_TEXT, "properties", "its sharding key: what keeps its order"),
    Column(BODY, *_BYTES, "body", "its body, decompressed"),
    Column(PROPERTIES, *_MAP, "properties", "all its properties, those of the system among them"),
    Column("bornTimestamp", *_TIME, "header", "when it was sent, by its sender's clock"),
    Column("storeTimestamp", *_TIME, "header", "when it was stored, by the broker's clock"),
    Column("deliverTimestamp", *_TIME, "properties", "when it was due, where it was sent for later"),
    Column("reconsumeTimes", *_INT, "header", "how often it came again to a group"),
    Column("bodyCrc", *_LONG, "header", "CRC-32 of its body as stored, unsigned"),
    Column("traceparent", *_TEXT, "properties", "the W3C trace context it carries"),
    Column("flag", *_INT, "header", "the number its sender gave it"),
)

_BY_NAME: Final = {column.name: column for column in COLUMNS}


@lru_cache(maxsize=256)
def arrow_schema(names: tuple[str, ...] = COLUMN_NAMES) -> pa.Schema:
    """The schema of a batch of these columns, in this order; the same object each time."""
    return pa.schema([pa.field(name, pa.int32() if name == SYS_FLAG else _BY_NAME[name].arrow) for name in names])


def spark_schema(names: Iterable[str] = COLUMN_NAMES) -> StructType:
    """The schema of a data frame of these columns, in this order."""
    return StructType([StructField(name, _BY_NAME[name].spark, nullable=True) for name in names])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, perhaps not all of a topic's, in any order.

    Raises InvalidParameter for one that a topic does not have, or has with another type.
    """
    for field in schema.fields:
        column = _BY_NAME.get(field.name)
        if column is None or column.spark != field.dataType:
            known = f"{column.name} {column.spark.simpleString()}" if column is not None else ", ".join(COLUMN_NAMES)
            raise InvalidParameter("schema", f"{field.name} {field.dataType.simpleString()}", known)
    if not schema.fields:
        raise InvalidParameter("schema", "no column", f"some of {', '.join(COLUMN_NAMES)}")
    return tuple(schema.fieldNames())
