"""`zenit user`, `role`, `policy` and `explain` against a broker, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from zenitmq.cli.main import application
from zenitmq.testing import LocalCluster

KEYS = [letter * 40 for letter in "xyz"]


@pytest.fixture
def zenit(one_broker: LocalCluster) -> Callable[..., Any]:
    """Runs a command: its document with "--json", else what it prints. `code`: the exit code that is expected."""

    def run(*arguments: str, code: int = 0) -> Any:
        done = CliRunner().invoke(application(), [*arguments, "--namesrv", one_broker.namesrv])
        assert done.exit_code == code, (arguments, done.output, done.exception)
        if code:
            return done.output or str(done.exception)
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def test_a_user_is_made_changed_explained_and_deleted(zenit: Callable[..., Any]) -> None:
    made = zenit("user", "create", "billing", "--key", KEYS[0], "--json")
    assert (made["user_kind"], made["keys"], made["rules"], made["untold"]) == ("normal", [KEYS[0]], [], {})
    assert "may not pub on topic:orders: no rule allows it" in zenit("explain", "billing", "pub", "topic:orders")
    zenit("policy", "allow", "billing", "pub,sub", "topic:or*", "--from", "10.0.0.0/8")
    zenit("role", "create", "readers")
    zenit("policy", "allow", "role:readers", "get", "*")
    zenit("policy", "deny", "role:readers", "get", "topic:secret")
    zenit("user", "add-role", "billing", "readers")
    for wrong in (("add-role", "billing", "raeders"), ("create", "b", "--role", "raeders", "--key", KEYS[1])):
        assert "there is no role 'raeders'" in zenit("user", *wrong, code=1)
    told = zenit("explain", "billing", "pub", "topic:orders", "--address", "10.1.2.3", "--json")
    assert (told["allowed"], told["reason"], told["of"]) == (
        True,
        "allow pub,sub on topic:or* from 10.0.0.0/8",
        "billing",
    )
    assert "may not" in zenit("explain", "billing", "pub", "topic:orders", "--address", "11.1.2.3")
    assert zenit("explain", "billing", "get", "topic:secret").endswith("deny get on topic:secret (role readers)\n")
    assert [row["of"] for row in zenit("policy", "list", "billing", "--json")] == [
        "billing",
        "role:readers",
        "role:readers",
    ]
    (role,) = zenit("role", "list", "--json")
    assert role["users"] == ["billing"]
    assert "allow get on *:*" in zenit("role", "show", "readers")
    zenit("policy", "remove", "role:readers", "deny", "get", "topic:secret")
    assert zenit("explain", "billing", "get", "topic:secret", "--json")["allowed"]
    zenit("user", "disable", "billing")
    assert zenit("explain", "billing", "get", "topic:secret", "--json")["reason"] == "the user is disabled"
    zenit("user", "enable", "billing")
    zenit("user", "remove-role", "billing", "readers")
    zenit("role", "delete", "readers")
    assert zenit("policy", "list", "--json") == [
        {"of": "billing", "rule": "allow pub,sub on topic:or* from 10.0.0.0/8"}
    ]
    zenit("user", "delete", "billing")
    assert [user for user in zenit("user", "list", "--json") if user["version"]] == [], "but those of the trusted file"


def test_keys_are_changed_without_a_gap_and_limits_are_set(zenit: Callable[..., Any]) -> None:
    zenit("user", "create", "app", "--super", "--key", KEYS[0])
    zenit("user", "add-key", "app", KEYS[1])
    refused = zenit("user", "add-key", "app", KEYS[2], code=2)
    assert f"zenit user remove-key app {KEYS[0]}" in " ".join(refused.split())
    zenit("user", "remove-key", "app", KEYS[0])
    zenit("user", "remove-key", "app", KEYS[0], code=2)
    limited = zenit("user", "limit", "app", "--requests", "5", "--busy-ratio", "0.2", "--json")
    assert limited["limits"] == {"requests": 5, "busy_ratio": 0.2}
    assert zenit("user", "limit", "app", "--requests", "0", "--json")["limits"] == {"busy_ratio": 0.2}
    zenit("user", "limit", "app", code=2)
    shown = zenit("user", "show", "app")
    assert KEYS[1] in shown
    assert "super" in shown
    zenit("user", "delete", "app")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("user", "create", "a b"), 2),
        (("user", "create", "new", "--key", "short"), 2),
        (("user", "create", "new", "--no-key", "--key", KEYS[0]), 2),
        (("user", "show", "nobody"), 1),
        (("user", "delete", "nobody"), 1),
        (("role", "show", "nobody"), 1),
        (("policy", "allow", "nobody", "pub", "topic:a"), 1),
        (("policy", "allow", "nobody", "fly", "topic:a"), 2),
        (("policy", "allow", "nobody", "pub", "king:a"), 2),
        (("policy", "allow", "nobody", "pub", "topic:a", "--from", "here"), 2),
        (("policy", "remove", "nobody", "maybe", "pub", "topic:a"), 2),
        (("policy", "list", "role:nobody"), 1),
        (("policy", "import", "/nowhere"), 2),
        (("explain", "nobody", "pub", "topic:a"), 1),
        (("explain", "nobody", "pub", "topic:a*"), 2),
    ],
)
def test_a_mistake_is_told_in_a_line(zenit: Callable[..., Any], arguments: tuple[str, ...], code: int) -> None:
    zenit(*arguments, code=code)


def test_a_user_that_comes_through_a_gateway_alone_has_no_key(zenit: Callable[..., Any]) -> None:
    made = zenit("user", "create", "signer", "--no-key")
    assert made.endswith("user signer is created; make its secret: zenit user secret signer\n")
    assert zenit("user", "show", "signer", "--json")["keys"] == []
    zenit("user", "delete", "signer")


def test_what_exists_is_not_made_again(zenit: Callable[..., Any]) -> None:
    zenit("user", "create", "twice")
    zenit("user", "create", "twice", code=1)
    zenit("policy", "remove", "twice", "allow", "pub", "topic:a", code=2)
    zenit("user", "remove-role", "twice", "none", code=2)
    zenit("user", "delete", "twice")


def test_rocketmqs_rules_are_imported(zenit: Callable[..., Any], tmp_path: Path) -> None:
    entries = [
        {"resource": "Topic:*", "actions": ["Sub"], "decision": "Deny"},
        {"resource": "Topic:orders", "actions": ["Sub"], "decision": "Allow"},
    ]
    path = tmp_path / "acl.json"
    path.write_text(json.dumps([{"subject": "User:old", "policies": [{"policyType": "Custom", "entries": entries}]}]))
    said = zenit("policy", "import", str(path), "--dry-run")
    assert "user old: sub on topic:orders: RocketMQ allows it, here 'deny sub on topic:*' denies it" in said
    zenit("user", "show", "old", code=1)
    for _ in range(2):
        imported = zenit("policy", "import", str(path), "--json")
        assert len(imported["differences"]) == 1
    assert zenit("user", "show", "old", "--json")["rules"] == ["deny sub on topic:*", "allow sub on topic:orders"]
    zenit("user", "delete", "old")
