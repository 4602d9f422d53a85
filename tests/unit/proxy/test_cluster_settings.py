"""What a proxy knows of topics and groups: what was made since it looked is looked for again, but not at each request."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from zenitmq.proxy.back import recent_answers
from zenitmq.proxy.back.cluster_settings import KNOWN_MS, UNSEEN_MS, ClusterSettings
from zenitmq.proxy.back.group_rules import GroupRules
from zenitmq.remoting.commands import GetTopics


class Backend:
    """Two masters, which know the same; `asked` counts requests."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, str]] = {}
        self.groups: dict[str, dict[str, int]] = {}
        self.asked = 0

    async def masters(self, *, deadline_ms: int) -> dict[str, str]:
        return {"a": "", "b": ""}

    async def call_master(self, name: str, request: Any, *, deadline_ms: int) -> tuple[None, bytes]:
        self.asked += 1
        kind, rows = ("topics", self.topics) if isinstance(request, GetTopics) else ("groups", self.groups)
        return None, json.dumps({kind: [{"name": key, "attributes": value} for key, value in rows.items()]}).encode()


def test_what_was_made_since_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1000
    monkeypatch.setattr(recent_answers, "monotonic_ms", lambda: now_ms)
    backend = Backend()

    async def work() -> None:
        nonlocal now_ms
        settings = ClusterSettings(cast(Any, backend))
        backend.topics["plain"] = {}
        assert await settings.topic_type("plain", deadline_ms=9) == "UNSPECIFIED"
        assert await settings.group("g", deadline_ms=9) == GroupRules()
        backend.topics["lite"] = {"message.type": "LITE"}
        backend.groups["g"] = {"retryMaxTimes": 1}
        for _ in range(5):
            assert await settings.topic_type("lite", deadline_ms=9) == "UNSPECIFIED"
        assert backend.asked == 4
        now_ms += UNSEEN_MS
        assert await settings.topic_type("lite", deadline_ms=9) == "LITE"
        assert (await settings.group("g", deadline_ms=9)).retries_max == 1
        assert backend.asked == 8
        now_ms += KNOWN_MS - 1
        await settings.topic_type("plain", deadline_ms=9)
        assert backend.asked == 8

    asyncio.run(work())
