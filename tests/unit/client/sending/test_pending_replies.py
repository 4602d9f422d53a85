"""Requests that wait for their replies: each is answered once, late replies are counted, the number is bounded."""

from __future__ import annotations

import pytest

from zenitmq.client.sending.pending_replies import PendingReplies, RequestStatistics
from zenitmq.model.errors import TooManyRequests


@pytest.fixture
def pending() -> PendingReplies[str]:
    return PendingReplies(limit=2)


def test_each_reply_finds_who_waits_for_it(pending: PendingReplies[str]) -> None:
    pending.add("1", "a")
    pending.add("2", "b")
    assert [pending.on_reply("2"), pending.on_reply("1")] == ["b", "a"]
    assert pending.statistics() == RequestStatistics(pending=0, answered=2, unanswered=0, late=0)


def test_a_second_reply_and_one_that_nobody_waits_for_are_late(pending: PendingReplies[str]) -> None:
    pending.add("1", "a")
    assert [pending.on_reply("1"), pending.on_reply("1"), pending.on_reply("x")] == ["a", None, None]
    assert pending.statistics().late == 2


def test_who_gives_up_is_not_answered_any_more(pending: PendingReplies[str]) -> None:
    pending.add("1", "a")
    assert [pending.give_up("1"), pending.give_up("1"), pending.on_reply("1")] == ["a", None, None]
    assert pending.statistics() == RequestStatistics(pending=0, answered=0, unanswered=1, late=1)


def test_no_more_than_the_limit_wait(pending: PendingReplies[str]) -> None:
    pending.add("1", "a")
    pending.add("2", "b")
    with pytest.raises(TooManyRequests) as refused:
        pending.add("3", "c")
    assert refused.value.limit == 2
    assert sorted(pending.give_all_up()) == ["a", "b"]
    pending.add("3", "c")
    assert pending.statistics() == RequestStatistics(pending=1, answered=0, unanswered=2, late=0)
