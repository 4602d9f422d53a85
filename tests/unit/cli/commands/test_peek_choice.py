"""Which messages `zenit peek` reads and prints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.cli.commands.messages.peek import chosen, ranges_to_read
from zenitmq.model.queue import MessageQueue

A, B, EMPTY = (MessageQueue("t", "broker-a", number) for number in range(3))
HELD = {A: (5, 9), B: (0, 100), EMPTY: (7, 7)}


def message(stored_at_ms: int, physical_offset: int) -> Any:
    return SimpleNamespace(stored_at_ms=stored_at_ms, broker_name="broker-a", physical_offset=physical_offset)


@pytest.mark.parametrize(("newest", "ranges"), [(True, {A: (5, 9), B: (90, 100)}), (False, {A: (5, 9), B: (0, 10)})])
def test_so_many_of_each_queue_as_it_holds_are_read(newest: bool, ranges: dict[MessageQueue, tuple[int, int]]) -> None:
    assert ranges_to_read(HELD, 10, newest=newest) == ranges


def test_messages_are_printed_by_the_time_they_were_stored() -> None:
    late, early, tie = message(9, 400), message(3, 500), message(9, 300)
    assert chosen([late, early, tie], 2, newest=True) == [tie, late]
    assert chosen([late, early, tie], 2, newest=False) == [early, tie]
