"""Requests that wait during a hand-over: held once each, answered together, and not too many of them."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.broker.draining.held_calls import HELD_MAX, HeldCalls
from zenitmq.model.errors import BrokerBusy, NotMaster, ZenitError


class SomeCall:
    payload = b"of another lane"


def test_all_that_wait_are_answered_in_their_order() -> None:
    failed: list[tuple[Any, ZenitError]] = []
    held = HeldCalls(lambda call, error: failed.append((call, error)))
    calls: list[Any] = [SomeCall(), SomeCall()]
    held.is_open = True
    for call in calls:
        held.hold(call)
    error = NotMaster("broker-a", 7)
    held.release(error)
    assert failed == [(calls[0], error), (calls[1], error)]
    assert not held.is_open
    assert calls[0].payload == b"", "what it carried is not kept"
    held.release(error)
    assert len(failed) == 2


def test_more_than_the_limit_are_told_to_come_again() -> None:
    held = HeldCalls(lambda _call, _error: None)
    call: Any = SomeCall()
    for _ in range(HELD_MAX):
        held.hold(call)
    with pytest.raises(BrokerBusy, match="handed over"):
        held.hold(call)
    held.release(NotMaster("broker-a", 7))
    held.hold(call)
