"""What heartbeats that a broker refuses leave in the log: a line a reason, not one a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.client.connection import membership as module
from zenitmq.client.connection.membership import Member, Membership
from zenitmq.model.errors import AccessDenied, BrokerBusy, ZenitError
from zenitmq.remoting.commands import Heartbeat, HeartbeatReply

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
