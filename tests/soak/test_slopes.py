"""Slopes: known lines are found with their noise, steps are told from leaks, and what stands still is not said to grow."""

from __future__ import annotations

import random

import pytest
from soak.slopes import FALLS, FLAT, GROWS, SETTLED, block_means, slope_of, student_quantile

HOUR = 3600


def series(minutes: int, value: object) -> list[tuple[float, float]]:
    """A sample each ten seconds; `value(seconds)`."""
    return [(at, value(at)) for at in range(0, minutes * 60, 10)]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (58, 2.002)]
)
def test_quantiles_are_students(freedom: float, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, abs=1e-3)


def test_blocks_are_means_of_a_minute() -> None:
    assert block_means([(0, 1.0), (59, 3.0), (60, 7.0)]) == [(30.0, 2.0), (90.0, 7.0)]


def test_too_few_minutes_have_no_slope() -> None:
    assert slope_of(series(7, lambda at: at)) is None


def test_a_line_without_noise_is_found_exactly() -> None:
    slope = slope_of(series(60, lambda at: 1000 + 36 * at / HOUR))
    assert slope is not None
    assert slope.per_h == pytest.approx(36)
    assert slope.robust_per_h == pytest.approx(36)
    assert slope.verdict == GROWS


def test_what_stands_still_is_flat() -> None:
    slope = slope_of(series(60, lambda _: 4711))
    assert slope is not None
    assert (slope.per_h, slope.low_per_h, slope.high_per_h, slope.verdict) == (0, 0, 0, FLAT)


@pytest.mark.parametrize(("per_h", "verdict"), [(600, GROWS), (-600, FALLS)])
def test_a_leak_in_noise_is_found(per_h: float, verdict: str) -> None:
    noise = random.Random(1)
    slope = slope_of(series(60, lambda at: 30_000 + per_h * at / HOUR + noise.gauss(0, 100)))
    assert slope is not None
    assert slope.low_per_h < per_h < slope.high_per_h
    assert slope.verdict == verdict


def test_one_step_of_an_allocator_is_no_leak() -> None:
    noise = random.Random(2)
    slope = slope_of(series(60, lambda at: 30_000 + (1024 if at > 900 else 0) + noise.gauss(0, 20)))
    assert slope is not None
    assert slope.verdict in (FLAT, SETTLED)


def test_a_leak_that_shows_in_steps_of_an_allocator_is_found() -> None:
    noise = random.Random(3)
    slope = slope_of(series(60, lambda at: 30_000 + 1024 * (at // 900) + noise.gauss(0, 20)))
    assert slope is not None
    assert slope.low_per_h < 4096 < slope.high_per_h
    assert slope.verdict == GROWS


def test_what_grew_and_stands_still_has_settled() -> None:
    noise = random.Random(4)
    slope = slope_of(series(60, lambda at: 30_000 + 60 * min(1, at / 1200) + noise.gauss(0, 60)))
    assert slope is not None
    assert slope.low_per_h > 0
    assert slope.verdict == SETTLED


def test_an_interval_of_what_wanders_holds_0_about_as_often_as_it_says() -> None:
    """Noise whose neighbours resemble each other: taken to be independent, half of it would be said to grow or fall."""
    told = 0
    for seed in range(200):
        noise = random.Random(seed)
        level, levels = 0.0, {}
        for minute in range(60):
            level = 0.7 * level + noise.gauss(0, 50)
            levels[minute] = level
        slope = slope_of(series(60, lambda at, levels=levels: 30_000 + levels[at // 60]))
        assert slope is not None
        told += slope.verdict != FLAT
    assert told <= 36  # of 200; 10 were to be expected, had the correlation been known
