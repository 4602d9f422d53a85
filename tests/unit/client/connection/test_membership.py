"""What heartbeats that a broker refuses leave in the log: a line a reason, not one a second. How many are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.client.connection import membership as module
from zenitmq.client.connection.membership import Member, Membership
from zenitmq.model.errors import AccessDenied, BrokerBusy, UnknownRequest, ZenitError
from zenitmq.remoting.commands import Heartbeat, HeartbeatReply, KeepClients, KeepClientsReply

BROKER = "127.0.0.1:10911"
READS = Member("reader-1", consumer=("readers", "CLUSTERING", (("trades", "TAG", "*"),)))
SENDS = Member("sender-1", producer_group="senders")


class Remoting:
    """Answers each heartbeat at once, as `answers` of its client says; remembers the timer."""

    def __init__(self) -> None:
        self.answers: dict[str, ZenitError | None] = {}
        self.tick: Callable[[], None] = lambda: None

    def on_request(self, *_: object) -> None:
        """Nothing comes from this broker."""

    def on_lost(self, _: object) -> None:
        """This broker stays."""

    def every(self, _period_ms: int, tick: Callable[[], None]) -> None:
        self.tick = tick

    def send_nowait(self, _address: str, request: Heartbeat, _: None, *, timeout_ms: int, on_reply: Any) -> None:
        error = self.answers.get(request.client_id)
        on_reply(HeartbeatReply(1000) if error is None else None, b"", error)


@pytest.fixture
def remoting(monkeypatch: pytest.MonkeyPatch) -> Remoting:
    now = iter(range(0, 10**9, 10_000))
    monkeypatch.setattr(module, "monotonic_ms", lambda: next(now))  # each tick is due
    made = Remoting()
    members = Membership(made, lambda: {"broker-a": BROKER})  # type: ignore[arg-type]
    for member in (READS, SENDS):
        members.join(member)
    return made


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    caplog.clear()
    return found


def test_a_refusal_is_told_once_and_again_when_it_changes(remoting: Remoting, caplog: pytest.LogCaptureFixture) -> None:
    remoting.answers["reader-1"] = AccessDenied("billing", "sub", "group:readers")
    for _ in range(5):
        remoting.tick()
    (line,) = warnings(caplog)
    assert "client=reader-1" in line
    assert "may not sub on group:readers" in line

    remoting.answers["reader-1"] = AccessDenied("billing", "sub", "topic:trades")
    for _ in range(5):
        remoting.tick()
    (line,) = warnings(caplog)
    assert "topic:trades" in line


def test_who_was_taken_meanwhile_is_told_anew(remoting: Remoting, caplog: pytest.LogCaptureFixture) -> None:
    denied = AccessDenied("billing", "sub", "group:readers")
    for answer, told in ((denied, 1), (None, 0), (denied, 1), (BrokerBusy(10), 0), (denied, 0)):
        remoting.answers["reader-1"] = answer
        remoting.tick()
        assert len(warnings(caplog)) == told


def test_each_member_has_its_own_refusals(remoting: Remoting, caplog: pytest.LogCaptureFixture) -> None:
    for client_id in ("reader-1", "sender-1"):
        remoting.answers[client_id] = AccessDenied("billing", "sub", "group:readers")
    for _ in range(3):
        remoting.tick()
    assert len(warnings(caplog)) == 2


class CountingBroker(Remoting):
    """Takes heartbeats, many in one if `keeps`; counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.keeps = True
        self.known: set[str] = set()
        self.beats: list[str] = []
        self.kept: list[str] = []
        self.lose: Callable[[str], None] = lambda _: None

    def on_lost(self, lose: Any) -> None:
        self.lose = lose

    def send_nowait(
        self, _address: str, request: Heartbeat | KeepClients, _: None, *, timeout_ms: int, on_reply: Any
    ) -> None:
        if isinstance(request, Heartbeat):
            self.beats.append(request.client_id)
            self.known.add(request.client_id)
            on_reply(HeartbeatReply(1000), b"", None)
        elif self.keeps:
            self.kept += request.client_ids
            unknown = tuple(one for one in request.client_ids if one not in self.known)
            on_reply(KeepClientsReply(1000, unknown), b"", None)
        else:
            on_reply(None, b"", UnknownRequest(KeepClients.code))

    def told(self) -> tuple[list[str], list[str]]:
        """(whose own heartbeat came, who was kept) since the last call."""
        told = sorted(self.beats), sorted(self.kept)
        self.beats, self.kept = [], []
        return told


MANY = [Member(f"client-{number:02}", producer_group="senders") for number in range(20)]
IDS = [member.client_id for member in MANY]


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> tuple[CountingBroker, Membership]:
    now = iter(range(0, 10**9, 10_000))
    monkeypatch.setattr(module, "monotonic_ms", lambda: next(now))
    broker = CountingBroker()
    members = Membership(broker, lambda: {"broker-a": BROKER})  # type: ignore[arg-type]
    for member in MANY:
        members.join(member)
    return broker, members


def test_many_members_share_a_request_once_their_own_was_taken(crowd: tuple[CountingBroker, Membership]) -> None:
    broker, members = crowd
    broker.tick()
    assert broker.told() == (IDS, [])
    broker.tick()
    assert broker.told() == ([], IDS)
    members.join(Member(IDS[3], producer_group="others"))  # it says something else now
    broker.tick()
    assert broker.told() == ([IDS[3]], [one for one in IDS if one != IDS[3]])
    members.forget(IDS[0])
    broker.tick()
    assert broker.told() == ([], IDS[1:])


def test_whom_the_broker_has_forgotten_sends_a_heartbeat_again(crowd: tuple[CountingBroker, Membership]) -> None:
    broker, _ = crowd
    broker.tick()
    broker.known.remove(IDS[5])
    broker.told()
    broker.tick()
    assert broker.told() == ([IDS[5]], IDS)
    broker.tick()
    assert broker.told() == ([], IDS)
    broker.lose(BROKER)
    broker.tick()
    assert broker.told() == (IDS, [])


def test_a_broker_that_cannot_keep_many_gets_the_heartbeat_of_each(crowd: tuple[CountingBroker, Membership]) -> None:
    broker, members = crowd
    broker.keeps = False
    broker.tick()
    broker.tick()
    broker.told()
    for _ in range(2):
        broker.tick()
        assert broker.told() == (IDS, [])
    for client_id in IDS[10:]:
        members.forget(client_id)
    broker.keeps = True
    broker.lose(BROKER)
    for _ in range(2):
        broker.tick()
        assert broker.told() == (IDS[:10], [])  # few of them need none
