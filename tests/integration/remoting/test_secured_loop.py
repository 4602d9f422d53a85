"""A request loop behind a door: who comes in, who may ask for what, and what becomes of those whose rights are taken away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock, monotonic_ms
from zenitmq.model.errors import (
    AccessDenied,
    AuthenticationFailed,
    BrokerBusy,
    ConnectionLost,
    HandshakeFailed,
    RequestTimeout,
    UnknownRequest,
)
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Binding, Match, Rule, RuleEffect, User, UserKind, UserLimits
from zenitmq.model.security.rights import Action, Resource
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetClusterInfo, GetMaxOffset, GetRoute, OffsetReply, PullMessages
from zenitmq.remoting.security import curve_socket
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.door import Door
from zenitmq.remoting.security.guard import Refusal
from zenitmq.remoting.security.key_ring import KeyRing
from zenitmq.remoting.server import Call, RequestLoop

SERVER, READER, STRANGER = new_key_pair(), new_key_pair(), new_key_pair()
MAY_SEE = Rule(RuleEffect.ALLOW, frozenset({Action.GET}), Resource.TOPIC, Match.LITERAL, "t")
MAY_READ = Rule(RuleEffect.ALLOW, frozenset({Action.SUB}), None, Match.ANY, "")
MAY_READ_HERE = replace(MAY_READ, addresses=("127.0.0.0/8",))
MAY_READ_ELSEWHERE = replace(MAY_READ, addresses=("10.0.0.0/8",))


def table(*rules: Rule, disabled: bool = False, key: str = READER.public) -> AccessTable:
    users = [User("reader", (key,), rules=rules, disabled=disabled), User("visitor", (), rules=(MAY_SEE,))]
    return AccessTable(users, ())


class Served:
    """A loop with a door, in a thread of its own."""

    def __init__(self, opened: ExitStack, access: AccessTable, **options: Any) -> None:
        clock = SystemClock()
        self.door = opened.enter_context(Door(SERVER, access, clock, **options))
        arena = Arena(drain_bytes=1 << 16, frame_bytes_max=1 << 16)
        self.loop = opened.enter_context(RequestLoop(bind="127.0.0.1:0", arena=arena, clock=clock, door=self.door))
        self.users: list[str] = []
        self.loop.handle(GetMaxOffset, self._on_offset)
        self.parked = threading.Semaphore(
            0
        )  # released for each pull that waits; a query of another lane may overtake it
        self.loop.handle(PullMessages, self._on_pull)
        thread = threading.Thread(target=self.loop.run)
        thread.start()
        opened.callback(thread.join)
        opened.callback(self.loop.stop)

    def _on_offset(self, call: Call[GetMaxOffset]) -> OffsetReply:
        self.users.append(call.user)
        return OffsetReply(7)

    def _on_pull(self, _: Call[PullMessages]) -> None:
        self.parked.release()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def client_of(opened: ExitStack, served: Served, pair: Any, *, server_key: str = SERVER.public) -> RemotingClient:
    keys = KeyRing(pair, {served.loop.address: (server_key,)}) if pair is not None else None
    return opened.enter_context(RemotingClient(keys=keys))


def ask(client: RemotingClient, address: str, topic: str = "t", *, timeout_ms: int = 3000) -> OffsetReply:
    return client.call(address, GetMaxOffset(topic, 0), timeout_ms=timeout_ms)[0]


def ask_often(client: RemotingClient, address: str, times: int) -> None:
    for _ in range(times):
        ask(client, address)


def test_a_known_user_may_do_what_its_rules_say(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE))
    client = client_of(opened, served, READER)
    assert ask(client, served.loop.address) == OffsetReply(7)
    assert served.users == ["reader"]
    for topic in ("other", "unknown"):
        with pytest.raises(AccessDenied, match=f"'reader' may not get on topic:{topic}"):
            ask(client, served.loop.address, topic)
    assert served.loop.statistics().denied == 2


def test_who_is_not_known_is_told_so_within_a_second_and_gets_in_once_granted(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE))
    client = client_of(opened, served, STRANGER)
    for _ in range(2):
        began_ms = monotonic_ms()
        with pytest.raises(AuthenticationFailed, match="does not know the key"):
            ask(client, served.loop.address)
        assert monotonic_ms() - began_ms < 1000
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE, key=STRANGER.public)))
    deadline_ms = monotonic_ms() + 5000
    while True:
        try:
            assert ask(client, served.loop.address) == OffsetReply(7)
            return
        except AuthenticationFailed:
            assert monotonic_ms() < deadline_ms


def test_a_refusal_is_noted_with_where_it_came_from(opened: ExitStack) -> None:
    """Also where no rule asks for the address of senders."""
    served = Served(opened, table(MAY_SEE))
    noted: list[Refusal] = []
    served.door.on_denied = noted.append
    with pytest.raises(AccessDenied):
        ask(client_of(opened, served, READER), served.loop.address, "other")
    assert [(each.user, each.address) for each in noted] == [("reader", "127.0.0.1")]


def test_while_a_server_learns_its_users_a_strange_key_waits(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that had just restarted refused users whom it learnt within a second."""
    served = Served(opened, table(MAY_SEE))
    learning, asked = threading.Event(), threading.Event()
    learning.set()

    def is_learning() -> bool:
        asked.set()
        return learning.is_set()

    served.door.doorkeeper.is_learning = is_learning
    client, answers = client_of(opened, served, STRANGER), []
    asking = threading.Thread(target=lambda: answers.append(ask(client, served.loop.address)))
    asking.start()
    assert asked.wait(5)
    assert ask(client_of(opened, served, READER), served.loop.address) == OffsetReply(7)
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE, key=STRANGER.public)))
    served.loop.post(learning.clear)
    asking.join(5)
    assert answers == [OffsetReply(7)]
    learning.set()
    monkeypatch.setattr(curve_socket, "LEARNING_MS", 50)
    began_ms = monotonic_ms()
    with pytest.raises(AuthenticationFailed):
        ask(client_of(opened, served, new_key_pair()), served.loop.address)
    assert 50 <= monotonic_ms() - began_ms < 1000


@pytest.mark.parametrize("how", ["without a key", "a key, but another server's"])
def test_a_handshake_that_fails_says_what_may_be_wrong(opened: ExitStack, how: str) -> None:
    served = Served(opened, table(MAY_SEE))
    if how == "without a key":
        client, match = client_of(opened, served, None), r"does it want a key\?"
    else:
        client, match = client_of(opened, served, READER, server_key=STRANGER.public), "its public key is another one"
    with pytest.raises(HandshakeFailed, match=match):
        ask(client, served.loop.address)


def parked(client: RemotingClient, served: Served) -> tuple[list[Any], threading.Event]:
    """A pull that waits in the loop: its errors, and what is set once it has its answer."""
    errors: list[Any] = []
    told = threading.Event()

    def on_reply(_: Any, __: bytes, error: Any) -> None:
        errors.append(error)
        told.set()

    pull = PullMessages("g", "t", 0, 0, 1, 1, 60_000)
    client.send_nowait(served.loop.address, pull, None, timeout_ms=60_000, on_reply=on_reply)
    assert served.parked.acquire(timeout=5)
    return errors, told


def test_a_revoked_user_is_refused_at_the_next_request_and_what_waits_ends(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE, MAY_READ))
    client = client_of(opened, served, READER)
    assert ask(client, served.loop.address) == OffsetReply(7)
    errors, told = parked(client, served)
    served.loop.post(lambda: served.loop.set_access(table(disabled=True)))
    assert told.wait(5)
    assert isinstance(errors[0], AccessDenied)
    with pytest.raises(AccessDenied):
        ask(client, served.loop.address)


def test_a_right_that_is_taken_away_ends_only_what_needs_it(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE, MAY_READ))
    client = client_of(opened, served, READER)
    errors, told = parked(client, served)
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE)))
    assert told.wait(5)
    assert isinstance(errors[0], AccessDenied)
    assert ask(client, served.loop.address) == OffsetReply(7)


def test_what_waits_by_a_rule_with_addresses_waits_on_when_other_users_change(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE, MAY_READ_HERE))
    client = client_of(opened, served, READER)
    errors, told = parked(client, served)
    assert ask(client, served.loop.address) == OffsetReply(7)
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE, MAY_READ_HERE)))
    assert ask(client, served.loop.address) == OffsetReply(7)
    assert errors == []
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE, MAY_READ_ELSEWHERE)))
    assert told.wait(5)
    assert isinstance(errors[0], AccessDenied)


def test_what_came_before_a_rule_asked_from_where_is_asked_again(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE, MAY_READ))
    client = client_of(opened, served, READER)
    errors, told = parked(client, served)
    assert ask(client, served.loop.address) == OffsetReply(7)
    served.loop.post(lambda: served.loop.set_access(table(MAY_SEE, MAY_READ_HERE)))
    assert told.wait(5)
    assert isinstance(errors[0], BrokerBusy)


def test_a_refusal_that_cannot_be_told_closes_the_door_to_nobody_else(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE))
    served.door.security.on_refused = lambda *_: 1 / 0
    with pytest.raises(AuthenticationFailed):
        ask(client_of(opened, served, STRANGER), served.loop.address)
    assert ask(client_of(opened, served, READER), served.loop.address) == OffsetReply(7)


def test_a_handshake_that_failed_is_one_turn(opened: ExitStack) -> None:
    """Of the keys that a server may have the next one is tried, not the one after it."""
    served = Served(opened, table(MAY_SEE))
    keys = KeyRing(READER)
    keys.learn(
        [(served.loop.address, SERVER.public), (served.loop.address, STRANGER.public)]
    )  # the last is tried first
    client = opened.enter_context(RemotingClient(keys=keys))
    with pytest.raises(HandshakeFailed):
        ask(client, served.loop.address)
    assert ask(client, served.loop.address) == OffsetReply(7)


def test_who_takes_open_servers_finds_those_with_a_key_and_those_without(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE), open_bind="127.0.0.1:0", open_user="visitor")
    keys = KeyRing(READER)
    keys.takes_open = True
    client = opened.enter_context(RemotingClient(keys=keys))
    assert ask(client, served.loop.open_address) == OffsetReply(7)
    with pytest.raises(HandshakeFailed, match="does it want a key"):
        ask(client, served.loop.address)
    keys.learn([(served.loop.address, SERVER.public), (served.loop.open_address, SERVER.public)])
    assert ask(client, served.loop.address) == OffsetReply(7)
    assert served.users == ["visitor", "reader"]
    other = KeyRing(READER)
    other.takes_open = True
    other.learn([(served.loop.open_address, SERVER.public)])
    with_key_first = opened.enter_context(RemotingClient(keys=other))
    with pytest.raises(HandshakeFailed):
        ask(with_key_first, served.loop.open_address)
    assert ask(with_key_first, served.loop.open_address) == OffsetReply(7)


def test_servers_without_a_key_come_in_where_the_open_user_is_a_server(opened: ExitStack) -> None:
    anywhere = Binding("*", "*", "*")
    access = AccessTable([User("not-yet", (), UserKind.SERVER, binding=anywhere)], ())
    served = Served(opened, access, open_bind="127.0.0.1:0", open_user="not-yet")
    assert served.door.is_open_to_servers
    assert served.loop.told_port == int(served.loop.open_address.rpartition(":")[2]) != served.loop.port
    assert not Served(opened, table(MAY_SEE), open_bind="127.0.0.1:0", open_user="visitor").door.is_open_to_servers


def test_the_open_port_lets_in_who_has_no_key_as_one_user(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE), open_bind="127.0.0.1:0", open_user="visitor")
    client = client_of(opened, served, None)
    assert ask(client, served.loop.open_address) == OffsetReply(7)
    with pytest.raises(AccessDenied, match="'visitor' may not get on topic:x"):
        ask(client, served.loop.open_address, "x")
    assert served.users == ["visitor"]
    with pytest.raises(HandshakeFailed):
        ask(client, served.loop.address)
    keyed = client_of(opened, served, READER)
    assert ask(keyed, served.loop.address) == OffsetReply(7)


def test_too_many_handshakes_from_one_address_are_put_off(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE), handshakes_per_second=2)
    clients = [client_of(opened, served, READER) for _ in range(5)]
    lost = 0
    for client in clients:
        try:
            ask(client, served.loop.address, timeout_ms=500)
        except (ConnectionLost, RequestTimeout):
            lost += 1
    assert 1 <= lost <= 3
    assert served.door.doorkeeper.put_off >= lost


def test_a_super_user_may_ask_for_everything(opened: ExitStack) -> None:
    access = AccessTable([User("root", (READER.public,), UserKind.SUPER)], ())
    served = Served(opened, access)
    guard = served.door.guard
    assert guard.check(READER.public, "", GetClusterInfo()) is None
    assert guard.check(READER.public, "", GetRoute("anything")) is None
    assert ask(client_of(opened, served, READER), served.loop.address) == OffsetReply(7)


def test_a_user_over_its_limits_is_told_when_to_come_again(opened: ExitStack) -> None:
    limited = User("reader", (READER.public,), rules=(MAY_SEE,), limits=UserLimits(requests=3))
    served = Served(opened, AccessTable([limited, User("other", (STRANGER.public,), rules=(MAY_SEE,))], ()))
    client, other = client_of(opened, served, READER), client_of(opened, served, STRANGER)
    with pytest.raises(BrokerBusy) as busy:
        ask_often(client, served.loop.address, 20)
    assert 0 < busy.value.retry_after_ms <= 1000
    ask_often(other, served.loop.address, 20)


@pytest.mark.parametrize("first", [GetMaxOffset("other", 0), GetRoute("t")])
def test_what_is_refused_or_unknown_takes_from_the_limit_too(opened: ExitStack, first: Any) -> None:
    limited = User("reader", (READER.public,), rules=(MAY_SEE,), limits=UserLimits(requests=1))
    served = Served(opened, AccessTable([limited], ()))
    client = client_of(opened, served, READER)
    with pytest.raises((AccessDenied, UnknownRequest)):
        client.call(served.loop.address, first, timeout_ms=3000)
    for asked in (first, GetMaxOffset("t", 0)):
        with pytest.raises(BrokerBusy, match="the limits of user reader"):
            client.call(served.loop.address, asked, timeout_ms=3000)


def test_an_answer_costs_bytes_and_time(opened: ExitStack) -> None:
    limited = User("reader", (READER.public,), rules=(MAY_SEE,), limits=UserLimits(busy_ratio=0.001))
    served = Served(opened, AccessTable([limited], ()))
    client = client_of(opened, served, READER)
    with pytest.raises(BrokerBusy):
        ask_often(client, served.loop.address, 2000)


def test_the_largest_payload_comes_through_although_encryption_adds_to_its_frame(opened: ExitStack) -> None:
    served = Served(opened, table(MAY_SEE))
    client = client_of(opened, served, READER)
    request = GetMaxOffset("t", 0)
    assert client.call(served.loop.address, request, bytes(1 << 16), timeout_ms=3000)[0] == OffsetReply(7)
    with pytest.raises(ConnectionLost):
        client.call(served.loop.address, request, bytes((1 << 16) + 1), timeout_ms=3000)
