"""Where a group may begin, and by which allocation its queues are shared out: names that a user gives."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zenitmq.client.consuming.allocation import allocation_of, averaging
from zenitmq.client.consuming.start_from import FIRST, LAST, StartFrom, check_start_from
from zenitmq.model.errors import InvalidParameter


@pytest.mark.parametrize("start_from", [FIRST, LAST, datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_beginning_is_taken_as_it_is(start_from: StartFrom | datetime) -> None:
    assert check_start_from(start_from) is start_from


@pytest.mark.parametrize(
    ("start_from", "expected"),
    [
        (datetime(2026, 1, 1), "time zone"),  # noqa: DTZ001 (that it has none is the point)
        ("FIRST", "FIRST, LAST or a datetime"),
        (None, "FIRST, LAST or a datetime"),
        (0, "FIRST, LAST or a datetime"),
    ],
)
def test_any_other_beginning_is_refused(start_from: object, expected: str) -> None:
    with pytest.raises(InvalidParameter, match=expected):
        check_start_from(start_from)  # type: ignore[arg-type]


def test_an_allocation_has_a_name() -> None:
    assert allocation_of("averaging") is averaging
    with pytest.raises(InvalidParameter, match="one of averaging"):
        allocation_of("avg")
