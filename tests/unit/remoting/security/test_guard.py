"""The rights of a request's row are asked for each thing that the request names; strangers are refused whatever they ask."""

from __future__ import annotations

from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Binding, Match, Rule, RuleEffect, User, UserKind
from zenitmq.model.security.rights import Action, Resource
from zenitmq.remoting.commands import GetBrokerConfig, GetRoute, UnregisterClient
from zenitmq.remoting.security.guard import UNKNOWN, Guard, denied

SUB_A = Rule(RuleEffect.ALLOW, frozenset({Action.SUB}), Resource.TOPIC, Match.LITERAL, "a")
READER = User("reader", ("r" * 40,), rules=(SUB_A,))
REPLICA = User("node", ("n" * 40,), UserKind.SERVER, binding=Binding("c", "broker-a", "broker-a-0"))
GUARD = Guard(AccessTable([READER, REPLICA, User("gone", ("g" * 40,), disabled=True)], []), group="broker-a")


def test_each_named_topic_needs_its_right() -> None:
    assert GUARD.check("r" * 40, "", GetRoute("a")) is None
    refusal = GUARD.check("r" * 40, "", GetRoute("b"))
    assert refusal is not None
    assert str(denied(refusal)).startswith("user 'reader' may not get on topic:b; ")


def test_a_stranger_may_nothing_not_even_what_needs_no_right() -> None:
    for key, name in (("x" * 40, UNKNOWN), ("g" * 40, "gone")):
        refusal = GUARD.check(key, "", UnregisterClient("id"))
        assert refusal is not None
        assert denied(refusal).user == name
        assert "is disabled, or its key was taken away" in str(denied(refusal))
        assert "zenit explain" not in str(denied(refusal))
    assert GUARD.check("r" * 40, "", UnregisterClient("id")) is None
    refusal = GUARD.check("r" * 40, "", GetBrokerConfig())
    assert refusal is not None
    assert denied(refusal).resource == "cluster"
