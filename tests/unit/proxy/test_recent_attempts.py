"""What receives brought, by the names that their clients gave them."""

from __future__ import annotations

import pytest

from zenitmq.proxy import recent_attempts
from zenitmq.proxy.recent_attempts import KNOWN_MS, RecentAttempts


def test_an_attempt_is_taken_once_and_not_for_long() -> None:
    attempts = RecentAttempts()
    attempts.on_answered("one", ["a", "b"], 0)
    assert attempts.take("other", 1) == ()
    assert attempts.take("one", 1) == ["a", "b"]
    assert attempts.take("one", 1) == ()
    attempts.on_answered("late", ["c"], 0)
    assert attempts.take("late", KNOWN_MS) == ()


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_attempts, "KNOWN_MAX", 3)
    attempts = RecentAttempts()
    for number in range(10):
        attempts.on_answered(number, [str(number)], number)
        assert len(attempts) <= 3
    assert attempts.take(9, 10) == ["9"]
    assert attempts.take(6, 10) == ()
    for number in range(2):
        attempts.on_answered(-number, ["x"], 20 + KNOWN_MS)
    assert len(attempts) == 2
