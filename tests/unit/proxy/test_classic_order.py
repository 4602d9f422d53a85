"""Sends of one connection, which it pipelines: their order, though something must be asked before the first one goes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from zenitmq.client.sending.target import GivenQueue, Target
from zenitmq.model.ids import HostAddress
from zenitmq.model.queue import MessageQueue
from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.back.method_counts import MethodCounts
from zenitmq.proxy.back.ready_message import ReadyMessage, Stored
from zenitmq.proxy.back.send_turns import SendTurn
from zenitmq.proxy.classic.calls import BrokerPorts, ClassicLink
from zenitmq.proxy.classic.codes import ClassicCode
from zenitmq.proxy.classic.frames import ClassicFrame
from zenitmq.proxy.classic.requests import ClassicRequests
from zenitmq.proxy.config import ProxyLimits

ROUTE = SimpleNamespace(queues=(SimpleNamespace(broker_name="broker-a"),))


class PlayedCluster:
    """Its only route is known once `found`: at once to who asks then, some turns of the loop later to who had asked before."""

    def __init__(self) -> None:
        self.found = asyncio.Event()
        self.sent: list[bytes] = []
        self.back = SimpleNamespace(user="", backend=self, sends=self)

    def is_routed(self, _topic: str) -> bool:
        return self.found.is_set()

    async def route(self, _topic: str, *, deadline_ms: int) -> Any:
        if not self.found.is_set():
            await self.found.wait()
            for _ in range(3):
                await asyncio.sleep(0)
        return ROUTE

    async def of(self, _key: str, signature: str, _signed: bytes, **_: object) -> Any:
        for _ in range(10 - int(signature)):  # who comes first hears last
            await asyncio.sleep(0)
        return self.back

    async def send(
        self, message: ReadyMessage, target: Target | None, *, deadline_ms: int, turn: SendTurn | None
    ) -> Stored:
        assert target == GivenQueue("broker-a", 0)
        if turn is not None:
            await turn.reached(deadline_ms=deadline_ms)
            turn.leave()
        self.sent.append(message.body)
        return Stored("ID", MessageQueue("trades", "broker-a", 0), len(self.sent), 0, bytes(8))


class Link:
    peer = HostAddress(bytes(4), 1)


def frame(number: int) -> ClassicFrame:
    fields = {"b": "trades", "e": "0", "AccessKey": "shop", "Signature": str(number)}
    return ClassicFrame(ClassicCode.SEND_MESSAGE_V2, number, fields=fields, body=b"%d" % number)


def requests_of(cluster: PlayedCluster, *, is_secured: bool) -> ClassicRequests:
    backs = SimpleNamespace(
        of_all=None if is_secured else cluster.back, of=cluster.of, remoting_counts=MethodCounts("remoting")
    )
    ports = BrokerPorts("10.0.0.9", bytes(4), lambda _name: 1)
    return ClassicRequests(cast(Backs, backs), ports, ProxyLimits())


def test_who_comes_when_the_route_has_just_been_found_overtakes_nobody() -> None:
    async def work() -> None:
        cluster, link = PlayedCluster(), cast(ClassicLink, Link())
        requests = requests_of(cluster, is_secured=False)
        sends = [asyncio.create_task(requests.answer(frame(number), link, "")) for number in range(3)]
        await asyncio.sleep(0)
        cluster.found.set()
        sends += [asyncio.create_task(requests.answer(frame(number), link, "")) for number in range(3, 6)]
        assert {answer.code for answer in await asyncio.gather(*sends)} == {0}
        assert cluster.sent == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert (await requests.answer(frame(6), link, "")).code == 0
        assert not len(requests._turns)

    asyncio.run(work())


def test_who_signed_is_heard_in_any_order() -> None:
    async def work() -> None:
        cluster, link = PlayedCluster(), cast(ClassicLink, Link())
        cluster.found.set()
        requests = requests_of(cluster, is_secured=True)
        sends = [requests.answer(frame(number), link, "") for number in range(5)]
        assert {answer.code for answer in await asyncio.gather(*sends)} == {0}
        assert cluster.sent == [b"0", b"1", b"2", b"3", b"4"]
        assert not len(requests._turns)

    asyncio.run(work())
