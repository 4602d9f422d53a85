"""Times of turns and requests, where they are measured."""

from __future__ import annotations

from zenitmq.remoting.commands import GetRoute, PullMessages
from zenitmq.remoting.loop_times import SAMPLE_EVERY, LoopTimes


def test_a_request_is_timed_from_the_turn_that_received_it() -> None:
    times = LoopTimes()
    times.begun_ns = 1_000_000
    times.on_settled(PullMessages, 1_000_000, 1_090_000)
    times.on_settled(PullMessages, 1_000_000, 31_000_000_000)
    times.on_settled(GetRoute, 1_000_000, 1_040_000)
    times.on_turn(1_200_000)
    pulls = times.requests[PullMessages].reading()
    assert (sum(pulls.counts), pulls.counts[-1]) == (2 * SAMPLE_EVERY, SAMPLE_EVERY)
    assert pulls.total == 30.99909 * SAMPLE_EVERY
    assert times.requests[GetRoute].reading().counts[0] == SAMPLE_EVERY
    assert times.turns.reading().total == 0.0002 * SAMPLE_EVERY


def test_failures_are_counted_by_class_and_code() -> None:
    times = LoopTimes()
    for code in (17, 17, 501):
        times.on_failed(GetRoute, code)
    assert times.failed == {(GetRoute, 17): 2, (GetRoute, 501): 1}
