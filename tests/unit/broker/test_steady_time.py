"""A clock that leaps ahead for a moment lets retention delete nothing; one that is right again is followed."""

from __future__ import annotations

from zenitmq.broker.steady_time import LEAP_MS, SETTLE_MS, SteadyTime

RIGHT_MS = 1_700_000_000_000
YEAR_2100_MS = 4_102_444_800_000


def test_a_clock_that_goes_on_is_followed() -> None:
    time = SteadyTime()
    for passed_ms, drift_ms in ((0, 0), (1000, 5), (2000, LEAP_MS), (3000, -400)):
        assert (
            time.at(now_ms=RIGHT_MS + passed_ms + drift_ms, monotonic_ms=passed_ms) == RIGHT_MS + passed_ms + drift_ms
        )


def test_a_leap_ahead_counts_once_it_has_lasted() -> None:
    time = SteadyTime()
    assert time.at(now_ms=RIGHT_MS, monotonic_ms=10) == RIGHT_MS
    assert time.at(now_ms=YEAR_2100_MS, monotonic_ms=1010) == RIGHT_MS + 1000
    assert time.at(now_ms=YEAR_2100_MS + SETTLE_MS - 1, monotonic_ms=1009 + SETTLE_MS) == RIGHT_MS + SETTLE_MS + 999
    later_ms = YEAR_2100_MS + SETTLE_MS
    assert time.at(now_ms=later_ms, monotonic_ms=1010 + SETTLE_MS) == later_ms
    assert time.at(now_ms=later_ms + 1000, monotonic_ms=2010 + SETTLE_MS) == later_ms + 1000


def test_a_leap_that_is_taken_back_leaves_nothing_behind() -> None:
    time = SteadyTime()
    time.at(now_ms=RIGHT_MS, monotonic_ms=0)
    assert time.at(now_ms=YEAR_2100_MS, monotonic_ms=1000) == RIGHT_MS + 1000
    assert time.at(now_ms=RIGHT_MS + 2000, monotonic_ms=2000) == RIGHT_MS + 2000
    again_ms = 2000 + SETTLE_MS
    assert time.at(now_ms=YEAR_2100_MS, monotonic_ms=again_ms) == RIGHT_MS + again_ms


def test_a_clock_that_is_set_back_is_followed_at_once() -> None:
    time = SteadyTime()
    time.at(now_ms=YEAR_2100_MS, monotonic_ms=0)
    assert time.at(now_ms=RIGHT_MS, monotonic_ms=1000) == RIGHT_MS
    assert time.at(now_ms=RIGHT_MS + 1000, monotonic_ms=2000) == RIGHT_MS + 1000
