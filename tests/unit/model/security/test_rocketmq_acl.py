"""RocketMQ's access lists: what becomes of them, and what is named because it comes out otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.plain_yaml import parse_yaml
from zenitmq.model.security.principals import UserKind
from zenitmq.model.security.rights import Action, Resource
from zenitmq.model.security.rocketmq_acl import import_acl

ACCOUNTS = """\
# as it comes with RocketMQ 4
globalWhiteRemoteAddresses:
- 10.10.103.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: PUB
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=SUB

- accessKey: "rocketmq2"
  secretKey: '12345678'
  whiteRemoteAddress: 192.168.1.*
  admin: true
"""


def test_accounts_of_rocketmq_4_may_do_the_same_here() -> None:
    imported = import_acl(ACCOUNTS)
    table = AccessTable(imported.users, [])
    user = table.users["RocketMQ"]
    may = {
        (kind.value, name): "".join(
            action.value[0] for action in (Action.PUB, Action.SUB) if table.decide(user, action, kind, name).allowed
        )
        for kind, names in ((Resource.TOPIC, "ABCX"), (Resource.GROUP, "ABX"))
        for name in (f"{kind.value}{letter}" for letter in names)
    }
    assert may == {
        ("topic", "topicA"): "",
        ("topic", "topicB"): "ps",
        ("topic", "topicC"): "s",
        ("topic", "topicX"): "p",
        ("group", "groupA"): "",
        ("group", "groupB"): "s",
        ("group", "groupX"): "s",
    }
    assert table.users["rocketmq2"].kind is UserKind.SUPER
    assert [note.partition(":")[0] for note in imported.notes] == ["globalWhiteRemoteAddresses", "user rocketmq2"]
    assert "12345678" not in repr(imported)


def acl(*entries: tuple[str, str, str], kind: str = "Custom", ips: str = "") -> dict[str, Any]:
    rows = [
        {"resource": resource, "actions": actions.split(","), "sourceIps": [ips] if ips else None, "decision": decision}
        for resource, actions, decision in entries
    ]
    return {"subject": "User:app", "policies": [{"policyType": kind, "entries": rows}]}


def test_what_the_most_specific_entry_decided_and_a_deny_decides_here_is_named() -> None:
    given = {"users": [{"username": "app", "userType": "Normal", "userStatus": "enable"}]}
    given["acls"] = [
        acl(("Topic:*", "Sub", "Deny"), ("Topic:or*", "Sub,Pub", "Allow"), ("Topic:orders", "Pub", "Deny"))
    ]
    imported = import_acl(json.dumps(given))
    assert [str(rule) for rule in imported.users[0].rules] == [
        "deny sub on topic:*",
        "allow pub,sub on topic:or*",
        "deny pub on topic:orders",
    ]
    assert imported.differences == (
        "user app: sub on topic:or~: RocketMQ allows it, here 'deny sub on topic:*' denies it",
        "user app: sub on topic:orders: RocketMQ allows it, here 'deny sub on topic:*' denies it",
    )


def test_a_custom_policy_hides_a_default_one_there_but_not_here() -> None:
    hidden = [acl(("Topic:a", "Pub", "Deny"), kind="Default"), acl(("*", "All", "Allow"))]
    assert import_acl(json.dumps(hidden)).differences == (
        "user app: pub on topic:a: RocketMQ allows it, here 'deny pub on topic:a' denies it",
    )


def test_entries_with_one_outcome_are_not_named() -> None:
    given = [
        acl(("Topic:a", "Pub", "Allow"), ("Topic:a*", "Pub", "Allow"), ("Group:g", "Sub", "Deny")),
        acl(("Cluster:zenit", "Get,List", "Allow"), ("Namespace:n", "Pub", "Allow"), ips="192.168.*.*"),
        {"username": "boss", "userType": "Super", "userStatus": "disable", "password": "hidden"},
        acl(({"resourceType": "TOPIC", "resourceName": "b", "resourcePattern": "PREFIXED"}, "Sub", "Allow")),  # type: ignore[arg-type]
    ]
    imported = import_acl(json.dumps(given))
    assert not imported.differences
    users = {user.name: user for user in imported.users}
    assert str(users["app"].rules[3]) == "allow get,list on cluster:* from 192.168.0.0/16"
    assert str(users["app"].rules[4]) == "allow sub on topic:b*"
    assert users["boss"].disabled
    assert len(imported.notes) == 1
    assert "namespace" in imported.notes[0]
    assert "hidden" not in repr(imported)
    assert imported.secrets == {"boss": "hidden"}


@pytest.mark.parametrize(
    "text",
    [
        "a text",
        "- a",
        "accounts:\n  a: b",
        "accounts:\n- secretKey: x",
        "accounts:\n- accessKey: a b",
        "accounts:\n- accessKey: a\n- accessKey: a",
        "accounts:\n- accessKey: a\n  topicPerms:\n  - t=FLY",
        "accounts:\n- accessKey: a\n  topicPerms:\n  - =PUB",
        "[1]",
        "{",
        "[" * 100_000,
        json.dumps({"subject": "Group:a"}),
        json.dumps(acl(("King:a", "Pub", "Allow"))),
        json.dumps(acl(("Topic:a", "Fly", "Allow"))),
        json.dumps(acl(("Topic:a", "Pub", "Maybe"))),
        json.dumps(acl(("Topic:a", "Pub", "Allow"), ips="10.*.0.1")),
        json.dumps(acl(("Topic:a", "Pub", "Allow"), ips="here")),
        json.dumps({"subject": "User:a", "policies": [1]}) + "x",
    ],
)
def test_what_is_no_access_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        import_acl(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1 # one\nb:\n  - x\n  - 'y # z'\nc: []", {"a": "1", "b": ["x", "y # z"], "c": []}),
        ("- - a", ["- a"]),
        ("-\n  a: 1\n- b", [{"a": "1"}, "b"]),
        ("a:\n- b: 1\n  c:\n    d: ~\n- e", {"a": [{"b": "1", "c": {"d": None}}, "e"]}),
        ("a: b:c", {"a": "b:c"}),
    ],
)
def test_plain_yaml_is_read(text: str, value: object) -> None:
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    "text", ["a: {b: 1}", "a: 1\n  b: 2", "a: |\n  x", "\ta: 1", "a: 1\na: 2", "a: &x 1", "a: 'b", "a\nb"]
)
def test_other_yaml_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InvalidParameter, match="line"):
        parse_yaml(text)


def test_nesting_is_bounded() -> None:
    with pytest.raises(InvalidParameter, match="levels"):
        parse_yaml("\n".join("  " * depth + "a:" for depth in range(500)))
    with pytest.raises(InvalidParameter, match="levels"):
        parse_yaml("- a:\n" + "".join("  " * depth + " - b:\n" for depth in range(1, 50)))


@pytest.mark.parametrize("text", ["foo: bar\n", "accounts:\n", "{}", "[]"])
def test_a_file_without_users_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"plain_acl\.yml"):
        import_acl(text)
