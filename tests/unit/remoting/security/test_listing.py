"""What a listing tells to whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import RuleEffect, User, UserKind
from zenitmq.model.security.rights import Resource
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.remoting.security.guard import Guard
from zenitmq.remoting.security.listing import visible

READER, LISTER, ROOT = "r" * 40, "l" * 40, "s" * 40
TABLE = AccessTable(
    [
        User("reader", (READER,), rules=(parse_rule(RuleEffect.ALLOW, "sub", "topic:or*"),)),
        User(
            "lister",
            (LISTER,),
            rules=(
                parse_rule(RuleEffect.ALLOW, "list", "cluster"),
                parse_rule(RuleEffect.DENY, "list", "topic:secret"),
            ),
        ),
        User("root", (ROOT,), UserKind.SUPER),
    ],
    [],
)
TOPICS = ("orders", "secret", "trades")


def seen(key: str, guard: Guard | None) -> list[str]:
    call: Any = SimpleNamespace(loop=SimpleNamespace(guard=guard), key=key)
    return list(filter(visible(call, Resource.TOPIC), TOPICS))


def test_each_sees_what_it_may() -> None:
    guard = Guard(TABLE)
    assert seen(READER, guard) == ["orders"]
    assert seen(LISTER, guard) == ["orders", "trades"]
    assert seen(ROOT, guard) == [*TOPICS]
    assert seen("x" * 40, guard) == []
    assert seen("", None) == [*TOPICS]
