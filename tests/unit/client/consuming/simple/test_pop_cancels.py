"""A pop whose answer reaches nobody: its end goes the way that the pop went, so the broker does not hear of it first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.client.connection.connection import Connection
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.client.consuming.simple.division import Demand, PopTarget
from zenitmq.client.consuming.simple.receiving import Receiving
from zenitmq.client.consuming.simple.work import PopWork
from zenitmq.model.errors import RequestTimeout
from zenitmq.model.subscription import Subscription
from zenitmq.remoting.commands import CancelPop, PopMessages


class Waits:
    """Its call ends as the test says."""

    def __init__(self, end: BaseException) -> None:
        self.sent: list[Any] = []
        self._end = end

    async def call(self, address: str, request: Any, payload: Any = None, *, timeout_ms: int) -> Any:
        self.sent.append((address, request))
        raise self._end

    def oneway(self, address: str, request: Any) -> bool:
        self.sent.append((address, request))
        return True


@pytest.mark.parametrize("end", [asyncio.CancelledError(), RequestTimeout("PopMessages", 1)])
def test_the_end_of_a_pop_follows_it_on_its_connection(end: BaseException) -> None:
    waits = Waits(end)
    connection = SimpleNamespace(
        routes=SimpleNamespace(address_of=lambda *_: "a:1", refresh_soon=lambda _: None), remoting=None
    )
    work = PopWork(
        cast(Connection, connection),
        cast(Any, waits),
        "g",
        client_id="c",
        start_from=cast(Any, None),
        renews=False,
        is_ordered=False,
        timeout_ms=1000,
        on_ack_error=None,
    )
    receiving = Receiving(work, 1, 1000, 0)
    try:
        run_blocking(work.pop(receiving, Demand(PopTarget("t", "b"), 1, waits=False), Subscription("t")))
    except asyncio.CancelledError:
        assert end.__class__ is asyncio.CancelledError
    (to, popped), (also_to, cancelled) = waits.sent
    assert (to, also_to) == ("a:1", "a:1")
    assert isinstance(popped, PopMessages)
    assert cancelled == CancelPop("g", "c", popped.pop_id)
