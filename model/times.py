"""Checks of times from the network, which may be any number. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

TIME_MS_MAX: Final = 253_402_300_799_999  # the last millisecond of the year 9999: Python's datetime goes no further


def iso_text(timestamp_ms: int) -> str:
    """Milliseconds since the epoch as 2026-11-21T09:50:00.123+00:00; a number out of range stays a number."""
    if not 0 <= timestamp_ms <= TIME_MS_MAX:
        return str(timestamp_ms)
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
