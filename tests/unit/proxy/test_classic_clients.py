"""Clients of the classic protocol as a proxy holds them: by user, with what brokers took of what they said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from classic_kit import heartbeat

from zenitmq.model.errors import AccessDenied, BrokerBusy, InvalidParameter
from zenitmq.model.ids import HostAddress
from zenitmq.proxy.back.foreign_client import ForeignClient
from zenitmq.proxy.back.parts import Back
from zenitmq.proxy.classic import clients as clients_module
from zenitmq.proxy.classic.bodies import read_heartbeat
from zenitmq.proxy.classic.calls import BrokerPorts, ClassicCall
from zenitmq.proxy.classic.clients import ClassicClients
from zenitmq.proxy.classic.frames import ClassicFrame


class Brokers:
    """Takes heartbeats for all groups but those of `refused`, and for no producer group of `mute`, each as soon as
    `may_answer`."""

    def __init__(self, user: str, refused: str = "") -> None:
        self.user = user
        self.refused = refused
        self.mute: set[str] = set()
        self.asked = 0
        self.present: dict[str, ForeignClient] = {}
        self.goodbyes: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.presence = self

    async def join(self, client: ForeignClient, _listener: object) -> None:
        self.present[client.client_id] = client
        self.asked += 1
        await self.may_answer.wait()
        for group in client.producer_groups:
            if group in self.mute:
                raise AccessDenied(self.user, "pub", f"group:{group}")
        if any(group == self.refused for group, *_ in client.consumers):
            raise AccessDenied(self.user, "sub", f"group:{self.refused}")

    def lose(self, client_id: str, _listener: object) -> None:
        self.present.pop(client_id, None)

    async def leave(self, client_id: str, _listener: object) -> None:
        self.goodbyes.append(client_id)
        self.present.pop(client_id, None)

    def groups(self) -> dict[str, list[str]]:
        """{client id: its groups}."""
        return {name: [group for group, *_ in one.consumers] for name, one in self.present.items()}


class Link:
    peer = HostAddress(bytes(4), 1)

    def __init__(self) -> None:
        self.pushed: list[ClassicFrame] = []

    def push(self, frame: ClassicFrame) -> bool:
        """Taken."""
        self.pushed.append(frame)
        return True


def call_of(back: Brokers, link: Link) -> ClassicCall:
    fields = cast(Any, None)
    return ClassicCall(ClassicFrame(34, 1), fields, cast(Any, link), cast(Back, back), "", 0)


async def beat(clients: ClassicClients, back: Brokers, link: Link, client_id: str, group: str, tag: str = "*") -> None:
    body = heartbeat(client_id, group, "t", tag)
    call = call_of(back, link)
    call.frame.body = body
    await clients.heard(call, read_heartbeat(body))


def new_clients() -> ClassicClients:
    return ClassicClients(BrokerPorts("10.0.0.9", bytes(4), lambda _name: 1))


def wanted(clients: ClassicClients, user: str, group: str, link: Link) -> str | None:
    found = clients.subscription(user, group, "t", cast(Any, link))
    return None if found is None else str(found.expression)


def test_what_is_refused_counts_for_nobody() -> None:
    async def scene() -> None:
        clients, alice, bob = new_clients(), Brokers("alice"), Brokers("bob", refused="a")
        here, there = Link(), Link()
        await beat(clients, alice, here, "c", "a", "x")
        for client_id in ("c", "other"):
            with pytest.raises(AccessDenied):
                await beat(clients, bob, there, client_id, "a", "nothing")
        assert not bob.present
        assert not bob.goodbyes, "another process of bob's may have this id"
        assert wanted(clients, "alice", "a", there) == "x"
        assert wanted(clients, "bob", "a", there) is None
        await clients.closed(cast(Any, here))
        assert wanted(clients, "alice", "a", there) is None
        assert not len(clients)
        assert not alice.goodbyes, "it may live on at another proxy"

    asyncio.run(scene())


def test_a_member_whose_new_heartbeat_is_refused_stays_what_it_was() -> None:
    async def scene() -> None:
        clients, bob, link = new_clients(), Brokers("bob", refused="a"), Link()
        await beat(clients, bob, link, "c", "b", "x")
        with pytest.raises(AccessDenied):
            await beat(clients, bob, link, "c", "a")
        assert bob.groups() == {"c": ["b"]}
        assert wanted(clients, "bob", "b", link) == "x"

    asyncio.run(scene())


def test_who_leaves_is_gone_for_its_own_user_alone() -> None:
    async def scene() -> None:
        clients, alice, bob = new_clients(), Brokers("alice"), Brokers("bob")
        for back in (alice, bob):
            await beat(clients, back, Link(), "c", "g")
        await clients.left("bob", "c", "g", "g")
        assert (alice.groups(), bob.groups()) == ({"c": ["g"]}, {})
        assert (alice.goodbyes, bob.goodbyes) == ([], ["c"])
        assert clients.member("g", "c") is not None
        assert clients.member("g", "d") is None

    asyncio.run(scene())


def test_a_heartbeat_and_a_leave_at_a_time_are_done_one_after_the_other() -> None:
    async def scene() -> None:
        clients, back, link = new_clients(), Brokers("u"), Link()
        await beat(clients, back, link, "c", "g")
        back.may_answer.clear()
        tasks = [
            asyncio.create_task(beat(clients, back, link, "c", "g", "x")),
            asyncio.create_task(clients.left("u", "c", "g", "g")),
            asyncio.create_task(beat(clients, back, link, "c", "h")),
        ]
        await asyncio.sleep(0)
        back.may_answer.set()
        await asyncio.gather(*tasks)
        assert back.groups() == {"c": ["h"]}
        assert len(clients) == 1
        await clients.closed(cast(Any, link))
        assert not back.present

    asyncio.run(scene())


def test_an_id_has_bounds() -> None:
    with pytest.raises(InvalidParameter):
        asyncio.run(beat(new_clients(), Brokers("u"), Link(), "c" * 256, "g"))


def test_one_connection_has_few_clients_and_little_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        clients, back, link, other = new_clients(), Brokers("u", refused="no"), Link(), Link()
        monkeypatch.setattr(clients_module, "LINK_CLIENTS_MAX", 2)
        for number in range(5):
            with pytest.raises(AccessDenied):
                await beat(clients, back, link, f"refused-{number}", "no")
        for client_id in ("a", "b", "a"):
            await beat(clients, back, link, client_id, "g")
        with pytest.raises(InvalidParameter):
            await beat(clients, back, link, "c", "g")
        await clients.left("u", "a", "g", "g")
        await beat(clients, back, link, "c", "g")
        monkeypatch.setattr(clients_module, "LINK_BYTES_MAX", 1_000)
        with pytest.raises(InvalidParameter):
            await beat(clients, back, link, "c", "g", "x" * 900)
        await beat(clients, back, other, "d", "g", "x" * 700)
        monkeypatch.setattr(clients_module, "BYTES_MAX", 1_500)
        await beat(clients, back, other, "d", "g", "y" * 700)
        with pytest.raises(BrokerBusy):
            await beat(clients, back, Link(), "e", "g", "x" * 700)
        await clients.closed(cast(Any, other))
        await beat(clients, back, Link(), "e", "g", "x" * 700)
        monkeypatch.setattr(clients_module, "CLIENTS_MAX", 3)
        with pytest.raises(BrokerBusy):
            await beat(clients, back, Link(), "f", "g")

    asyncio.run(scene())


def test_who_joins_is_told_that_its_group_has_changed() -> None:
    """Java's lite pull consumer takes its queues when it hears so, and by itself after 20 s."""

    async def scene() -> None:
        clients, back, link = new_clients(), Brokers("u"), Link()
        for _ in range(2):
            await beat(clients, back, link, "c", "g")
        assert [(frame.code, frame.fields["consumerGroup"]) for frame in link.pushed] == [(40, "g")]
        await beat(clients, back, link, "c", "h")
        assert [frame.fields["consumerGroup"] for frame in link.pushed] == ["g", "h"]

    asyncio.run(scene())


def test_no_right_on_a_producer_group_keeps_a_client_out_of_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, and asked for again after a while."""

    async def scene() -> None:
        clients, back, link = new_clients(), Brokers("u"), Link()
        monkeypatch.setattr(clients_module, "LEFT_OUT_MAX", 2)
        back.mute = {f"p{number}" for number in range(5)}
        call = call_of(back, link)
        said = read_heartbeat(heartbeat("c", "g", "t"))
        said = replace(said, producer_groups=("p0", "mine", "p1"))
        await clients.heard(call, said)
        assert back.present["c"].producer_groups == ("mine",)
        assert back.groups() == {"c": ["g"]}
        asked = back.asked
        await clients.heard(call, said)
        assert back.asked == asked + 1
        monkeypatch.setattr(clients_module, "monotonic_ms", lambda: 1 << 60)
        await clients.heard(call, said)
        assert back.asked == asked + 4
        back.mute.discard("p1")
        monkeypatch.setattr(clients_module, "monotonic_ms", lambda: 1 << 61)
        await clients.heard(call, said)
        assert back.present["c"].producer_groups == ("mine", "p1")
        monkeypatch.setattr(clients_module, "monotonic_ms", lambda: 1 << 62)
        await clients.heard(call, replace(said, producer_groups=tuple(sorted(back.mute)), consumers=()))
        assert back.present["c"].producer_groups == ()

    asyncio.run(scene())
