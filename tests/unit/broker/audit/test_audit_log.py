"""What the audit tells, and how it stays bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from zenitmq.broker.audit import audit_log
from zenitmq.broker.audit.audit_log import HOUR_MS, MINUTE_MS, TEXT_MAX, AuditLog, decode_entry, encode_entry, fields_of
from zenitmq.model.security.rights import Action, Resource, Right
from zenitmq.remoting.commands import CreateGroup, DeleteTopic, QueryMessages, ViewMessage
from zenitmq.remoting.security.guard import Refusal

NOW_MS = 1_700_000_000_000
REFUSAL = Refusal("k", "app", "10.0.0.1", "GetRoute", Right(Action.GET, Resource.TOPIC, "topic"), "orders", None)


def test_a_change_has_what_it_was_and_what_was_asked() -> None:
    log = AuditLog()
    log.on_change(NOW_MS, "root", DeleteTopic("orders"), {"perm": 6}, "accepted")
    (entry,) = log.take(10)
    assert json.loads(json.dumps(entry)) == {
        "at_ms": NOW_MS,
        "kind": "change",
        "user": "root",
        "request": "DeleteTopic",
        "fields": {"topic": "orders"},
        "before": {"perm": 6},
        "outcome": "accepted",
    }
    assert not len(log)


def test_the_first_refusal_of_a_minute_is_told_and_the_others_are_counted() -> None:
    log = AuditLog()
    for step in range(5):
        log.on_refused(NOW_MS + step, REFUSAL)
    log.on_refused(NOW_MS, replace(REFUSAL, name="trades"))
    assert [(entry["what"], entry["count"]) for entry in log.take(10)] == [
        ("get on topic:orders", 1),
        ("get on topic:trades", 1),
    ]
    log.on_tick(NOW_MS + MINUTE_MS - 1)
    assert not log.take(10)
    log.on_tick(NOW_MS + MINUTE_MS)
    assert [(entry["what"], entry["count"]) for entry in log.take(10)] == [("get on topic:orders", 4)]
    log.on_refused(NOW_MS + MINUTE_MS, replace(REFUSAL, right=None, name=""))
    log.on_refused(NOW_MS + MINUTE_MS, REFUSAL)
    log.on_refused(NOW_MS + 3 * MINUTE_MS, REFUSAL)
    assert [entry["count"] for entry in log.take(10)] == [1, 1, 1]


def test_a_login_is_told_once_an_hour() -> None:
    log = AuditLog()
    for at_ms in (0, 1, HOUR_MS - 1, HOUR_MS):
        log.on_login(NOW_MS + at_ms, "app", "k" * 40, "10.0.0.1")
    assert [entry["at_ms"] for entry in log.take(10)] == [NOW_MS, NOW_MS + HOUR_MS]


@pytest.mark.parametrize("back_ms", [1, HOUR_MS, 30 * 24 * HOUR_MS])
def test_a_clock_that_is_set_back_silences_nobody(back_ms: int) -> None:
    """A minute that has not begun yet would last until the clock is there again: for a month, if it was a month ahead."""
    log = AuditLog()
    for number in range(audit_log.TOLD_A_MINUTE):
        log.on_refused(NOW_MS, replace(REFUSAL, name=f"t-{number}"))
    log.on_login(NOW_MS, "app", "k" * 40, "10.0.0.1")
    log.take(1000)
    log.on_refused(NOW_MS - back_ms, replace(REFUSAL, name="t-0"))
    log.on_refused(NOW_MS - back_ms, replace(REFUSAL, name="new"))
    log.on_login(NOW_MS - back_ms, "app", "k" * 40, "10.0.0.2")
    told = log.take(1000)
    assert [entry.get("what", entry["kind"]) for entry in told] == ["get on topic:t-0", "get on topic:new", "login"]
    log = AuditLog()
    log.on_refused(NOW_MS, REFUSAL)
    log.on_refused(NOW_MS, REFUSAL)
    log.take(1000)
    log.on_tick(NOW_MS - back_ms)
    assert [entry["count"] for entry in log.take(10)] == [1]


def test_a_long_reason_is_cut() -> None:
    """An error may repeat what was asked; an entry that no broker writes would tell nobody of it."""
    log = AuditLog()
    log.on_change(NOW_MS, "root", DeleteTopic("orders"), None, "InvalidParameter: " + "x" * 100_000)
    (entry,) = log.take(1)
    assert len(entry["outcome"]) == TEXT_MAX
    decode_entry(encode_entry(entry))


def test_what_was_looked_up_is_told() -> None:
    log = AuditLog()
    request = QueryMessages("orders", "o-17")
    log.on_read(NOW_MS, "app", request)
    (entry,) = log.take(1)
    assert (entry["kind"], entry["fields"]["key"]) == ("read", "o-17")


def test_what_finds_no_room_is_counted_and_what_was_not_written_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "PENDING_MAX", 2)
    log = AuditLog()
    for name in "abcd":
        log.on_change(NOW_MS, name, DeleteTopic("t"), None, "accepted")
    taken = log.take(10)
    assert [entry.get("count", entry["user"]) for entry in taken] == ["a", "b", 2]
    log.give_back(taken)
    assert log.take(2) == taken[:2]
    assert log.take(2) == taken[2:]


def test_keys_and_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "LOGINS_MAX", 2)
    monkeypatch.setattr(audit_log, "REFUSALS_MAX", 2)
    log = AuditLog()
    for name in "abcd":
        log.on_login(NOW_MS, name, name * 40, "")
        log.on_refused(NOW_MS, replace(REFUSAL, name=name))
    assert [entry["user"] for entry in log.take(100) if entry["kind"] == "refusal"] == ["app", "app", audit_log.OTHERS]
    assert len(log._logins) == 2
    log.on_login(NOW_MS + HOUR_MS, "e", "e" * 40, "")
    assert len(log._logins) == 1


def test_large_fields_are_cut() -> None:
    fields = fields_of(CreateGroup("g" * (TEXT_MAX + 1), tuple((str(n), "v") for n in range(100))))
    assert fields["group"].endswith(f"... ({TEXT_MAX + 1} characters)")
    assert fields["attributes"][-1] == "... (100 in all)"


def test_who_asks_much_drives_nothing_out_of_the_audit() -> None:
    """100,000 entries are kept: a user who looked up a thousand messages a second had erased what it did in two minutes."""
    log = AuditLog()
    told: list[audit_log.Entry] = []
    for number in range(1000):
        log.on_read(NOW_MS + number, "app", ViewMessage(number))
        log.on_refused(NOW_MS + number, replace(REFUSAL, name=f"t{number}"))
        told += log.take(10)
    log.on_tick(NOW_MS + 2 * MINUTE_MS)
    told += log.take(10)
    for kind in ("read", "refusal"):
        of_kind = [entry for entry in told if entry["kind"] == kind]
        assert len(of_kind) == audit_log.TOLD_A_MINUTE + 2
        assert {entry["user"] for entry in of_kind} == {"app"}
        assert sum(entry.get("count", 1) for entry in of_kind) == 1000, "none is missing from the sum"
    log.on_read(NOW_MS + 2 * MINUTE_MS, "app", ViewMessage(1))
    assert [entry["request"] for entry in log.take(10)] == ["ViewMessage"]
    log.on_tick(NOW_MS + 4 * MINUTE_MS)
    assert not log._told
