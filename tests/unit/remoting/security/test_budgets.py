"""Token buckets: how much a user gets in a second, and when to try again."""

from __future__ import annotations

from random import Random

import pytest

from zenitmq.model.security.principals import User, UserLimits
from zenitmq.remoting.security import budgets
from zenitmq.remoting.security.budgets import CONNECTION_MS, RETRY_MS_MAX, UserBudgets


def user(name: str = "u", **limits: float) -> User:
    return User(name, (), limits=UserLimits(**limits))  # type: ignore[arg-type]


def test_a_user_without_limits_is_not_counted() -> None:
    known = UserBudgets()
    assert all(known.take(user(), 0, bytes_in=1 << 40) == 0 for _ in range(100))
    known.spend(user(), 0, bytes_out=1 << 40, busy_ms=1e9)
    assert len(known) == 0


def test_requests_a_second() -> None:
    known, limited = UserBudgets(), user(requests=2)
    assert [known.take(limited, 0) for _ in range(3)] == [0, 0, 500]
    assert known.take(limited, 499) == 1
    assert [known.take(limited, 500), known.take(limited, 500)] == [0, 500]
    assert [known.take(limited, 60_000) for _ in range(3)] == [0, 0, 500]  # no more than a second's worth is saved


def test_a_large_request_gets_through_and_those_behind_it_wait() -> None:
    known, limited = UserBudgets(), user(bytes_in=1000)
    assert known.take(limited, 0, bytes_in=5000) == 0
    assert known.take(limited, 1, bytes_in=1) == 3999
    assert known.take(limited, 4000, bytes_in=1) == 0
    assert known.take(limited, 4000, bytes_in=1 << 50) == 1
    assert known.take(limited, 4001, bytes_in=1 << 50) == 0
    assert known.take(limited, 4001, bytes_in=1) == RETRY_MS_MAX


def test_what_an_answer_costs_is_taken_afterwards() -> None:
    known, limited = UserBudgets(), user(bytes_out=100, busy_ratio=0.1)
    assert known.take(limited, 0) == 0
    known.spend(limited, 0, bytes_out=150)
    assert known.take(limited, 0) == 500
    known.spend(limited, 500, busy_ms=200)
    assert known.take(limited, 500) == 1000


def test_new_limits_count_at_once_and_a_clock_that_goes_back_does_no_harm() -> None:
    known = UserBudgets()
    assert known.take(user(requests=1), 1000) == 0
    assert known.take(user(requests=1), 500) == 1000
    assert known.take(user(requests=5), 500) == 0


def test_the_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "USERS_MAX", 3)
    known = UserBudgets()
    for name in "abcdef":
        assert known.take(user(name, requests=1), 0) == 0
    assert len(known) == 3
    assert known.take(user("g", requests=1), 5000) == 0
    assert len(known) == 1  # the others owe nothing by now


@pytest.mark.parametrize("seed", range(20))
def test_over_a_long_time_a_user_gets_its_rate(seed: int) -> None:
    draw, known, limited = Random(seed), UserBudgets(), user(requests=50, bytes_in=10_000)
    now_ms, requests, received = 0, 0, 0
    while now_ms < 60_000:
        size = draw.randrange(1000)
        wait_ms = known.take(limited, now_ms, bytes_in=size)
        if wait_ms:
            now_ms += wait_ms
        else:
            requests, received = requests + 1, received + size
    assert requests <= 50 * 61
    assert 10_000 * 58 <= received <= 10_000 * 62


def test_a_user_may_use_so_many_connections_at_a_time() -> None:
    budgets, user = UserBudgets(), User("u", (), limits=UserLimits(connections=2))
    assert [budgets.connect(user, each, 0) for each in (b"a", b"b", b"a")] == [0, 0, 0]
    assert budgets.connect(user, b"c", 4000) == CONNECTION_MS - 4000
    assert budgets.connect(user, b"a", 5000) == 0
    assert budgets.connect(user, b"c", 10_000) == 0, "the second was not used for so long"
    assert budgets.connect(user, b"b", 10_000) > 0
    assert budgets.connect(User("v", ()), b"x", 0) == 0
