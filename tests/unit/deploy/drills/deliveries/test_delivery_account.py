"""What the second load found, against the pauses of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zenitmq.deploy.drills.deliveries.account import DeliveryAccount, account_of, late_messages, paused

TIMES = {
    "broker-a": np.array([ms * 1_000_000 for ms in (*range(0, 2_000, 100), *range(8_000, 20_000, 100))], np.uint64)
}


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "pause_ms"),
    [(0, 1_500, 0), (1_000, 9_000, 6_100), (3_000, 5_000, 2_000), (19_900, 21_000, 1_100), (9_000, 9_000, 0)],
)
def test_pauses_are_what_lies_between_acknowledgements(begin_ms: int, end_ms: int, pause_ms: int) -> None:
    assert paused(TIMES["broker-a"], begin_ms, end_ms) == pause_ms


@pytest.mark.parametrize(("received_ms", "over"), [(12_050, 0), (12_150, 50), (12_900, 800)])
def test_a_message_is_late_beyond_the_pauses(received_ms: int, over: int) -> None:
    again = {"place": ["broker-a", 0, 4], "due_ms": 1_000, "received_ms": received_ms}
    late = late_messages({"again": [again]}, TIMES)
    assert len(late) == (over > 0)
    assert all(f"{over} ms too late" in text for text in late)


def test_the_account_has_the_counts() -> None:
    found: dict[str, Any] = {"transfers": 1, "popped": 2, "popped_again": 3, "pop_late_ms_max": 4, "violations": []}
    assert account_of(found) == DeliveryAccount(transfers=1, popped=2, popped_again=3, pop_late_ms_max=4)
