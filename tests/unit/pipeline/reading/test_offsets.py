"""Offsets of many queues: their one text, ranges, limits, splits."""

from __future__ import annotations

import json
import pickle

import pytest

from zenitmq.model.errors import InvalidParameter, OffsetsBackwards
from zenitmq.pipeline.reading.offsets import (
    PARTITIONS_MAX,
    QUEUES_MAX,
    QueueKey,
    QueueRange,
    document_of,
    lives_of,
    offsets_json,
    offsets_of,
    parse_lives,
    parse_offsets,
    ranges_between,
    row_count,
    split_ranges,
    within_bytes,
    within_rows,
)

A0, A1, B0 = QueueKey("t", "a", 0), QueueKey("t", "a", 1), QueueKey("t", "b", 0)


def test_the_text_of_offsets_does_not_depend_on_their_order() -> None:
    keys = [QueueKey("t", "b", 2), QueueKey("t", "b", 10), A0, QueueKey("s", "a", 1)]
    offsets = {key: number for number, key in enumerate(keys)}
    text = '{"s": {"a": {"1": 3}}, "t": {"a": {"0": 2}, "b": {"2": 0, "10": 1}}}'
    assert offsets_json(offsets) == text
    assert offsets_json(dict(reversed(offsets.items()))) == text
    assert json.dumps(document_of(offsets)) == text
    assert parse_offsets("startingOffsets", text) == offsets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "JSON of the shape"),
        ("[" * 100_000, "JSON of the shape"),
        ("[]", "JSON of the shape"),
        ('{"t": 5}', "JSON of the shape"),
        ('{"t": {"a": [1]}}', "JSON of the shape"),
        ('{"t": {"a": {"x": 1}}}', "a queue's number"),
        ('{"t": {"a": {"-1": 1}}}', "a queue's number"),
        ('{"t": {"a": {"1234567890": 1}}}', "a queue's number"),
        ('{"t": {"a": {"0": 1.0}}}', "a whole number"),
        ('{"t": {"a": {"0": true}}}', "a whole number"),
        ('{"t": {"a": {"0": "1"}}}', "a whole number"),
        ('{"t": {"a": {"0": -1}}}', "a whole number from 0 on"),
        ('{"t": {"a": {"0": 9223372036854775808}}}', "a whole number"),
    ],
)
def test_what_is_no_offsets_is_refused_by_the_name_of_its_option(text: str, expected: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        parse_offsets("startingOffsets", text)
    assert raised.value.name == "startingOffsets"
    assert expected in raised.value.expected


def test_marks_are_taken_where_they_mean_something() -> None:
    assert parse_offsets("startingOffsets", '{"t": {"a": {"0": -2}}}', lowest=-2) == {A0: -2}


def test_a_text_of_offsets_is_bounded() -> None:
    with pytest.raises(InvalidParameter, match="characters"):
        parse_offsets("startingOffsets", " " * (16 * 1024 * 1024 + 1))
    with pytest.raises(InvalidParameter, match="queues"):
        offsets_of({"t": {"a": {str(number): 0 for number in range(QUEUES_MAX + 1)}}})


def test_ranges_are_of_queues_that_have_something_new() -> None:
    start, end = {A0: 5, A1: 7}, {A0: 5, A1: 9, B0: 3}
    assert ranges_between(start, end) == [QueueRange("t", "a", 1, 7, 9), QueueRange("t", "b", 0, 0, 3)]
    assert row_count(start, end) == 5


def test_a_start_beyond_its_end_is_an_error() -> None:
    with pytest.raises(OffsetsBackwards) as raised:
        ranges_between({A0: 110, A1: 0}, {A0: 105, A1: 1})
    assert (raised.value.queue, raised.value.start, raised.value.end) == ("t@a:0", 110, 105)
    assert "queryName" in str(raised.value)


def test_a_range_travels() -> None:
    item = QueueRange("t", "a", 1, 7, 9)
    assert pickle.loads(pickle.dumps(item)) == item
    assert (item.key, item.rows) == (A1, 2)


def test_a_limit_is_shared_in_proportion() -> None:
    end = {A0: 900, A1: 90, B0: 10}
    assert within_rows({}, end, 100) == {A0: 88, A1: 10, B0: 2}
    assert within_rows({}, end, 1000) == end


def test_no_queue_starves_under_a_limit() -> None:
    assert within_rows({A0: 5}, {A0: 1_000_005, A1: 1, B0: 1}, 1) == {A0: 6, A1: 1, B0: 1}


def test_a_limit_of_bytes_counts_what_rows_weigh() -> None:
    end = {A0: 1000, A1: 1000}
    assert within_bytes({}, end, 11_000, {A0: 10, A1: 1}) == end
    limited = within_bytes({}, end, 1100, {A0: 10, A1: 1})
    assert limited == {A0: 100, A1: 100}


def test_ranges_are_cut_to_a_number_of_rows() -> None:
    pieces = split_ranges([QueueRange("t", "a", 0, 10, 21)], rows_max=4)
    assert [(piece.start, piece.end) for piece in pieces] == [(10, 13), (13, 17), (17, 21)]


def test_the_longest_are_cut_first_where_more_tasks_are_wanted() -> None:
    ranges = [QueueRange("t", "a", 0, 0, 100), QueueRange("t", "a", 1, 0, 10)]
    assert [piece.rows for piece in split_ranges(ranges, partitions_min=4)] == [33, 33, 34, 10]
    assert split_ranges(ranges) == ranges
    assert split_ranges([], partitions_min=4) == []


def test_there_are_no_more_tasks_than_rows() -> None:
    assert len(split_ranges([QueueRange("t", "a", 0, 0, 3)], partitions_min=10)) == 3


def test_tasks_are_bounded() -> None:
    with pytest.raises(InvalidParameter, match="maxRecordsPerPartition"):
        split_ranges([QueueRange("t", "a", 0, 0, PARTITIONS_MAX + 1)], rows_max=1)


def test_the_lives_of_topics_stand_beside_their_queues() -> None:
    offsets, lives = {A0: 1, A1: 2, B0: 3}, {("t", "a"): 77, ("gone", "a"): 5}
    text = '{"t": {"a": {"0": 1, "1": 2, "incarnation": 77}, "b": {"0": 3}}}'
    assert offsets_json(offsets, lives) == text
    assert parse_offsets("x", text) == offsets
    assert parse_lives("x", text) == lives_of(json.loads(text)) == {("t", "a"): 77}
    assert [item.incarnation for item in ranges_between({}, offsets, lives)] == [77, 77, 0]
    assert {item.incarnation for item in split_ranges(ranges_between({}, {A0: 8}, lives), rows_max=2)} == {77}


@pytest.mark.parametrize("life", [-1, "7", True, 1.0, None, 1 << 63])
def test_what_is_no_life_is_refused(life: object) -> None:
    with pytest.raises(InvalidParameter):
        lives_of({"t": {"a": {"incarnation": life}}})
