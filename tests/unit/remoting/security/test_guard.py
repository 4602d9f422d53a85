"""The rights of a request's row are asked for each thing that the request names; strangers are refused whatever they ask."""

from __future__ import annotations

from zenitmq.model.names import TRACE_TOPIC
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Binding, Match, Rule, RuleEffect, User, UserKind
from zenitmq.model.security.rights import Action, Resource
from zenitmq.remoting.commands import (
    GetBrokerConfig,
    GetRoute,
    PullMessages,
    SendMessages,
    SendReplyMessage,
    UnregisterClient,
    UpdateConsumerOffsets,
)
from zenitmq.remoting.security.guard import UNKNOWN, Guard, denied

SUB_A = Rule(RuleEffect.ALLOW, frozenset({Action.SUB}), Resource.TOPIC, Match.LITERAL, "a")
READER = User("reader", ("r" * 40,), rules=(SUB_A,))
REPLICA = User("node", ("n" * 40,), UserKind.SERVER, binding=Binding("c", "broker-a", "broker-a-0"))
GUARD = Guard(AccessTable([READER, REPLICA, User("gone", ("g" * 40,), disabled=True)], []), group="broker-a")


def test_each_named_topic_needs_its_right() -> None:
    assert GUARD.check("r" * 40, "", GetRoute("a")) is None
    refusal = GUARD.check("r" * 40, "", GetRoute("b"))
    assert refusal is not None
    assert str(denied(refusal)).startswith("user 'reader' may not get on topic:b ")


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


def test_a_pull_that_names_no_group_needs_a_right_on_the_topic_alone() -> None:
    assert GUARD.check("r" * 40, "", PullMessages("", "a", 0, 0, 1, 1)) is None
    for group, topic in (("g", "a"), ("", "b")):
        assert GUARD.check("r" * 40, "", PullMessages(group, topic, 0, 0, 1, 1)) is not None
    refusal = GUARD.check("r" * 40, "", UpdateConsumerOffsets("", (("a", 0, 1),)))
    assert refusal is not None, "what stores something for a group needs the right on it, whatever its name"


def test_replies_need_no_right_and_give_none_on_topics_with_such_a_name() -> None:
    assert GUARD.check("r" * 40, "", SendReplyMessage("c_REPLY_TOPIC")) is None
    for topic in ("c_REPLY_TOPIC", "orders_REPLY_TOPIC", "%RETRY%g_REPLY_TOPIC"):
        assert GUARD.check("r" * 40, "", SendMessages(topic, 0, 1)) is not None
    assert GUARD.check("r" * 40, "", SendMessages(TRACE_TOPIC, 0, 1)) is None
