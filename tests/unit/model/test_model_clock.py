"""Times of the outside world become milliseconds and come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock, datetime_of_ms, monotonic_ms, ms_of_datetime


def test_moments_convert_both_ways() -> None:
    assert datetime_of_ms(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert ms_of_datetime(datetime_of_ms(1_795_245_203_782)) == 1_795_245_203_782
    assert ms_of_datetime(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0


def test_the_system_clock_goes_forward() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    first = clock.monotonic_ms()
    clock.sleep_ms(2)
    assert first < clock.monotonic_ms() < first + 60_000


@pytest.mark.parametrize("read", [SystemClock().monotonic_ms, monotonic_ms])
def test_leases_and_deadlines_go_on_while_the_machine_is_suspended(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], int]
) -> None:
    """Suspended for an hour: CLOCK_BOOTTIME has counted it, CLOCK_MONOTONIC has not."""
    clocks = {time.CLOCK_MONOTONIC: 5_000_000_000, time.CLOCK_BOOTTIME: 3_605_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", clocks.__getitem__)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clocks[time.CLOCK_MONOTONIC])
    assert read() == 3_605_000


def test_an_arena_has_room_for_a_frame_behind_the_drain() -> None:
    arena = Arena(100, 40)
    arena.used = 99
    assert not arena.is_full
    assert len(arena.view[arena.used :]) >= 40
    arena.used = 100
    assert arena.is_full
    assert len(arena.view[arena.used :]) == 40
