"""Acknowledgements of several calls: those of one turn of the event loop travel together, and each call has its own outcome."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.client.consuming.simple.lease import Lease, LeasedPart
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import LeaseExpired
from zenitmq.proxy.back.acks import Acks
from zenitmq.proxy.back.backend import Backend
from zenitmq.remoting.commands import AckReply


class PlayedRemoting:
    """Takes acknowledgements, but for that of a part that is named "old"."""

    def __init__(self) -> None:
        self.requests: list[tuple[tuple[str, int], ...]] = []

    def loop_channels(self, *_: object) -> None:
        """None of its own."""

    def send_nowait(self, _address: str, request: Any, _payload: None, *, timeout_ms: int, on_reply: Any) -> None:
        assert timeout_ms > 0
        self.requests.append(request.acks)
        rows = tuple(
            (LeaseExpired.code, '["trades", 0, 7]') if handle == "old" else (0, "") for handle, _ in request.acks
        )
        on_reply(AckReply(rows), b"", None)


def test_acknowledgements_of_one_turn_travel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def lease(group: str, handle: str) -> Lease:
        part, _, index = handle.partition(":")
        return Lease(LeasedPart(group, "broker-a", "trades", part, monotonic_ms() + 10_000), int(index))

    async def run() -> None:
        monkeypatch.setattr(Acks, "_lease", staticmethod(lease))
        remoting = PlayedRemoting()
        routes = SimpleNamespace(cached=lambda _: object(), address_of=lambda *_: "127.0.0.1:1")
        loop = asyncio.get_running_loop()
        backend = SimpleNamespace(
            connection=SimpleNamespace(routes=routes, remoting=remoting), waits=SimpleNamespace(post=loop.call_soon)
        )
        acks = Acks(cast(Backend, backend))
        deadline_ms = monotonic_ms() + 5_000
        calls = [
            acks.ack("desk", [handle], deadline_ms=deadline_ms) for handle in ("a:0", "a:1", "old:0", "b:3", "b:2")
        ]
        outcomes = [one for (one,) in await asyncio.gather(*calls)]
        assert isinstance(outcomes.pop(2), LeaseExpired)
        assert outcomes == [None] * 4
        assert [dict(request) for request in remoting.requests] == [{"a": 3, "old": 1, "b": 12}]

    asyncio.run(run())
