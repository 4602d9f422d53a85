"""What topics and consumer groups are set to, as far as a front needs it; some seconds old."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import RemoteProtocolError, ZenitError
from ...model.route import TYPE_ATTRIBUTE
from ...remoting.commands import GetGroups, GetTopics
from .backend import STALE_MS, Backend
from .group_rules import GroupRules, group_rules
from .recent_answers import RecentAnswers

log = logging.getLogger(__name__)

KNOWN_MS: Final = 10_000
UNSEEN_MS: Final = 500
"""What is not among them may have been made since: then so old."""
MASTER_MS: Final = 2_000
"""So long one master may take; then it is as it was."""
UNSPECIFIED: Final = "UNSPECIFIED"


_Rows = list[dict[str, Any]]


class ClusterSettings:
    """Of one process; on the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._topics: RecentAnswers[str, dict[str, str]] = RecentAnswers(
            self._find_topics, known_ms=KNOWN_MS, size_max=1, stale_ms=STALE_MS
        )
        self._groups: RecentAnswers[str, dict[str, GroupRules]] = RecentAnswers(
            self._find_groups, known_ms=KNOWN_MS, size_max=1, stale_ms=STALE_MS
        )
        self._told: dict[str, dict[str, _Rows]] = {}

    def known_type(self, topic: str) -> str | None:
        """The same, if it is known and nobody need be asked."""
        types = self._topics.known("")
        return None if types is None else types.get(topic)

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

    async def brokers_of(self, group: str, *, deadline_ms: int) -> list[str]:
        """The names of the brokers that have a group. Raises why no broker tells."""
        await self.group(group, deadline_ms=deadline_ms)
        told = self._told.get("groups", {})
        return sorted(name for name, rows in told.items() if any(row.get("name") == group for row in rows))

    async def _find_topics(self, _: str, deadline_ms: int) -> dict[str, str]:
        """Of all masters: a topic need not be at each."""
        found: dict[str, str] = {}
        for row in await self._of_masters(GetTopics(), "topics", deadline_ms):
            kind, topic = row.get("attributes", {}).get(TYPE_ATTRIBUTE), str(row.get("name"))
            if kind or topic not in found:
                found[topic] = str(kind or UNSPECIFIED)
        return found

    async def _find_groups(self, _: str, deadline_ms: int) -> dict[str, GroupRules]:
        found: dict[str, GroupRules] = {}
        for row in await self._of_masters(GetGroups(), "groups", deadline_ms):
            group = str(row.get("name"))
            if row.get("attributes") or group not in found:
                found[group] = group_rules(row.get("attributes") or {})
        return found

    async def _of_masters(self, request: GetTopics | GetGroups, name: str, deadline_ms: int) -> _Rows:
        """The rows of all; of one that does not answer, those that it told before. Raises why none tells."""
        until_ms = min(deadline_ms, monotonic_ms() + MASTER_MS)
        masters = sorted(await self._backend.masters(deadline_ms=deadline_ms))
        calls = (self._backend.call_master(master, request, deadline_ms=until_ms) for master in masters)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        before, told = self._told.get(name, {}), {}
        errors: list[BaseException] = []
        for master, outcome in zip(masters, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                told[master] = _rows(outcome[1], name)
                continue
            if not isinstance(outcome, ZenitError):
                raise outcome
            log.info("a broker does not tell its %s broker=%s error=%s", name, master, outcome)
            errors.append(outcome)
            if master in before:
                told[master] = before[master]
        if errors and not told:
            raise errors[0]
        self._told[name] = told
        return [row for rows in told.values() for row in rows]


def _rows(payload: bytes, name: str) -> _Rows:
    """Raises RemoteProtocolError."""
    try:
        return [row for row in json.loads(payload)[name] if isinstance(row, dict)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RemoteProtocolError(f"what a broker tells of its {name} cannot be read") from error
