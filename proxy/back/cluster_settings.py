"""What topics and consumer groups are set to, as far as a front needs it; some seconds old."""

from __future__ import annotations

import json
from typing import Any, Final

from ...model.errors import RemoteProtocolError
from ...model.route import TYPE_ATTRIBUTE
from ...remoting.commands import GetGroups, GetTopics
from .backend import Backend
from .group_rules import GroupRules, group_rules
from .recent_answers import RecentAnswers

KNOWN_MS: Final = 10_000
UNSEEN_MS: Final = 500
"""What is not among them may have been made since: then so old."""
UNSPECIFIED: Final = "UNSPECIFIED"


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
        types = await self._topics.get("", deadline_ms=deadline_ms)
        if topic not in types:
            types = await self._topics.get("", deadline_ms=deadline_ms, age_ms_max=UNSEEN_MS)
        return types.get(topic, UNSPECIFIED)

    async def group(self, group: str, *, deadline_ms: int) -> GroupRules:
        """A group's settings; the defaults if it does not exist. Raises why no broker tells."""
        rules = await self._groups.get("", deadline_ms=deadline_ms)
        if group not in rules:
            rules = await self._groups.get("", deadline_ms=deadline_ms, age_ms_max=UNSEEN_MS)
        return rules.get(group) or GroupRules()

    async def _find_topics(self, _: str, deadline_ms: int) -> dict[str, str]:
        """Of all masters: a topic need not be at each."""
        found: dict[str, str] = {}
        for name in await self._backend.masters(deadline_ms=deadline_ms):
            payload = (await self._backend.call_master(name, GetTopics(), deadline_ms=deadline_ms))[1]
            for row in _rows(payload, "topics"):
                kind, topic = row.get("attributes", {}).get(TYPE_ATTRIBUTE), str(row.get("name"))
                if kind or topic not in found:
                    found[topic] = str(kind or UNSPECIFIED)
        return found

    async def _find_groups(self, _: str, deadline_ms: int) -> dict[str, GroupRules]:
        found: dict[str, GroupRules] = {}
        for name in await self._backend.masters(deadline_ms=deadline_ms):
            payload = (await self._backend.call_master(name, GetGroups(), deadline_ms=deadline_ms))[1]
            for row in _rows(payload, "groups"):
                group = str(row.get("name"))
                if row.get("attributes") or group not in found:
                    found[group] = group_rules(row.get("attributes") or {})
        return found


def _rows(payload: bytes, name: str) -> list[dict[str, Any]]:
    """Raises RemoteProtocolError."""
    try:
        return [row for row in json.loads(payload)[name] if isinstance(row, dict)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RemoteProtocolError(f"what a broker tells of its {name} cannot be read") from error
