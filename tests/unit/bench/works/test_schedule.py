"""Open loop: when messages are due depends on the clock alone."""

from __future__ import annotations

import pytest

from zenitmq.bench.works.e2e import due_count, due_ns


@pytest.mark.parametrize("rate", [1.0, 3.0, 9999.0, 1e6])
def test_a_message_counts_as_due_from_its_time_on(rate: float) -> None:
    for index in (0, 1, 2, 999, 123_456):
        when = due_ns(0, index, rate)
        assert due_count(when + 1, rate) >= index + 1
        assert due_count(when - 1, rate) <= index


def test_nothing_is_due_before_the_start() -> None:
    assert due_count(-1, 1000.0) == 0
    assert due_count(0, 1000.0) == 1


def test_a_stall_leaves_all_that_was_due_in_it() -> None:
    assert due_count(2_000_000_000, 1000.0) - due_count(1_000_000_000, 1000.0) == 1000
