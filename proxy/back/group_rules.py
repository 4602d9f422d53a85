"""What a consumer group is set to, as far as a front needs it. Pure."""

from __future__ import annotations

from typing import Any, Final

from ...model.plain_dataclass import dataclass

RETRIES_MAX: Final = 16
LEVELS_MS: Final = tuple(
    1000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""RocketMQ's ladder of delays."""
_FIRST_RETRY: Final = 2
"""The first level, from 0, of a retry."""


@dataclass(frozen=True, slots=True)
class GroupRules:
    """`retries_max`: how often a message comes again before it is a dead letter. `backoff_ms`: after which time each; the last
    for all further ones. `is_ordered`: messages of one sharding key come one at a time."""

    retries_max: int = RETRIES_MAX
    backoff_ms: tuple[int, ...] = LEVELS_MS[_FIRST_RETRY:]
    is_ordered: bool = False


def group_rules(document: dict[str, Any]) -> GroupRules:
    """Of a group in RocketMQ's shape (subscriptionGroup.json); what it does not say, or wrongly, is the default."""
    retries = document.get("retryMaxTimes")
    policy = document.get("groupRetryPolicy")
    policy = policy if isinstance(policy, dict) else {}
    custom, exponential = policy.get("customizedRetryPolicy"), policy.get("exponentialRetryPolicy")
    backoff = LEVELS_MS[_FIRST_RETRY:]
    if policy.get("type") == "EXPONENTIAL":
        section = exponential if isinstance(exponential, dict) else {}
        initial, most, factor = (
            _number(section.get(name), default)
            for name, default in (("initial", 5_000), ("max", 7_200_000), ("multiplier", 2))
        )
        backoff = tuple(min(initial * factor**step, most) for step in range(RETRIES_MAX))
    elif isinstance(custom, dict) and isinstance(custom.get("next"), list):
        levels = tuple(level for level in custom["next"] if type(level) is int and level > 0)
        backoff = levels[min(_FIRST_RETRY, len(levels) - 1) :] if levels else backoff
    return GroupRules(
        retries if type(retries) is int and retries >= 0 else RETRIES_MAX,
        backoff,
        document.get("consumeMessageOrderly") is True,
    )


def _number(value: object, default: int) -> int:
    return value if type(value) is int and value > 0 else default
