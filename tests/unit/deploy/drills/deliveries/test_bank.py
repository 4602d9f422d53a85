"""The bank of a drill: what keeps its sum, and what breaks it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zenitmq.deploy.drills.deliveries.bank import Bank, ProducerGone, wrong_transfers
from zenitmq.model.handles.transaction import Resolution
from zenitmq.model.message import Message


def executed(count: int) -> Bank:
    bank = Bank("t")
    for _ in range(count):
        try:
            bank.execute(bank.next_transfer())
        except ProducerGone:
            continue
    return bank


def test_its_producer_says_what_it_decided_or_leaves_it_to_the_check() -> None:
    bank = Bank("t")
    told: list[Resolution | None] = []
    for _ in range(8):
        try:
            told.append(bank.execute(bank.next_transfer()))
        except ProducerGone:
            told.append(None)
    commit, rollback = Resolution.COMMIT, Resolution.ROLLBACK
    assert told == [commit, commit, Resolution.UNKNOWN, commit, None, commit, commit, rollback]
    checked = [bank.check(cast("Any", Message("t", b"%d" % number))) for number in (3, 5, 8)]
    assert checked == [rollback, commit, rollback]


def test_what_was_checked_before_it_was_executed_is_never_committed() -> None:
    bank = Bank("t")
    transfer = bank.next_transfer()
    assert bank.check(cast("Any", transfer)) is Resolution.ROLLBACK
    assert bank.execute(transfer) is Resolution.ROLLBACK
    assert bank.committed == 0


def test_the_sum_is_kept_if_each_committed_transfer_is_delivered_once() -> None:
    assert wrong_transfers(executed(8).decided, [1, 2, 4, 5, 6, 7]) == []


@pytest.mark.parametrize(
    ("delivered", "said"),
    [
        ([1, 2, 4, 5, 6], "1 transfers, [7]: was committed and is not delivered"),
        ([1, 2, 3, 4, 5, 6, 7], "1 transfers, [3]: was not committed and is delivered"),
        ([1, 2, 4, 5, 6, 7, 99], "1 transfers, [99]: was not committed and is delivered"),
        ([1, 2, 4, 5, 5, 6, 7], "1 transfers, [5]: is delivered more than once"),
    ],
)
def test_each_way_to_break_it_is_told(delivered: list[int], said: str) -> None:
    assert wrong_transfers(executed(8).decided, delivered) == [said]
