"""Rules as operators write them."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.principals import RuleEffect
from zenitmq.model.security.rights import Resource
from zenitmq.model.security.rule_text import check_counts, parse_asked, parse_rule


@pytest.mark.parametrize(
    ("actions", "target", "addresses", "text"),
    [
        ("pub", "topic:orders", (), "allow pub on topic:orders"),
        ("Sub,PUB", "topic:or*", (), "allow pub,sub on topic:or*"),
        ("get", "topic:*", ("10.0.0.0/8",), "allow get on topic:* from 10.0.0.0/8"),
        ("*", "*", (), "allow create,delete,get,list,pub,sub,update on *:*"),
        ("*", "*:*", (), "allow create,delete,get,list,pub,sub,update on *:*"),
        ("list", "cluster", (), "allow list on cluster:*"),
        ("get", "query:a:b", (), "allow get on query:a:b"),
    ],
)
def test_a_rule_is_read(actions: str, target: str, addresses: tuple[str, ...], text: str) -> None:
    assert str(parse_rule(RuleEffect.ALLOW, actions, target, addresses)) == text


@pytest.mark.parametrize(
    ("actions", "target", "named"),
    [
        ("fly", "topic:a", "create, delete"),
        ("", "topic:a", "action"),
        ("serve", "topic:a", "action"),
        ("pub", "topic", "topic:orders"),
        ("pub", "topic:", "topic:orders"),
        ("pub", "topic:a*b", "at its end"),
        ("pub", "king:a", "cluster, gateway, group"),
        ("pub", "replica:a", "cluster, gateway, group"),
        ("pub", "*:a", "alone"),
        ("get", "cluster:a", "alone"),
        ("pub", "topic:" + "x" * 256, "255"),
    ],
)
def test_a_wrong_rule_says_what_is_right(actions: str, target: str, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        parse_rule(RuleEffect.DENY, actions, target)


def test_a_question_is_about_one_thing() -> None:
    assert parse_asked("topic:orders") == (Resource.TOPIC, "orders")
    assert parse_asked("security") == (Resource.SECURITY, "")
    for text in ("*", "topic:*", "topic:or*"):
        with pytest.raises(InvalidParameter, match="one thing"):
            parse_asked(text)


@pytest.mark.parametrize(
    ("actions", "target", "named"),
    [
        ("pub", "cluster", "what counts on cluster: delete, get, list, sub, update"),
        ("create,get", "security", "create"),
        ("get", "gateway", "pub"),
    ],
)
def test_a_new_rule_with_an_action_that_never_counts_is_refused(actions: str, target: str, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        check_counts(parse_rule(RuleEffect.ALLOW, actions, target))


@pytest.mark.parametrize("target", ["*", "cluster", "gateway", "topic:a"])
def test_all_actions_are_never_too_many(target: str) -> None:
    rule = parse_rule(RuleEffect.DENY, "*", target)
    assert check_counts(rule) == rule
