"""Timers: what is due, how long to wait."""

from __future__ import annotations

from zenitmq.remoting.timers import NEVER_MS, Timer, Timers


def timer(interval_ms: int = 0) -> Timer:
    return Timer(lambda: None, interval_ms)


def test_due_comes_in_order_and_once() -> None:
    timers, late, early = Timers(), timer(), timer()
    timers.add(20, late)
    timers.add(10, early)
    assert timers.wait_ms(4) == 6
    assert timers.due(9) == []
    assert timers.due(25) == [early, late]
    assert timers.due(99) == []
    assert timers.wait_ms(99) == NEVER_MS


def test_a_repeating_one_comes_again_and_misses_are_not_made_up() -> None:
    timers, beat = Timers(), timer(10)
    timers.add(10, beat)
    assert timers.due(55) == [beat]
    assert timers.wait_ms(55) == 10
    assert timers.due(65) == [beat]


def test_a_cancelled_one_does_not_come() -> None:
    timers, gone, stays = Timers(), timer(5), timer()
    timers.add(5, gone)
    timers.add(50, stays)
    gone.cancel()
    assert timers.wait_ms(0) == 50
    assert timers.due(100) == [stays]


def test_what_is_overdue_does_not_wait() -> None:
    timers = Timers()
    timers.add(5, timer())
    assert timers.wait_ms(50) == 0
