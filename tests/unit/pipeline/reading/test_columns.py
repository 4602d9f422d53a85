"""Messages as record batches: the schema that Spark wants, and in each column what the message says."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from zenitmq.model.clock import datetime_of_ms
from zenitmq.model.properties import encode_properties
from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.reading.columns import BatchBuilder
from zenitmq.pipeline.schema import arrow_schema
from zenitmq.record.codes import ALL_TAKEN, BEHIND_END, NO_ROOM
from zenitmq.record.kernel import MessageBatch, StoredMessage, decode_batch, encode_record

PROPERTIES = [
    {},
    {"UNIQ_KEY": "F" * 32, "KEYS": "a b", "TAGS": "buy", "TIMER_OUT_MS": "1700000000123"},
    {"__SHARDINGKEY": "g", "traceparent": "00-ab-cd-01", "naïve": "früh😀", "TAGS": "sell"},
]


def batch_of(count: int, *, body_bytes: int = 10) -> MessageBatch:
    records = [
        encode_record(
            topic=b"trades",
            body=b"%d" % number * body_bytes,
            properties=encode_properties(PROPERTIES[number % 3]),
            queue_id=3,
            queue_offset=number,
            physical_offset=1000 * number,
            flag=-number,
            born_timestamp_ms=1_700_000_000_000 + number,
            store_timestamp_ms=1_700_000_001_000 + number,
            reconsume_times=number % 5,
        )
        for number in range(count)
    ]
    return decode_batch(b"".join(records), "broker-a")


def expected(message: StoredMessage) -> dict:
    properties = message.properties
    due = properties.get("TIMER_OUT_MS")
    return {
        "topic": "trades",
        "broker": "broker-a",
        "queueId": 3,
        "queueOffset": message.queue_offset,
        "messageId": message.message_id,
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "messageGroup": properties.get("__SHARDINGKEY"),
        "body": message.body,
        "properties": list(properties.items()),
        "bornTimestamp": message.born_at,
        "storeTimestamp": message.stored_at,
        "deliverTimestamp": datetime_of_ms(0) + timedelta(milliseconds=int(due)) if due is not None else None,
        "reconsumeTimes": message.reconsume_times,
        "bodyCrc": message.body_crc,
        "traceparent": properties.get("traceparent"),
        "flag": message.flag,
    }


def builder(names: tuple[str, ...] = COLUMN_NAMES, **options: int) -> BatchBuilder:
    return BatchBuilder(names, topic="trades", broker="broker-a", **options)  # type: ignore[arg-type]


def checked(batch: pa.RecordBatch, names: tuple[str, ...] = COLUMN_NAMES) -> list[dict]:
    assert batch.schema.equals(arrow_schema(names), check_metadata=True)
    batch.validate(full=True)
    return batch.to_pylist()


@pytest.mark.parametrize("count", [1, 8, 9, 100])
def test_every_column_of_every_row(count: int) -> None:
    messages = batch_of(count)
    made = builder()
    assert made.add(messages, 0, 0, count) == (count, ALL_TAKEN)
    assert made.rows == count
    assert checked(made.finish()) == [expected(message) for message in messages]
    assert made.rows == 0


@pytest.mark.parametrize("name", COLUMN_NAMES)
def test_each_column_alone(name: str) -> None:
    messages = batch_of(20)
    made = builder((name,))
    made.add(messages, 0, 0, 20)
    assert checked(made.finish(), (name,)) == [{name: expected(message)[name]} for message in messages]


def test_columns_in_another_order() -> None:
    names = ("tags", "body", "topic")
    made = builder(names)
    made.add(batch_of(3), 0, 0, 3)
    assert list(checked(made.finish(), names)[0]) == list(names)


def test_a_full_batch_is_finished_and_the_next_goes_on() -> None:
    messages = batch_of(25)
    made = builder(rows_max=10)
    assert made.add(messages, 0, 0, 25) == (10, NO_ROOM)
    first = made.finish()
    assert made.add(messages, 10, 0, 18) == (18, BEHIND_END)
    second = made.finish()
    assert [*checked(first), *checked(second)] == [expected(message) for message in messages.slice(0, 18)]


def test_a_body_larger_than_a_batch_has_one_of_its_own() -> None:
    small, large = batch_of(1, body_bytes=50), batch_of(1, body_bytes=5000)
    made = builder(("body",), bodies_bytes=100)
    assert made.add(small, 0, 0, 1) == (1, ALL_TAKEN)
    assert made.add(large, 0, 0, 1) == (0, NO_ROOM)
    assert checked(made.finish(), ("body",)) == [{"body": b"0" * 50}]
    assert made.add(large, 0, 0, 1) == (1, ALL_TAKEN)
    assert checked(made.finish(), ("body",)) == [{"body": b"0" * 5000}]


def test_only_wanted_tags() -> None:
    made = BatchBuilder(("tags",), topic="trades", broker="broker-a", tags=(b"buy",))
    made.add(batch_of(6), 0, 0, 6)
    assert checked(made.finish(), ("tags",)) == [{"tags": "buy"}] * 2
