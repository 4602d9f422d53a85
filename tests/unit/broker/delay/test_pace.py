"""How many messages may be delivered at once."""

from __future__ import annotations

from zenitmq.broker.delay.pace import Pace


def test_a_burst_is_spread_over_time() -> None:
    pace = Pace(per_second=10_000, per_turn=300)
    gone = 0
    for now_ms in range(2000):
        allowed = pace.allowed(now_ms)
        assert allowed <= 300
        pace.spend(allowed)
        gone += allowed
    assert 20_000 <= gone <= 21_000 + 300


def test_what_was_not_used_is_soon_forgotten() -> None:
    pace = Pace(per_second=1000, per_turn=10_000)
    assert pace.allowed(0) == 100
    assert pace.allowed(60_000) == 100
    pace.spend(100)
    assert pace.allowed(60_000) == 0
    assert pace.allowed(59_000) == 0  # a clock that went back
    assert pace.allowed(59_005) == 5


def test_the_slowest_pace_lets_one_go() -> None:
    pace = Pace(per_second=1, per_turn=1)
    assert pace.allowed(0) == 0
    allowed = 0
    for now_ms in range(0, 2001, 50):
        if pace.allowed(now_ms):
            pace.spend(1)
            allowed += 1
    assert allowed == 2
