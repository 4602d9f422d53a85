"""Lag: never negative; in seconds, null where it is unknown."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.consume_progress import QueueProgress, reset_target


@pytest.mark.parametrize(
    ("minimum", "maximum", "committed", "has_begun", "oldest_ms", "lag", "seconds"),
    [
        (0, 10, 4, True, 3_000, 6, 2.0),
        (0, 10, 10, True, None, 0, 0.0),
        (0, 10, 99, True, None, 0, 0.0),
        (6, 10, 2, True, 4_000, 4, 1.0),
        (0, 10, 4, True, None, 6, None),
        (0, 10, 4, True, 9_000, 6, 0.0),
        (3, 10, -1, True, 3_000, 7, 2.0),
        (3, 10, -1, False, 3_000, None, None),
        (0, 0, -1, False, None, 0, 0.0),
    ],
)
def test_lag(
    minimum: int,
    maximum: int,
    committed: int,
    has_begun: bool,
    oldest_ms: int | None,
    lag: int | None,
    seconds: float | None,
) -> None:
    progress = QueueProgress("t", 0, minimum, maximum, committed, has_begun, oldest_ms)
    assert progress.lag == lag
    assert progress.lag_seconds(5_000) == seconds
    document = progress.document(5_000, None)
    assert (document["lag"], document["lag_seconds"]) == (lag, seconds)
    assert document["consumer_queue_offset"] == (None if committed < 0 else committed)


@pytest.mark.parametrize(
    ("to", "value", "expected"),
    [("earliest", 0, 5), ("latest", 0, 9), ("offset", 7, 7), ("offset", 1, 5), ("offset", 50, 9), ("time", 6, 6)],
)
def test_a_reset_stays_within_what_the_queue_holds(to: str, value: int, expected: int) -> None:
    assert reset_target(to, value, min_offset=5, max_offset=9) == expected
