"""What one trigger of a stream takes."""

from __future__ import annotations

from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.offsets import QueueKey
from zenitmq.pipeline.reading.stream_plan import (
    BatchLimits,
    begun_anew,
    is_waiting,
    made_anew,
    next_end,
    reachable,
    shrunk,
    until,
)

A, B, C = (QueueKey("t", "a", number) for number in range(3))


def test_a_queue_whose_broker_is_away_stays_where_it_is() -> None:
    assert reachable({A: 5, B: 7}, {A: 9, C: 2}) == {A: 9, B: 7, C: 2}


def test_offsets_never_go_below_the_start() -> None:
    assert reachable({A: 5}, {A: 3}) == {A: 5}
    assert shrunk({A: 5, B: 1}, {A: 3, C: 0}) == {A: 2}


def test_only_a_topic_that_is_known_to_be_another_one_was_made_anew() -> None:
    before = {("t", "a"): 5, ("t", "b"): 5, ("t", "c"): 5}
    assert made_anew(before, {("t", "a"): 9, ("t", "b"): 5, ("u", "a"): 1}) == {("t", "a")}


def test_a_topic_that_was_made_anew_begins_with_its_first_row() -> None:
    other = QueueKey("u", "a", 0)
    assert begun_anew({A: 7, B: 8, other: 9}, {A: 2, C: 0, other: 0}, {("t", "a")}) == {A: 2, other: 9}, "B is no more"


def test_a_target_holds_back_what_came_later() -> None:
    assert until({A: 6}, {A: 5, B: 7}, {A: 9, B: 8, C: 2}) == {A: 6, B: 7}
    assert until({A: 6, C: 1}, {A: 6}, {A: 9, C: 2}) == {A: 6, C: 1}


def test_few_rows_are_waited_for_but_not_for_ever() -> None:
    limits = BatchLimits(rows_min=10, delay_max_ms=1000)
    assert is_waiting({A: 0}, {A: 9}, limits, waited_ms=999)
    assert not is_waiting({A: 0}, {A: 9}, limits, waited_ms=1000)
    assert not is_waiting({A: 0}, {A: 10}, limits, waited_ms=0)
    assert not is_waiting({A: 0}, {A: 9}, limits.without_minimum(), waited_ms=0)


def test_every_limit_that_was_given_counts() -> None:
    start, end = {A: 0}, {A: 1000}
    assert next_end(start, end, BatchLimits(), {}) == end
    assert next_end(start, end, BatchLimits(rows_max=100), {}) == {A: 100}
    assert next_end(start, end, BatchLimits(bytes_max=500), {A: 10}) == {A: 50}
    assert next_end(start, end, BatchLimits(rows_max=100, bytes_max=500), {A: 10}) == {A: 50}


def test_limits_are_those_of_the_options() -> None:
    options = ReadOptions.parse(
        {
            "subscribe": "t",
            "maxoffsetspertrigger": "5",
            "minoffsetspertrigger": "2",
            "maxbytespertrigger": "1k",
            "maxtriggerdelay": "2s",
        }
    )
    assert BatchLimits.of(options) == BatchLimits(rows_min=2, rows_max=5, bytes_max=1024, delay_max_ms=2000)
