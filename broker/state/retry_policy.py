"""When a message that a group could not handle is delivered again, and when it becomes a dead letter. Pure.

RocketMQ's rules and settings: a group has `retryMaxTimes` and a `groupRetryPolicy`, as subscriptionGroup.json holds them:

    {"type": "CUSTOMIZED"}                                                          the broker's levels
    {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [ms, ...]}}            levels of the group's own
    {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": ms, "max": ms, "multiplier": n}}

After its first failure a message waits as the third level says, after the next one as the fourth says, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import InvalidParameter

RETRIES_MAX_DEFAULT: Final = 16
RETRIES_MAX_MAX: Final = (1 << 31) - 1
FIRST_LEVEL: Final = 3  # the level, counted from 1, of the first retry
DEAD_LETTER_LEVEL: Final = -1  # a request's level that means "dead letter now"
DELAY_MS_MAX: Final = 30 * 86_400_000
LADDER_LENGTH_MAX: Final = 100
MULTIPLIER_MAX: Final = 100

CUSTOMIZED: Final = "CUSTOMIZED"
EXPONENTIAL: Final = "EXPONENTIAL"
_CUSTOM_FIELD: Final = "customizedRetryPolicy"
_EXPONENTIAL_FIELD: Final = "exponentialRetryPolicy"


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels in ms, at least one; beyond the last, the last one is used."""

    levels_ms: tuple[int, ...]

    def delay_ms(self, retries: int) -> int:
        """The wait after `retries` earlier retries."""
        return self.levels_ms[min(FIRST_LEVEL - 1 + retries, len(self.levels_ms) - 1)]


@dataclass(frozen=True, slots=True)
class Exponential:
    """Each retry waits `multiplier` times as long as the one before, at most `max_ms`."""

    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: int = 2

    def delay_ms(self, retries: int) -> int:
        """The wait after `retries` earlier retries."""
        return int(min(self.initial_ms * self.multiplier ** min(retries, 32), self.max_ms))


Backoff = Ladder | Exponential


def parse_backoff(policy: Mapping[str, Any], levels_ms: Sequence[int]) -> Backoff:
    """Parses a `groupRetryPolicy`; `levels_ms` are the broker's. Raises InvalidParameter."""
    _refuse_others("groupRetryPolicy", policy, {"type", _CUSTOM_FIELD, _EXPONENTIAL_FIELD})
    kind = policy.get("type", CUSTOMIZED)
    if kind == EXPONENTIAL:
        return _exponential(_section(policy, _EXPONENTIAL_FIELD))
    if kind != CUSTOMIZED:
        raise InvalidParameter("groupRetryPolicy.type", kind, f"{CUSTOMIZED} or {EXPONENTIAL}")
    section = _section(policy, _CUSTOM_FIELD)
    return _ladder(section) if section else Ladder(tuple(levels_ms))


def backoff_of(group: Mapping[str, Any], levels_ms: Sequence[int]) -> Backoff:
    """The policy of a group's document. An invalid one (a file from elsewhere) counts as none."""
    policy = group.get("groupRetryPolicy")
    try:
        return parse_backoff(policy if isinstance(policy, Mapping) else {}, levels_ms)
    except InvalidParameter:
        return Ladder(tuple(levels_ms))


def retries_max_of(group: Mapping[str, Any]) -> int:
    """How often a group retries a message before it becomes a dead letter."""
    value = group.get("retryMaxTimes")
    return value if type(value) is int and value >= 0 else RETRIES_MAX_DEFAULT


def retry_delay_ms(
    group: Mapping[str, Any],
    levels_ms: Sequence[int],
    *,
    reconsume_times: int,
    delay_level: int = 0,
    max_attempts: int = -1,
) -> int | None:
    """How long a group's message waits after `reconsume_times` retries; None: it becomes a dead letter.

    `delay_level`, `max_attempts`: as in SendBack. Raises InvalidParameter for an unknown level.
    """
    if not DEAD_LETTER_LEVEL <= delay_level <= len(levels_ms):
        raise InvalidParameter("delay_level", delay_level, f"{DEAD_LETTER_LEVEL} to {len(levels_ms)}")
    if not -1 <= max_attempts <= RETRIES_MAX_MAX:
        raise InvalidParameter("max_attempts", max_attempts, f"-1 to {RETRIES_MAX_MAX}")
    retries_max = retries_max_of(group) if max_attempts < 0 else max_attempts
    if delay_level == DEAD_LETTER_LEVEL or reconsume_times >= retries_max:
        return None
    if delay_level:
        return levels_ms[delay_level - 1]
    return backoff_of(group, levels_ms).delay_ms(max(0, reconsume_times))


def _section(policy: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    section = policy.get(field)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise InvalidParameter(f"groupRetryPolicy.{field}", str(section)[:64], "an object")
    return section


def _exponential(section: Mapping[str, Any]) -> Exponential:
    _refuse_others(_EXPONENTIAL_FIELD, section, {"initial", "max", "multiplier"})
    default = Exponential()
    initial_ms = _integer("initial", section.get("initial", default.initial_ms), 1, DELAY_MS_MAX)
    max_ms = _integer("max", section.get("max", max(default.max_ms, initial_ms)), initial_ms, DELAY_MS_MAX)
    multiplier = _integer("multiplier", section.get("multiplier", default.multiplier), 1, MULTIPLIER_MAX)
    return Exponential(initial_ms, max_ms, multiplier)


def _ladder(section: Mapping[str, Any]) -> Ladder:
    _refuse_others(_CUSTOM_FIELD, section, {"next"})
    levels = section.get("next")
    if not isinstance(levels, list) or not 1 <= len(levels) <= LADDER_LENGTH_MAX:
        raise InvalidParameter("next", str(levels)[:64], f"a list of 1 to {LADDER_LENGTH_MAX} delays in ms")
    return Ladder(tuple(_integer("next", level, 1, DELAY_MS_MAX) for level in levels))


def _integer(name: str, value: object, minimum: int, maximum: int) -> int:
    if type(value) is not int or not minimum <= value <= maximum:
        raise InvalidParameter(name, str(value)[:64], f"an integer from {minimum} to {maximum}")
    return value


def _refuse_others(name: str, section: Mapping[str, Any], known: set[str]) -> None:
    for field in section:
        if field not in known:
            raise InvalidParameter(f"field of {name}", str(field)[:64], "one of " + ", ".join(sorted(known)))
