"""Numbers that others call times."""

from __future__ import annotations

import pytest

from zenitmq.model.times import TIME_MS_MAX, iso_text


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123+00:00"),
        (TIME_MS_MAX - 999, "9999-12-31T23:59:59.000+00:00"),
        (TIME_MS_MAX + 1, "253402300800000"),
        (-1, "-1"),
        ((1 << 63) - 1, "9223372036854775807"),
    ],
)
def test_what_is_no_time_stays_a_number(timestamp_ms: int, text: str) -> None:
    assert iso_text(timestamp_ms) == text
