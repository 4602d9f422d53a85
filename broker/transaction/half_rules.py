"""When a half message is asked about, and when no longer. Pure.

stored at T                     asked about from T + the time it is left alone: `timeout_ms`, or what the message says
asked about k times, at T'      again at T' + `interval_ms`
asked about `checks_max` times  parked then, until an operator decides
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...model.names import HALF_TOPIC, UNDECIDED_TOPIC
from ...model.properties import CHECK_IMMUNITY_SECONDS
from .half_records import check_times

NEVER_MS: Final = 1 << 60
"""When what only an operator decides is due."""

_SECONDS_LENGTH_MAX: Final = 7


@dataclass(frozen=True, slots=True)
class HalfRules:
    """The settings `transaction_timeout_ms`, `transaction_check_interval_ms` and `transaction_checks_max`."""

    timeout_ms: int
    interval_ms: int
    checks_max: int

    def due_of(self, topic: str, properties: Mapping[str, str], stored_ms: int) -> int | None:
        """When there is something to do about a record of a topic, ms since the epoch; None: it waits for nothing."""
        if topic == UNDECIDED_TOPIC:
            return NEVER_MS
        if topic != HALF_TOPIC:
            return None
        return stored_ms + (self.interval_ms if check_times(properties) else self._left_alone_ms(properties))

    def _left_alone_ms(self, properties: Mapping[str, str]) -> int:
        text = properties.get(CHECK_IMMUNITY_SECONDS, "")
        is_number = text.isascii() and text.isdigit() and 0 < len(text) <= _SECONDS_LENGTH_MAX
        return int(text) * 1000 if is_number else self.timeout_ms

    def is_over(self, properties: Mapping[str, str]) -> bool:
        """Whether it was asked about often enough."""
        return check_times(properties) >= self.checks_max
