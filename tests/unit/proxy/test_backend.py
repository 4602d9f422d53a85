"""Requests of a proxy to brokers: what nobody can answer is told at once, what is away for a while is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import NoRoute
from zenitmq.proxy.back import backs as backs_module
from zenitmq.proxy.back.backend import Backend
from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.config import ProxyConfig
from zenitmq.remoting.commands import GetTopics

SOON_MS = 5_000


class PlayedCluster:
    """One name server. `masters`, `replicas`: broker names; `asked`: how often it told of them."""

    def __init__(self) -> None:
        self.masters, self.replicas = {"a"}, {"b"}
        self.asked = 0
        routes = SimpleNamespace(
            cached=lambda _topic: SimpleNamespace(),
            address_of=self._address_of,
            refresh_soon=lambda _topic: None,
            document_of_ours=lambda document: document,
        )
        self.backend = Backend(cast(Any, SimpleNamespace(routes=routes)), cast(Any, self))
        self.backend.cluster = self._cluster  # type: ignore[method-assign]

    def _address_of(self, topic: str, broker_name: str) -> str:
        if broker_name in self.masters:
            return broker_name
        raise NoRoute(topic, f"{broker_name} has no master now")

    async def _cluster(self, *, deadline_ms: int) -> dict[str, Any]:
        self.asked += 1
        rows = [(name, 0) for name in self.masters] + [(name, 1) for name in self.replicas]
        return {"brokers": [{"broker_name": name, "address": name, "broker_id": number} for name, number in rows]}

    async def call(self, address: str, request: Any, payload: Any, *, timeout_ms: int) -> Any:
        return address, b""

    async def sleep(self, delay_ms: int) -> None:
        self.masters |= self.replicas  # one becomes the master meanwhile
        self.backend._masters.forget("")


def run(work: Callable[[PlayedCluster], Awaitable[None]]) -> None:
    async def within() -> None:
        await work(PlayedCluster())

    asyncio.run(within())


def test_a_broker_that_nobody_knows_is_told_at_once() -> None:
    """And the name server is not asked each time."""

    async def work(cluster: PlayedCluster) -> None:
        begun_ms = monotonic_ms()
        for _ in range(5):
            with pytest.raises(NoRoute, match="nobody"):
                await cluster.backend.call_master("nobody", GetTopics(), deadline_ms=begun_ms + SOON_MS)
            with pytest.raises(NoRoute, match="nobody"):
                await cluster.backend.call("t", "nobody", GetTopics(), deadline_ms=begun_ms + SOON_MS)
        assert monotonic_ms() - begun_ms < 500
        assert cluster.asked == 1

    run(work)


def test_a_master_that_is_away_is_waited_for() -> None:
    async def work(cluster: PlayedCluster) -> None:
        assert (await cluster.backend.call_master("a", GetTopics(), deadline_ms=monotonic_ms() + SOON_MS))[0] == "a"
        assert (await cluster.backend.call_master("b", GetTopics(), deadline_ms=monotonic_ms() + SOON_MS))[0] == "b"

    run(work)


def test_a_look_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backs_module, "LOOK_S", 0.001)

    async def work() -> None:
        looks: list[int] = []
        is_enough = asyncio.Event()

        async def look() -> None:
            looks.append(1)
            if len(looks) == 3:
                is_enough.set()
            raise LookupError("a fault of ours")

        async with Backs(ProxyConfig()) as backs:
            monkeypatch.setattr(backs.own, "look", look)
            await asyncio.wait_for(is_enough.wait(), 5)

    asyncio.run(work())
