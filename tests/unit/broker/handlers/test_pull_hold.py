"""Parked pulls: each is let go once, bounds hold, deadlines come in order."""

from __future__ import annotations

import pytest

from zenitmq.broker.handlers.pull_hold import PULL_BYTES, Parked, PullHold
from zenitmq.model.errors import BrokerBusy


def park(
    hold: PullHold[str], name: str, deadline_ms: int = 100, queue_id: int = 0, filter_bytes: int = 0
) -> Parked[str]:
    return hold.park(
        name, topic="t", queue_id=queue_id, queue_offset=7, deadline_ms=deadline_ms, filter_bytes=filter_bytes
    )


@pytest.fixture
def hold() -> PullHold[str]:
    return PullHold(count_max=4, bytes_max=3 * PULL_BYTES + 100)


def test_an_arrival_concerns_its_queue_only_oldest_first(hold: PullHold[str]) -> None:
    park(hold, "a")
    park(hold, "b", queue_id=1)
    park(hold, "c")
    assert [parked.waiting for parked in hold.waiting_on("t", 0)] == ["a", "c"]
    assert hold.waiting_on("t", 2) == []
    assert [parked.waiting for parked in hold.waiting_on_topic("t")] == ["a", "c", "b"]


def test_a_released_pull_neither_waits_nor_expires(hold: PullHold[str]) -> None:
    parked = park(hold, "a")
    hold.release(parked)
    hold.release(parked)
    assert (hold.count, hold.size_bytes) == (0, 0)
    assert hold.waiting_on("t", 0) == []
    assert hold.expired(1000) == []


def test_pulls_expire_at_their_deadline_in_its_order(hold: PullHold[str]) -> None:
    park(hold, "late", 30)
    park(hold, "early", 10)
    park(hold, "same", 10)
    assert hold.expired(9) == []
    assert [parked.waiting for parked in hold.expired(30)] == ["early", "same", "late"]
    assert hold.count == 0


def test_the_count_is_bounded() -> None:
    hold: PullHold[str] = PullHold(count_max=2, bytes_max=1 << 20)
    first = park(hold, "a")
    park(hold, "b")
    with pytest.raises(BrokerBusy):
        park(hold, "c")
    hold.release(first)
    park(hold, "c")


def test_a_filter_counts_as_bytes(hold: PullHold[str]) -> None:
    park(hold, "a", filter_bytes=96)
    park(hold, "b")
    with pytest.raises(BrokerBusy):
        park(hold, "c", filter_bytes=8)
    park(hold, "c")


def test_released_pulls_do_not_pile_up_until_their_deadline() -> None:
    hold: PullHold[int] = PullHold(count_max=10, bytes_max=1 << 20)
    for number in range(10_000):
        hold.release(hold.park(number, topic="t", queue_id=0, queue_offset=0, deadline_ms=1 << 40))
    assert len(hold._heap) <= 1100
