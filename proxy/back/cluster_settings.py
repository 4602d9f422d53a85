"""What topics and consumer groups are set to, as far as a front needs it; some seconds old."""

from __future__ import annotations

import json
from typing import Any, Final

from ...model.errors import RemoteProtocolError
from ...model.plain_dataclass import dataclass
from ...model.route import TYPE_ATTRIBUTE
from ...remoting.commands import GetGroups, GetTopics
from .backend import Backend
from .recent_answers import RecentAnswers

KNOWN_MS: Final = 10_000
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
    """Of a group in RocketMQ's shape (subscriptionGroup.json); what it does not say, or wrongly, is the default. Pure."""
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


class ClusterSettings:
    """Of one process; on the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._topics: RecentAnswers[str, dict[str, str]] = RecentAnswers(
            self._find_topics, known_ms=KNOWN_MS, size_max=1
        )
        self._groups: RecentAnswers[str, dict[str, GroupRules]] = RecentAnswers(
            self._find_groups, known_ms=KNOWN_MS, size_max=1
        )

    async def topic_type(self, topic: str, *, deadline_ms: int) -> str:
        """The topic's `message.type`, "UNSPECIFIED" if it has none. Raises why no broker tells."""
        return (await self._topics.get("", deadline_ms=deadline_ms)).get(topic, "UNSPECIFIED")

    async def group(self, group: str, *, deadline_ms: int) -> GroupRules:
        """A group's settings; the defaults if it does not exist. Raises why no broker tells."""
        return (await self._groups.get("", deadline_ms=deadline_ms)).get(group) or GroupRules()

    async def _find_topics(self, _: str, deadline_ms: int) -> dict[str, str]:
        """Of all masters: a topic need not be at each."""
        found: dict[str, str] = {}
        for name in await self._backend.masters(deadline_ms=deadline_ms):
            payload = (await self._backend.call_master(name, GetTopics(), deadline_ms=deadline_ms))[1]
            for row in _rows(payload, "topics"):
                kind = row.get("attributes", {}).get(TYPE_ATTRIBUTE)
                if kind:
                    found[str(row.get("name"))] = str(kind)
        return found

    async def _find_groups(self, _: str, deadline_ms: int) -> dict[str, GroupRules]:
        found: dict[str, GroupRules] = {}
        for name in await self._backend.masters(deadline_ms=deadline_ms):
            payload = (await self._backend.call_master(name, GetGroups(), deadline_ms=deadline_ms))[1]
            for row in _rows(payload, "groups"):
                if row.get("attributes"):
                    found.setdefault(str(row.get("name")), group_rules(row["attributes"]))
        return found


def _rows(payload: bytes, name: str) -> list[dict[str, Any]]:
    """Raises RemoteProtocolError."""
    try:
        return [row for row in json.loads(payload)[name] if isinstance(row, dict)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RemoteProtocolError(f"what a broker tells of its {name} cannot be read") from error
