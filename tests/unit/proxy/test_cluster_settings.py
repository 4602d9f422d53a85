"""What a proxy knows of topics and groups: what was made since it looked is looked for again, but not at each request."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from zenitmq.model.errors import ConnectionLost
from zenitmq.proxy.back import cluster_settings, recent_answers
from zenitmq.proxy.back.cluster_settings import KNOWN_MS, UNSEEN_MS, ClusterSettings
from zenitmq.proxy.back.group_rules import GroupRules
from zenitmq.remoting.commands import GetTopics

LATE_MS = 1 << 40


class Backend:
    """Two masters, which know the same; `asked` counts requests."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, str]] = {}
        self.groups: dict[str, dict[str, int]] = {}
        self.asked = 0
        self.dead: set[str] = set()
        self.only: dict[str, str] = {}  # {topic: the master that alone has it}

    async def masters(self, *, deadline_ms: int) -> dict[str, str]:
        return {"a": "", "b": ""}

    async def call_master(self, name: str, request: Any, *, deadline_ms: int) -> tuple[None, bytes]:
        self.asked += 1
        if name in self.dead:
            raise ConnectionLost(name)
        kind, rows = ("topics", self.topics) if isinstance(request, GetTopics) else ("groups", self.groups)
        return None, json.dumps(
            {
                kind: [
                    {"name": key, "attributes": value}
                    for key, value in rows.items()
                    if self.only.get(key, name) == name
                ]
            }
        ).encode()


def test_what_was_made_since_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1000
    monkeypatch.setattr(recent_answers, "monotonic_ms", lambda: now_ms)
    backend = Backend()

    async def work() -> None:
        nonlocal now_ms
        settings = ClusterSettings(cast(Any, backend))
        backend.topics["plain"] = {}
        assert await settings.topic_type("plain", deadline_ms=LATE_MS) == "UNSPECIFIED"
        assert await settings.group("g", deadline_ms=LATE_MS) == GroupRules()
        backend.topics["lite"] = {"message.type": "LITE"}
        backend.groups["g"] = {"retryMaxTimes": 1}
        for _ in range(5):
            assert await settings.topic_type("lite", deadline_ms=LATE_MS) == "UNSPECIFIED"
        assert backend.asked == 4
        now_ms += UNSEEN_MS
        assert await settings.topic_type("lite", deadline_ms=LATE_MS) == "LITE"
        assert (await settings.group("g", deadline_ms=LATE_MS)).retries_max == 1
        assert backend.asked == 8
        now_ms += KNOWN_MS - 1
        await settings.topic_type("plain", deadline_ms=LATE_MS)
        assert backend.asked == 8

    asyncio.run(work())


def test_what_a_broker_told_counts_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on telling; one that was never heard is left out; where none tells, all is as it was."""
    now_ms = 1000
    for module in (recent_answers, cluster_settings):
        monkeypatch.setattr(module, "monotonic_ms", lambda: now_ms)
    backend = Backend()
    backend.topics = {
        name: {"message.type": kind} for name, kind in (("of a", "FIFO"), ("of b", "LITE"), ("all", "DELAY"))
    }
    backend.only = {"of a": "a", "of b": "b"}

    async def work() -> None:
        nonlocal now_ms
        backend.dead = {"b"}
        settings = ClusterSettings(cast(Any, backend))

        async def types() -> list[str]:
            return [await settings.topic_type(name, deadline_ms=LATE_MS) for name in backend.topics]

        assert await types() == ["FIFO", "UNSPECIFIED", "DELAY"]
        backend.dead = {"a"}
        now_ms += KNOWN_MS
        assert await types() == ["FIFO", "LITE", "DELAY"]
        backend.dead = {"a", "b"}
        now_ms += KNOWN_MS
        assert await types() == ["FIFO", "LITE", "DELAY"]
        with pytest.raises(ConnectionLost):
            await settings.group("g", deadline_ms=now_ms + 1_000)
        backend.dead.clear()
        backend.groups = {"of a": {}, "of both": {}}
        assert await settings.brokers_of("of a", deadline_ms=LATE_MS) == ["a"]
        assert await settings.brokers_of("of both", deadline_ms=LATE_MS) == ["a", "b"]
        assert await settings.brokers_of("of none", deadline_ms=LATE_MS) == []

    asyncio.run(work())
