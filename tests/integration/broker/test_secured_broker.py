"""A broker with keys: rights that change while it runs, what a user sees, and what the audit topic tells of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.broker.conftest import Served, record

from zenitmq.model.errors import (
    AccessDenied,
    AuthenticationFailed,
    DuplicateClient,
    HoldNotFound,
    InvalidParameter,
    NoPermission,
    SecurityRowNotFound,
    SecurityRowTrusted,
    TopicNotFound,
)
from zenitmq.model.names import AUDIT_TOPIC
from zenitmq.model.security.principals import Binding, RuleEffect, User, UserKind
from zenitmq.model.security.row_codec import encode_row, row_of
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.model.security.signatures import signature_of
from zenitmq.model.security.trusted_file import StaticRow, encode_trusted
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting import commands as c
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.key_file import KeyFile, write_key_file
from zenitmq.remoting.security.key_ring import KeyRing
from zenitmq.remoting.security.secret_keys import new_secret_key
from zenitmq.remoting.security.security_config import SecurityConfig

BROKER, ROOT, APP = new_key_pair(), new_key_pair(), new_key_pair()
TRUSTED = (
    StaticRow(User("node", (BROKER.public,), UserKind.SERVER, binding=Binding("*", "*", "*"))),
    StaticRow(User("root", (ROOT.public,), UserKind.SUPER)),
)
WAIT_S = 20


class Secured:
    """The broker, and a client for each user."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        write_key_file(str(directory / "broker.key"), KeyFile("node", BROKER, {}))
        self.trusted = directory / "trusted.toml"
        self.trusted.write_text(encode_trusted(TRUSTED))
        self.trusted.chmod(0o600)
        secrets_key = directory / "secrets.key"
        secrets_key.write_text(new_secret_key())
        secrets_key.chmod(0o600)
        security = SecurityConfig(
            key=str(directory / "broker.key"), trusted=str(self.trusted), secrets_key=str(secrets_key)
        )
        self.served = Served(directory / "store", security=security)
        opened.callback(self.served.close)
        keys = {self.served.address: (BROKER.public,)}
        self.clients = {
            name: opened.enter_context(RemotingClient(keys=KeyRing(pair, keys)))
            for name, pair in (("root", ROOT), ("app", APP))
        }

    def ask(self, user: str, request: Any, payload: bytes | None = None) -> Any:
        """The reply, or its document."""
        reply, body = self.clients[user].call(self.served.address, request, payload, timeout_ms=5000)
        return json.loads(body) if isinstance(reply, c.JsonReply) else reply

    def put(self, **fields: Any) -> None:
        self.ask("root", c.PutSecurityRow(encode_row(row_of(User("app", (APP.public,), **fields)))))

    def send(self, user: str, topic: str) -> None:
        self.ask(user, c.SendMessages(topic, 0, 1), record(topic))

    def audit(self) -> list[dict[str, Any]]:
        request = c.PullMessages(
            topic=AUDIT_TOPIC, queue_id=0, queue_offset=0, suspend_ms=0, group="g", max_messages=100, max_bytes=1 << 20
        )
        try:
            _, body = self.clients["root"].call(self.served.address, request, timeout_ms=5000)
        except TopicNotFound:  # made with the first entry
            return []
        return [json.loads(message.body) for message in decode_batch(body)]  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as opened:
        yield Secured(tmp_path_factory.mktemp("secured"), opened)


def eventually(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def test_rights_count_from_the_moment_they_are_given_to_when_they_are_taken(secured: Secured) -> None:
    for topic in ("orders", "trades"):
        secured.ask("root", c.CreateTopic(topic, 1, 1))
    with pytest.raises(AuthenticationFailed):
        secured.ask("app", c.GetTopics())
    told = [one for one in secured.ask("root", c.GetBrokerEvents())["events"] if one["event"] == "login_refused"]
    assert {(one["peer"], one["why"]) for one in told} == {("127.0.0.1", "the key is not known")}
    secured.put(rules=(parse_rule(RuleEffect.ALLOW, "pub", "topic:orders"),))
    eventually(lambda: is_let_in(secured))
    secured.send("app", "orders")
    with pytest.raises(AccessDenied, match="may not pub on topic:trades"):
        secured.send("app", "trades")
    events = secured.ask("root", c.GetBrokerEvents())["events"]
    (refused,) = [one for one in events if one["event"] == "right_refused"]
    assert (refused["user"], refused["resource"], refused["why"]) == ("app", "pub on topic:trades", "no rule allows it")
    changed = [(one["user"], one["by"], one["what"]) for one in events if one["event"] == "user_changed"]
    assert changed[-1] == ("app", "root", "created")
    assert [topic["name"] for topic in secured.ask("app", c.GetTopics())["topics"]] == ["orders"]
    assert {"orders", "trades"} <= {topic["name"] for topic in secured.ask("root", c.GetTopics())["topics"]}
    assert secured.ask("app", c.GetGroups())["groups"] == []
    for request in (c.GetSecurityRows(), c.PutSecurityRow("{}"), c.TakeSecurityRows(()), c.ExchangeSecurity((), ())):
        with pytest.raises(AccessDenied):
            secured.ask("app", request)
    secured.put(disabled=True)
    with pytest.raises((AccessDenied, AuthenticationFailed)):
        secured.send("app", "orders")


def is_let_in(secured: Secured) -> bool:
    try:
        return bool(secured.ask("app", c.GetTopics()))
    except AuthenticationFailed:
        return False


def test_the_audit_tells_changes_refusals_logins_and_lookups(secured: Secured) -> None:
    secured.put(rules=(parse_rule(RuleEffect.ALLOW, "pub", "topic:orders"),))
    eventually(lambda: is_let_in(secured))
    for _ in range(3):
        with pytest.raises(AccessDenied):
            secured.ask("app", c.DeleteTopic("audited"))
    secured.ask("root", c.CreateTopic("audited", 1, 1))
    secured.ask("root", c.DeleteTopic("audited"))
    secured.ask("root", c.QueryMessages("orders", "o-17"))
    entries = eventually(lambda: (found := secured.audit()) and found[-1]["kind"] == "read" and found)
    told = [entry for entry in entries if entry.get("fields", {}).get("topic") == "audited"]
    assert [(entry["user"], entry["request"], entry["outcome"]) for entry in told] == [
        ("root", "CreateTopic", "accepted"),
        ("root", "DeleteTopic", "accepted"),
    ]
    assert told[0]["before"] is None
    assert told[1]["before"]["topicName"] == "audited"
    assert [entry["count"] for entry in entries if entry.get("what") == "delete on topic:audited"] == [1]
    assert {entry["user"] for entry in entries if entry["kind"] == "login"} == {"root", "app"}
    assert any(
        entry["request"] == "PutSecurityRow" and entry["before"] for entry in entries if entry["kind"] == "change"
    )
    assert ROOT.secret not in json.dumps(entries)


def test_a_hold_is_its_users_and_ends_with_the_right(secured: Secured) -> None:
    may_read = parse_rule(RuleEffect.ALLOW, "sub", "topic:orders")
    secured.put(rules=(may_read,))
    eventually(lambda: is_let_in(secured))
    hold = c.HoldMessages("scan", (("orders", 0, 0),), 60_000)
    held, roots = secured.ask("app", hold).hold_id, secured.ask("root", hold).hold_id
    assert secured.ask("app", c.RenewHold(held, 60_000)).hold_id == held
    secured.ask("app", c.ReleaseHold(roots))
    with pytest.raises(HoldNotFound):
        secured.ask("app", c.RenewHold(roots, 60_000))
    assert secured.ask("root", c.RenewHold(roots, 60_000)).hold_id == roots
    secured.put()
    eventually(lambda: not secured.ask("root", c.ExplainRight("app", "sub", "topic", "orders")).allowed)
    with pytest.raises(AccessDenied, match="may not sub on topic:orders"):
        secured.ask("app", c.RenewHold(held, 60_000))
    secured.put(rules=(may_read,))
    eventually(lambda: secured.ask("root", c.ExplainRight("app", "sub", "topic", "orders")).allowed)
    with pytest.raises(HoldNotFound):
        secured.ask("app", c.RenewHold(held, 60_000))


def test_who_decides_transactions_is_a_producer_of_the_group(secured: Secured) -> None:
    may_send = parse_rule(RuleEffect.ALLOW, "pub", "topic:orders")
    secured.put(rules=(may_send,))
    eventually(lambda: secured.ask("root", c.ExplainRight("app", "pub", "topic", "orders")).allowed)
    ends = c.EndTransactions("billing", (("orders", "x", 8, -1),))
    for request, payload in ((ends, None), (c.SendHalves("orders", 0, 1, "billing", "p", 0), record("orders"))):
        with pytest.raises(AccessDenied, match="may not pub on group:billing"):
            secured.ask("app", request, payload)
    secured.put(rules=(may_send, parse_rule(RuleEffect.ALLOW, "pub", "group:billing")))
    eventually(lambda: secured.ask("root", c.ExplainRight("app", "pub", "group", "billing")).allowed)
    assert len(secured.ask("app", ends).rows) == 1


def checked(secured: Secured, *asked: tuple[str, str, bytes], by: str = "app") -> tuple[str, ...]:
    request = c.CheckSignatures(tuple((name, signature, len(content)) for name, signature, content in asked))
    users: tuple[str, ...] = secured.ask(by, request, b"".join(content for _, _, content in asked)).users
    return users


def asked_for(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry["kind"], entry["user"], entry.get("request", "")


def test_a_gateway_asks_who_signed_and_never_learns_a_secret(secured: Secured) -> None:
    secured.put()
    eventually(lambda: is_let_in(secured))
    with pytest.raises(AccessDenied, match="may not pub on gateway"):
        checked(secured, ("shop", "x", b""))
    secured.put(rules=(parse_rule(RuleEffect.ALLOW, "pub", "gateway"),))
    secured.ask("root", c.PutSecurityRow(encode_row(row_of(User("shop", ())))))
    given = secured.ask("root", c.MakeSecret("shop"), b"12345678").secret
    assert given == "12345678"
    assert secured.ask("root", c.MakeSecret("shop"), b"12345678").before != ""  # it has it already
    made = secured.ask("root", c.MakeSecret("shop")).secret
    signed = [("shop", signature_of(secret, b"now").hex(), b"now") for secret in (given, made)]
    eventually(lambda: checked(secured, *signed) == ("shop", "shop"))
    wrong = ("shop", "beQgVA0KNM4WtCe68fj2DEn3WWU=", b"else")
    assert checked(secured, wrong, ("nobody", signed[0][1], b"now"), signed[0], ("app", signed[0][1], b"now")) == (
        ("", "", "shop", "")
    )
    for request, payload in (
        (c.CheckSignatures((("shop", "", 4),)), b"now"),
        (c.CheckSignatures((("shop", "", -1), ("shop", "", 4))), b"now"),
        (c.CheckSignatures((("shop", "", 0),) * 257), b""),
        (c.MakeSecret("shop"), b""),  # it has two
        (c.MakeSecret("shop"), b"short"),
    ):
        with pytest.raises((InvalidParameter, AccessDenied)):
            secured.ask("root", request, payload)
    with pytest.raises(SecurityRowTrusted):
        secured.ask("root", c.MakeSecret("root"))
    with pytest.raises(SecurityRowNotFound):
        secured.ask("root", c.MakeSecret("nobody"))
    secured.ask("root", c.PutSecurityRow(encode_row(row_of(User("shop", (), disabled=True)))))
    eventually(lambda: checked(secured, *signed) == ("", ""))
    wanted = {("refusal", "shop", "CheckSignatures"), ("change", "root", "MakeSecret")}
    told = eventually(lambda: wanted <= {asked_for(entry) for entry in secured.audit()} and json.dumps(secured.audit()))
    rows = secured.ask("root", c.GetSecurityRows()).rows
    assert not any(secret in text for secret in (given, made) for text in (told, *rows))


def test_a_gateway_acts_for_those_whose_signature_was_checked(secured: Secured) -> None:
    gateway = parse_rule(RuleEffect.ALLOW, "pub", "gateway")
    secured.put(rules=(gateway,))
    orders = parse_rule(RuleEffect.ALLOW, "pub", "topic:orders")
    secured.ask("root", c.PutSecurityRow(encode_row(row_of(User("kiosk", (), rules=(orders,))))))
    secret = secured.ask("root", c.MakeSecret("kiosk")).secret
    signature = signature_of(secret, b"now").hex()
    asked = c.CheckSignatures((("kiosk", signature, 3), ("kiosk", "x", 0)))
    delegation, none = eventually(lambda: secured.ask("app", asked, b"now").delegations)
    assert none == ""
    app = secured.clients["app"]
    with pytest.raises(AccessDenied, match="user 'app' may not pub on topic:orders"):
        secured.send("app", "orders")
    app.act_for(delegation)
    secured.send("app", "orders")
    with pytest.raises(AccessDenied, match="user 'kiosk' may not create on topic:mine"):
        secured.ask("app", c.CreateTopic("mine", 1, 1))
    for forged in (delegation[:-1], delegation.replace("kiosk", "root"), "root:9999999999999:" + "0" * 32, "x"):
        app.act_for(forged)
        with pytest.raises(AccessDenied, match="unknown"):
            secured.send("app", "orders")
    secured.clients["root"].act_for(delegation)  # it was given to another gateway
    with pytest.raises(AccessDenied, match="unknown"):
        secured.send("root", "orders")
    secured.clients["root"].act_for("")
    secured.put(rules=(orders,))
    app.act_for(delegation)
    with pytest.raises(AccessDenied, match="user 'app' may not pub on gateway"):
        secured.send("app", "orders")
    app.act_for("")
    eventually(lambda: ("refusal", "kiosk", "CreateTopic") in {asked_for(entry) for entry in secured.audit()})


def test_nobody_but_brokers_writes_the_audit(secured: Secured) -> None:
    eventually(secured.audit)
    for forged in (
        lambda: secured.send("root", AUDIT_TOPIC),
        lambda: secured.ask("root", c.CreateTopic(AUDIT_TOPIC, 1, 1)),
        lambda: secured.ask("root", c.DeleteTopic(AUDIT_TOPIC)),
        lambda: secured.ask("root", c.SendDelayed(AUDIT_TOPIC, 0, 1), record(AUDIT_TOPIC)),
    ):
        with pytest.raises(NoPermission):
            forged()


def beat(client_id: str, *groups: str) -> c.Heartbeat:
    return c.Heartbeat(client_id, (), tuple((group, "CLUSTERING", (("orders", "TAG", "*"),)) for group in groups))


def members(secured: Secured) -> tuple[str, ...]:
    return tuple(client["client_id"] for client in secured.ask("root", c.GetGroupClients("readers"))["clients"])


def test_nobody_takes_over_or_signs_off_the_client_of_another_user(secured: Secured) -> None:
    """Neither request needs a right: whoever has a key could have asked, and got the replies that are pushed to that client."""
    secured.put()
    eventually(lambda: is_let_in(secured))
    secured.ask("root", beat("of-root", "readers"))
    with pytest.raises(DuplicateClient):
        secured.ask("app", beat("of-root"))
    secured.ask("app", c.UnregisterClient("of-root"))
    assert members(secured) == ("of-root",)
    secured.ask("root", c.UnregisterClient("of-root"))
    assert members(secured) == ()


@pytest.mark.parametrize("taken", ["the right", "everything"])
def test_a_revoked_users_clients_end_with_its_rights(secured: Secured, taken: str) -> None:
    """Else it is pushed replies and questions until it has missed three heartbeats."""
    secured.put(rules=(parse_rule(RuleEffect.ALLOW, "sub", "group:readers"),))
    eventually(lambda: is_let_in(secured))
    secured.ask("root", beat("of-root", "readers"))
    eventually(lambda: secured.ask("app", beat("of-app", "readers")))
    assert members(secured) == ("of-app", "of-root")
    secured.put(disabled=taken == "everything")
    eventually(lambda: members(secured) == ("of-root",))


def test_the_trusted_file_counts_again_when_it_has_changed(secured: Secured) -> None:
    other = new_key_pair()
    more = StaticRow(User("second", (other.public,), UserKind.SUPER))
    secured.trusted.write_text(encode_trusted((*TRUSTED, more)))
    eventually(lambda: len(secured.ask("root", c.GetSecurityRows()).trusted) == 3)
    with RemotingClient(keys=KeyRing(other, {secured.served.address: (BROKER.public,)})) as client:
        assert client.call(secured.served.address, c.GetTopics(), timeout_ms=5000)
