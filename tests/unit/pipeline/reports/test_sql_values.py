"""Values of a query's result as JSON has them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest

from zenitmq.pipeline.reports.sql_values import plain


class Struct(NamedTuple):
    """As Spark's Row."""

    a: int
    b: bytes

    def asDict(self) -> dict[str, object]:
        return self._asdict()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        ("ä", "ä"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("ä".encode(), "ä"),
        (bytearray(b"\xff\x00"), "/wA="),
        (datetime(2026, 11, 21, 9, 50, 0, 1500, tzinfo=UTC), "2026-11-21T09:50:00.001+00:00"),
        (date(2026, 11, 21), "2026-11-21"),
        (timedelta(seconds=1.5), 1.5),
        (Decimal("1.10"), "1.10"),
        ({"a": b"x", 1: None}, {"a": "x", "1": None}),
        (Struct(1, b"x"), {"a": 1, "b": "x"}),
        ([b"x", (1, 2)], ["x", [1, 2]]),
        (range(2), "range(0, 2)"),
    ],
)
def test_plain_values(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value))


def test_a_time_without_a_zone_is_local() -> None:
    moment = datetime(2026, 11, 21, 9, 50)  # noqa: DTZ001  # as Spark hands it over
    assert plain(moment) == moment.astimezone(UTC).isoformat(timespec="milliseconds")
