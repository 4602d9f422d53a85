"""Checks of callers' arguments: counts within limits, seconds to milliseconds, settings to texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from ...model.errors import InvalidParameter

SECONDS_MAX: Final = 7 * 24 * 3600


def check_count(name: str, value: int, minimum: int, maximum: int) -> int:
    """The value. Raises InvalidParameter if it is not a whole number from `minimum` to `maximum`."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise InvalidParameter(name, value, f"a whole number, {minimum} to {maximum}")
    return value


def milliseconds(name: str, seconds: float) -> int:
    """A time that must be more than 0, at least one millisecond. Raises InvalidParameter."""
    if not _is_time(seconds) or not 0 < seconds <= SECONDS_MAX:
        raise InvalidParameter(name, seconds, f"seconds, more than 0 and at most {SECONDS_MAX}")
    return max(1, round(seconds * 1000))


def wait_milliseconds(name: str, seconds: float, maximum: float = SECONDS_MAX) -> int:
    """A time to wait, which may already be over: 0 if it is negative. Raises InvalidParameter."""
    if not _is_time(seconds) or seconds > maximum:
        raise InvalidParameter(name, seconds, f"seconds, at most {maximum:g}")
    return max(0, round(seconds * 1000))


def check_callback(name: str, value: object, *, is_needed: bool = False) -> None:
    """Raises InvalidParameter if it is neither None nor a function; None if one is needed, too."""
    if not callable(value) and (is_needed or value is not None):
        raise InvalidParameter(name, repr(value)[:64], "a function" if is_needed else "a function, or None")


def settings_of(attributes: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """(name, value), sorted. Raises InvalidParameter for a value that is no text."""
    for name, value in (attributes or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            expected = f"name and value as text, as {str(name)!r}: {str(value)!r}"
            raise InvalidParameter(f"attributes[{name!r}]", repr(value), expected)
    return tuple(sorted((attributes or {}).items()))


def _is_time(seconds: float) -> bool:
    return isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and isfinite(seconds)
