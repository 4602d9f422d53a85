"""Where a read begins and ends."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter, OffsetOutOfRange, OffsetsIncomplete, TopicReplaced
from zenitmq.pipeline.options.boundary import EARLIEST, LATEST, Boundary
from zenitmq.pipeline.reading.boundaries import Held, beyond_minimum, offsets_at, raised, times_wanted
from zenitmq.pipeline.reading.offsets import Offsets, QueueKey

A, B = QueueKey("t", "a", 0), QueueKey("t", "a", 1)
HELD = Held({A: 10, B: 20}, {A: 30, B: 40})


def at(boundary: Boundary, at_time: Offsets | None = None, side: str = "starting", none: str = "error") -> Offsets:
    return offsets_at(boundary, HELD, at_time or {}, side=side, none_from_time=none)


def test_words() -> None:
    assert at(EARLIEST) == HELD.minimum
    assert at(LATEST) == HELD.end


def test_marks_stand_for_words_queue_by_queue() -> None:
    assert at(Boundary("offsets", {A: -2, B: -1}, option="startingOffsets")) == {A: 10, B: 40}


def test_a_start_below_what_is_left_is_kept_so_that_the_loss_is_seen() -> None:
    assert at(Boundary("offsets", {A: 3, B: 25})) == {A: 3, B: 25}


def test_offsets_of_a_topic_that_was_made_again_since_are_not_those_of_the_new_one() -> None:
    held = Held(HELD.minimum, HELD.end, {("t", "a"): 7})
    for life in (0, 7):
        lives = {("t", "a"): life} if life else {}
        same = Boundary("offsets", {A: 11, B: 25}, lives=lives)
        assert offsets_at(same, held, {}, side="starting", none_from_time="error") == {A: 11, B: 25}
    other = Boundary("offsets", {A: 11, B: 25}, lives={("t", "a"): 6})
    with pytest.raises(TopicReplaced, match="up to offset 25"):
        offsets_at(other, held, {}, side="starting", none_from_time="error")


def test_an_offset_that_no_message_has_yet_is_out_of_range() -> None:
    with pytest.raises(OffsetOutOfRange, match=r"31 .* \[10, 30\]"):
        at(Boundary("offsets", {A: 31, B: 25}))


def test_every_queue_is_to_be_named_and_no_other() -> None:
    with pytest.raises(OffsetsIncomplete, match="t@a:1 is not named"):
        at(Boundary("offsets", {A: 11}, option="startingOffsets"))
    with pytest.raises(OffsetsIncomplete, match="t@b:0 is named but"):
        times_wanted(Boundary("times", {A: 11, B: 11, QueueKey("t", "b", 0): 1}), HELD)


def test_times_are_looked_up_for_each_queue() -> None:
    assert times_wanted(Boundary("time", time_ms=5), HELD) == {A: 5, B: 5}
    assert times_wanted(Boundary("times", {A: 5, B: 6}), HELD) == {A: 5, B: 6}
    assert times_wanted(EARLIEST, HELD) == {}


def test_a_time_after_the_last_message_is_an_error_or_latest() -> None:
    found = {A: 12, B: 41}  # B grew since it was looked at
    boundary = Boundary("time", time_ms=5, option="startingTimestamp")
    with pytest.raises(InvalidParameter, match="t@a:1 has messages"):
        at(boundary, found)
    assert at(boundary, found, none="latest") == {A: 12, B: 40}
    assert at(boundary, found, side="ending") == {A: 12, B: 40}


def test_what_expired_is_counted_and_passed_over() -> None:
    lost = beyond_minimum({A: 3, B: 25}, HELD.minimum)
    assert lost == {A: 7}
    assert raised({A: 3, B: 25}, lost) == {A: 10, B: 25}
    assert beyond_minimum({}, {A: 4}) == {A: 4}, "a queue that is new began with its first message"
