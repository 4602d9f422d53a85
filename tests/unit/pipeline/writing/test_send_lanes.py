"""Requests of a task that are under way at the same time, and what becomes of them when one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from zenitmq.pipeline.writing.send_lanes import LANES, UNDER_WAY_MAX, TaskLanes

WAIT_S = 60


class Failed(Exception):
    """What a request fails with."""


def test_a_lane_keeps_its_order_and_counts_are_added() -> None:
    lanes = TaskLanes()
    done: list[tuple[int, int]] = []

    def request(lane: int, number: int) -> Callable[[], int]:
        def run() -> int:
            done.append((lane, number))
            return number

        return run

    for number in range(100):
        lanes.add(number % LANES, request(number % LANES, number))
    lanes.finish()
    assert lanes.duplicates == sum(range(100))
    for lane in range(LANES):
        assert [number for each, number in done if each == lane] == list(range(lane, 100, LANES))


def test_lanes_do_not_wait_for_each_other_and_are_bounded() -> None:
    lanes = TaskLanes()
    go = threading.Event()
    begun = threading.Semaphore(0)

    def wait() -> int:
        begun.release()
        assert go.wait(WAIT_S)
        return 1

    for number in range(UNDER_WAY_MAX):
        lanes.add(number, wait)
    for _ in range(LANES):
        assert begun.acquire(timeout=WAIT_S), "each lane has begun"
    assert not begun.acquire(blocking=False), "one at a time"
    blocked = threading.Thread(target=lambda: lanes.add(0, wait))
    blocked.start()
    blocked.join(0.05)
    assert blocked.is_alive(), "there is no room before the first has ended"
    go.set()
    blocked.join(WAIT_S)
    lanes.finish()
    assert lanes.duplicates == UNDER_WAY_MAX + 1


def test_behind_one_that_failed_nothing_is_sent() -> None:
    """Else the queue would have what comes behind the hole, and the hole would count as written when the task is repeated."""
    lanes = TaskLanes()
    sent: list[int] = []
    go = threading.Event()

    def fail() -> int:
        assert go.wait(WAIT_S)
        raise Failed

    def send() -> int:
        sent.append(1)
        return 0

    lanes.add(0, fail)
    for _ in range(UNDER_WAY_MAX - 1):
        lanes.add(0, send)
    go.set()
    with pytest.raises(Failed):
        lanes.finish()
    lanes.abandon()
    assert sent == []


def test_a_task_that_ends_leaves_nothing_under_way() -> None:
    lanes = TaskLanes()
    go = threading.Event()
    begun = threading.Event()
    sent: list[int] = []

    def first() -> int:
        begun.set()
        assert go.wait(WAIT_S)
        sent.append(1)
        raise Failed

    lanes.add(0, first)
    lanes.add(0, lambda: sent.append(2) or 0)
    assert begun.wait(WAIT_S)
    ending = threading.Thread(target=lanes.abandon)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()
    go.set()
    ending.join(WAIT_S)
    assert sent == [1]
    another = TaskLanes()
    another.add(0, lambda: 7)
    another.finish()
    assert another.duplicates == 7
