"""Arrow batches as rows to send: what each column becomes, and the records that come of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from zenitmq.model.errors import MessageIllegal, UnwritableColumn
from zenitmq.pipeline.writing.arrow_records import RECORD_BYTES, REQUEST_BYTES, ArrowRows, rows_of, sizes_of
from zenitmq.pipeline.writing.write_columns import plan_columns
from zenitmq.record.kernel import Accumulator, decode_batch

SPARK = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.int32(): "int",
    pa.list_(pa.string()): "array<string>",
    pa.map_(pa.string(), pa.string()): "map<string,string>",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
MAP, TIME, TEXTS = list(SPARK)[4], list(SPARK)[5], list(SPARK)[3]


def rows(topic: str | None, columns: dict[str, tuple[list[Any], pa.DataType]]) -> ArrowRows:
    arrays = {name: pa.array(values, kind) for name, (values, kind) in columns.items()}
    batch = pa.record_batch(list(arrays.values()), names=list(arrays))
    fields = [(name, SPARK[array.type]) for name, array in arrays.items()]
    return rows_of(batch, plan_columns(fields, has_topic=topic is not None, is_dedup=False), topic)


def plain(bodies: list[bytes], **columns: Any) -> ArrowRows:
    array = pa.array(bodies, pa.binary())
    return ArrowRows(array, sizes_of(array, columns.get("keys"), columns.get("properties")), "t", **columns)


def records(given: ArrowRows, picks: Any = None) -> list[Any]:
    accumulator = Accumulator(b"t", 1 << 20, id_prefix=bytes(10))
    assert given.fill(range(len(given)) if picks is None else picks)(accumulator)
    buffer, used, *_ = accumulator.swap(bytearray(1))
    return list(decode_batch(bytes(buffer[:used])))


def test_bodies_alone_are_all_that_is_needed() -> None:
    given = rows("t", {"body": ([b"a", b"", b"ccc"], pa.binary())})
    assert given == plain([b"a", b"", b"ccc"])
    assert (given.sizes, given.body_bytes) == ([RECORD_BYTES + 1, RECORD_BYTES, RECORD_BYTES + 3], 4)
    found = records(given)
    assert [message.body for message in found] == [b"a", b"", b"ccc"]
    assert all(set(message.properties) == {"UNIQ_KEY"} for message in found)
    assert [message.body for message in records(given, [2, 0])] == [b"ccc", b"a"]


def test_texts_are_bodies_in_utf_8() -> None:
    given = rows("t", {"value": (["ä", "", "xyz"], pa.string())})
    assert given == plain(["ä".encode(), b"", b"xyz"])
    empty = rows("t", {"value": ([], pa.string())})
    assert (len(empty), empty.body_bytes) == (0, 0)


def test_what_a_message_may_carry_comes_from_columns_of_its_name() -> None:
    due = datetime(2031, 5, 6, 7, 8, 9, 250_000, tzinfo=UTC)
    columns = {
        "topic": (["u", "t"], pa.string()),
        "body": ([b"a", b"b"], pa.binary()),
        "tags": (["buy", None], pa.string()),
        "keys": (["k1 k2", ""], pa.string()),
        "messageGroup": (["user-7", ""], pa.string()),
        "properties": ([[("region", "eu"), ("UNIQ_KEY", "old"), ("none", None)], None], MAP),
        "deliverTimestamp": ([due, None], TIME),
        "flag": ([7, None], pa.int32()),
    }
    given = rows(None, columns)
    assert [given.topic(0), given.topic(1)] == ["u", "t"]
    assert [given.group(0), given.group(1)] == ["user-7", None]
    assert (given.waits([0, 1]), given.waits([1])) == (True, False)
    first, second = records(given)
    own_id = first.properties["UNIQ_KEY"]
    assert own_id != "old"
    assert first.properties == {
        "TAGS": "buy",
        "KEYS": "k1 k2",
        "region": "eu",
        "__SHARDINGKEY": "user-7",
        "TIMER_DELIVER_MS": str(round(due.timestamp() * 1000)),
        "UNIQ_KEY": own_id,
    }
    assert (first.flag, second.flag) == (7, 0)
    assert set(second.properties) == {"UNIQ_KEY"}


def test_columns_of_nulls_and_of_one_value_cost_nothing() -> None:
    given = rows(
        None,
        {
            "value": (["a", "b"], pa.string()),
            "topic": (["t", "t"], pa.string()),
            "tags": (["buy", "buy"], pa.string()),
            "keys": ([None, None], TEXTS),
            "key": ([None, None], pa.binary()),
            "properties": ([None, None], MAP),
            "deliverTimestamp": ([None, None], TIME),
            "flag": ([None, None], pa.int32()),
        },
    )
    assert given == plain([b"a", b"b"], tags="buy")
    assert rows("t", {"body": ([b"a"], pa.binary()), "tags": ([""], pa.string())}).tags is None


def test_each_part_of_a_column_is_taken_where_rows_are_picked() -> None:
    given = rows(
        "t",
        {
            "body": ([b"a", b"b", b"c"], pa.binary()),
            "tags": (["x", "y", "z"], pa.string()),
            "keys": ([["1"], ["2", None, "3", ""], []], TEXTS),
            "flag": ([1, 2, 3], pa.int32()),
        },
    )
    assert [
        (message.body, message.tags, message.properties.get("KEYS"), message.flag) for message in records(given, [2, 1])
    ] == [(b"c", "z", None, 3), (b"b", "y", "2 3", 2)]
    only_tags = rows("t", {"body": ([b"a", b"b"], pa.binary()), "tags": (["x", None], pa.string())})
    assert [message.tags for message in records(only_tags, [1, 0])] == [None, "x"]


def test_rows_for_later_need_nothing_else() -> None:
    due = datetime(1960, 1, 1, tzinfo=UTC)
    given = rows("t", {"body": ([b"a", b"b"], pa.binary()), "deliverTimestamp": ([due, None], TIME)})
    assert [message.properties.get("TIMER_DELIVER_MS") for message in records(given)] == ["0", None]


def test_long_bodies_travel_compressed_with_and_without_properties() -> None:
    body = b"long " * 2000
    alone = rows("t", {"body": ([body], pa.binary())})
    grouped = rows("t", {"body": ([body, b"short"], pa.binary()), "key": ([b"g", None], pa.binary())})
    for given in (alone, grouped):
        (first, *_) = records(given)
        assert first.body == body
        assert first.sys_flag & 1
        assert first.size_bytes < 1000


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"body": ([b"a", None], pa.binary())}, "body"),
        ({"value": (["a"], pa.string()), "topic": ([None], pa.string())}, "topic"),
        ({"value": (["a"], pa.string()), "topic": (["t"], pa.string()), "key": ([b"\xff"], pa.binary())}, "key"),
    ],
)
def test_values_that_no_message_can_have_are_told_with_their_column(columns: Any, column: str) -> None:
    with pytest.raises(UnwritableColumn) as refused:
        rows(None if "topic" in columns else "t", columns)
    assert refused.value.column == column


def test_a_property_that_breaks_the_format_is_refused() -> None:
    with pytest.raises(MessageIllegal):
        rows("t", {"body": ([b"a"], pa.binary()), "properties": ([[("a\x01", "b")]], MAP)})


def test_a_fill_that_does_not_fit_says_so() -> None:
    given = rows("t", {"body": ([b"a" * 100, b"b" * 100], pa.binary()), "flag": ([1, 2], pa.int32())})
    small = Accumulator(b"t", 300, id_prefix=bytes(10))
    assert not given.fill(range(2))(small)


def test_requests_are_of_bounded_size_and_hold_a_row_at_least() -> None:
    third = b"x" * (REQUEST_BYTES // 3)
    given = plain([third] * 5 + [b"y" * (2 * REQUEST_BYTES)] + [b""] * 3)
    assert given.requests(range(9)) == [range(2), range(2, 4), range(4, 5), range(5, 6), range(6, 9)]
    assert given.requests(range(6, 9)) == [range(6, 9)]
    assert given.requests([8, 0, 1, 2]) == [[8, 0, 1], [2]]
    wide = plain([b""] * 4, keys=[["k" * REQUEST_BYTES], ["k", "k" * REQUEST_BYTES], None, None])
    assert wide.requests(range(4)) == [range(1), range(1, 2), range(2, 4)]
    heavy = plain([b""] * 3, properties=[b"p" * REQUEST_BYTES, b"", b""])
    assert heavy.requests(range(3)) == [range(1), range(1, 3)]
