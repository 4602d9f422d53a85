"""Answers come in other threads while a `receive` looks at what it has asked for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from zenitmq.client.consuming.simple.division import Demand, PopTarget
from zenitmq.client.consuming.simple.receiving import Receiving
from zenitmq.model.clock import monotonic_ms

STRESS_MS = 300


@pytest.fixture(autouse=True)
def threads_that_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_an_answer_may_come_at_any_moment() -> None:
    work: Any = None
    receiving = Receiving(work, 1, 1000, 1000)
    demand = Demand(PopTarget("t", "b"), 1, waits=True)
    receiving.asked = dict.fromkeys(range(64), demand)
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            receiving.asked.pop(63)
            receiving.asked[63] = demand

    thread = threading.Thread(target=answer)
    thread.start()
    until_ms = monotonic_ms() + STRESS_MS
    try:
        while monotonic_ms() < until_ms:
            assert len(receiving.under_way()) in (63, 64)
    finally:
        ended.set()
        thread.join()
