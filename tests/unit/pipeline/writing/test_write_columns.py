"""What the sink makes of a data frame's columns, and which it refuses by name."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import UnwritableColumn
from zenitmq.pipeline.writing.write_columns import WriteColumns, plan_columns


def plan(*fields: tuple[str, str], has_topic: bool = True, is_dedup: bool = False) -> WriteColumns:
    return plan_columns(fields, has_topic=has_topic, is_dedup=is_dedup)


def test_columns_are_found_by_their_names_in_any_order() -> None:
    columns = plan(
        ("flag", "smallint"),
        ("topic", "string"),
        ("deliverTimestamp", "timestamp"),
        ("properties", "map<string,string>"),
        ("key", "binary"),
        ("tags", "string"),
        ("keys", "array<string>"),
        ("value", "string"),
        has_topic=False,
    )
    names = ("flag", "topic", "deliverTimestamp", "properties", "key", "tags", "keys", "value")
    assert columns == WriteColumns(
        names, body=7, topic=1, keys=6, tags=5, message_group=4, properties=3, deliver_at=2, flag=0
    )
    assert plan(("body", "binary")) == WriteColumns(("body",), body=0)


def test_the_option_topic_goes_before_the_column() -> None:
    assert plan(("topic", "string"), ("body", "binary")).topic is None


@pytest.mark.parametrize(
    ("fields", "column", "says"),
    [
        ([("topic", "string")], "body", "neither body nor value"),
        ([("body", "binary"), ("value", "binary")], "value", "column 'body' has the same meaning"),
        ([("body", "bigint")], "body", "of type bigint, not of binary or string: cast it"),
        ([("body", "binary"), ("deliverTimestamp", "timestamp_ntz")], "deliverTimestamp", "not of timestamp"),
        ([("body", "binary"), ("queueOffset", "bigint")], "queueOffset", "body, topic, keys.*or drop it"),
        ([("body", "binary"), ("Body", "binary")], "Body", "drop it"),
    ],
)
def test_what_cannot_be_written_is_named(fields: list[tuple[str, str]], column: str, says: str) -> None:
    with pytest.raises(UnwritableColumn, match=says) as refused:
        plan(*fields)
    assert refused.value.column == column


def test_somebody_must_say_the_topic() -> None:
    with pytest.raises(UnwritableColumn, match="option topic is not given"):
        plan(("body", "binary"), has_topic=False)


def test_rows_for_later_are_not_deduplicated() -> None:
    fields = ("body", "binary"), ("deliverTimestamp", "timestamp")
    assert plan(*fields).deliver_at == 1
    with pytest.raises(UnwritableColumn, match="delivery=dedup"):
        plan(*fields, is_dedup=True)
