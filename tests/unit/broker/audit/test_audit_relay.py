"""What a slave noted reaches its master once, whatever is lost on the way, and waits while there is none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from zenitmq.broker.audit import audit_log
from zenitmq.broker.audit.audit_log import ENTRY_CHARACTERS_MAX, AuditLog, decode_entry, encode_entry
from zenitmq.broker.audit.audit_relay import ENTRIES_MAX, GIVE_UP_MS, PAUSE_MS, AuditReceiver, AuditRelay
from zenitmq.model.errors import BrokerBusy, InvalidParameter, RequestTimeout, ZenitError
from zenitmq.remoting.commands import DeleteTopic, TellAudit

NOW_MS = 1_700_000_000_000


class Net:
    """The clock, the loop and the client of a slave, and its way to a master that may fail."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.lives: dict[str, AuditReceiver] = {}
        self.fate: Callable[[], str] = lambda: "works"
        self.sent = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def post(self, callback: Callable[[], None]) -> None:
        callback()

    def send_nowait(self, address: str, request: TellAudit, _: None, *, timeout_ms: int, on_reply: Any) -> None:
        self.sent += 1
        fate = self.fate()
        if fate == "unsent":
            raise RequestTimeout(address, timeout_ms)
        error: ZenitError | None = None
        if fate != "lost":
            try:
                self.lives[address].on_tell(cast(Any, type("Call", (), {"request": request})))
            except ZenitError as refused:
                error = refused
        if fate == "answer lost":
            error = RequestTimeout(address, timeout_ms)
        if fate not in ("lost", "silent"):
            on_reply(None, b"", error)


def relay(net: Net, log: AuditLog, master: Callable[[], str] = lambda: "a") -> AuditRelay:
    return AuditRelay(log, cast(Any, net), cast(Any, net), cast(Any, net), broker_name="g", replica="s", master=master)


def note(log: AuditLog, user: str) -> None:
    log.on_change(NOW_MS, user, DeleteTopic("t"), None, "accepted")


def users(log: AuditLog) -> list[str]:
    return [entry.get("user", "") for entry in log.take(10_000)]


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_reaches_the_master_once(seed: int) -> None:
    chosen, net, log, kept = random.Random(seed), Net(), AuditLog(), AuditLog()
    net.lives["a"] = AuditReceiver(kept)
    net.fate = lambda: chosen.choice(["works", "works", "unsent", "lost", "silent", "answer lost"])
    slave, told, twice = relay(net, log), 0, 0
    for _ in range(200):
        for _ in range(chosen.randrange(4)):
            note(log, f"u{told}")
            told += 1
        slave.on_tick()
        net.now_ms += chosen.choice([100, GIVE_UP_MS])
        if chosen.random() < 0.1:  # it was master for a moment, and wrote what it had itself
            own = slave.end()
            twice += len(own)  # at most: another master may have taken them
            kept.on_told(own)
    net.fate = lambda: "works"
    for _ in range(1 + told // ENTRIES_MAX + 1):
        net.now_ms += GIVE_UP_MS
        slave.on_tick()
    found = users(kept)
    assert set(found) == {f"u{number}" for number in range(told)}
    assert len(found) - told <= twice


def test_entries_wait_for_a_master_and_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "PENDING_MAX", 3)
    net, log, kept, master = Net(), AuditLog(), AuditLog(), [""]
    net.lives["a"] = AuditReceiver(kept)
    slave = relay(net, log, lambda: master[0])
    slave.on_tick()
    for name in "abcde":
        note(log, name)
    slave.on_tick()
    assert not net.sent
    master[0] = "a"
    note(kept, "own")
    slave.on_tick()  # four and the count of those dropped have no room
    assert users(kept) == ["own"]
    slave.on_tick()
    assert net.sent == 1  # it pauses
    monkeypatch.setattr(audit_log, "PENDING_MAX", 9)
    net.now_ms += PAUSE_MS
    slave.on_tick()
    entries = kept.take(9)
    assert [entry["user"] for entry in entries] == ["a", "b", "c", ""]
    assert entries[-1]["count"] == 2
    assert all(entry["replica"] == "s" for entry in entries)


def test_another_life_of_the_slave_begins_anew() -> None:
    net, kept = Net(), AuditLog()
    net.lives["a"] = AuditReceiver(kept)
    for name in "ab":
        log = AuditLog()
        slave = relay(net, log)
        note(log, name)
        slave.on_tick()
    assert users(kept) == ["a", "b"]


def test_a_request_holds_no_more_than_it_may() -> None:
    net, log, kept = Net(), AuditLog(), AuditLog()
    net.lives["a"] = AuditReceiver(kept)
    slave = relay(net, log)
    for number in range(20):
        log.on_change(NOW_MS, f"u{number}", DeleteTopic("t" * 4000), {str(at): "b" * 400 for at in range(60)}, "ok")
    slave.on_tick()
    assert 0 < len(kept) < 20
    for _ in range(20):
        slave.on_tick()
    assert users(kept) == [f"u{number}" for number in range(20)]


def test_what_is_too_long_is_measured() -> None:
    entry = {"kind": "change", "user": "u", "fields": {"row": "x"}, "before": "y" * ENTRY_CHARACTERS_MAX}
    text = encode_entry(entry)
    assert json.loads(text)["before"] == f"({ENTRY_CHARACTERS_MAX + 2} characters)"
    assert decode_entry(text)["user"] == "u"


def test_what_is_no_entry_is_refused() -> None:
    log = AuditLog()
    receiver = AuditReceiver(log)
    long = '{"kind": "' + "x" * ENTRY_CHARACTERS_MAX + '"}'
    for wrong in ("", "1", "[]", "{}", '{"kind": 1}', '{"kind": "dropped", "count": "x"}', "[" * 10_000, long):
        request = TellAudit("g", "s", "l", 0, ('{"kind": "login"}', wrong))
        with pytest.raises(InvalidParameter):
            receiver.on_tell(cast(Any, type("Call", (), {"request": request})))
    for request in (
        TellAudit("g", "s", "l", 0, ('{"kind": "login"}',) * (ENTRIES_MAX + 1)),
        TellAudit("g", "s", "l" * 100, 0, ()),
        TellAudit("g", "s", "l", -1, ()),
    ):
        with pytest.raises(InvalidParameter):
            receiver.on_tell(cast(Any, type("Call", (), {"request": request})))
    assert not len(log)


def test_a_full_audit_takes_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "PENDING_MAX", 1)
    log = AuditLog()
    receiver = AuditReceiver(log)
    request = TellAudit("g", "s", "l", 0, ('{"kind": "login"}',) * 2)
    with pytest.raises(BrokerBusy):
        receiver.on_tell(cast(Any, type("Call", (), {"request": request})))
    assert not len(log)
