"""Durations in options of jobs: 500ms, 30s, 15m, 2h, 1d. Pure."""

from __future__ import annotations

import re
from typing import Final

from ...model.errors import ConfigError

DURATION_MS_MAX: Final = 365 * 86_400_000

_FORM: Final = re.compile(r"([0-9]{1,11})(ms|s|m|h|d)", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(key: str, text: object) -> int:
    """Milliseconds, more than 0 and at most a year. Raises ConfigError, which names `key`."""
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    length = int(match[1]) * _UNITS_MS[match[2]] if match else 0
    if not 0 < length <= DURATION_MS_MAX:
        raise ConfigError(key, text, "a time span such as 500ms, 30s, 15m, 2h or 1d, at most 365d")
    return length


def spark_interval(length_ms: int) -> str:
    """The form for Spark's watermarks and windows."""
    return f"{length_ms} milliseconds"
