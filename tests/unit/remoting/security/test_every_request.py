"""The walk: every request there is, asked for by a stranger, without the right, with it, with it and a deny.

A request is made with one name in each of its fields, so that what it is about has that name.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any

import pytest

from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import (
    Binding,
    Match,
    Rule,
    RuleEffect,
    User,
    UserKind,
    UserRole,
    check_rule,
)
from zenitmq.model.security.rights import LISTED, Action, Resource, Right
from zenitmq.remoting.commands import REQUESTS, Request, ServedBy
from zenitmq.remoting.security.guard import Guard

NAME = "orders"
KEYS = {
    name: letter * 40
    for letter, name in zip("abcdefg", ("none", "right", "denied", "super", "node", "other", "off"), strict=True)
}
STRANGER = "z" * 40
ASKED = [
    pytest.param(cls, id=cls.__name__) for _, cls in sorted(REQUESTS.items()) if cls.served_by is not ServedBy.CLIENT
]


def value_of(hint: Any, name: str = NAME) -> Any:
    """`name` for a text, one element for a list."""
    if typing.get_origin(hint) is tuple:
        arguments = typing.get_args(hint)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return (value_of(arguments[0], name),)
        return tuple(value_of(argument, name) for argument in arguments)
    return {str: name, int: 0, bool: False, bytes: b""}[hint]


def made(cls: type[Request], *, by_field: bool = False) -> Request:
    """`by_field`: with the field's own name in each, instead of NAME."""
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return cls(**{field.name: value_of(hints[field.name], field.name if by_field else NAME) for field in fields})


def rules(effect: RuleEffect, rights: Iterable[Right], *, by_field: bool = False) -> tuple[Rule, ...]:
    """What gives or denies these rights on NAME, or on the names of the fields."""
    return tuple(
        check_rule(
            Rule(
                effect,
                frozenset({right.action}),
                right.resource,
                Match.LITERAL if right.field else Match.ANY,
                right.field if by_field else NAME if right.field else "",
            )
        )
        for right in rights
    )


def guard_for(cls: type[Request]) -> Guard:
    """Knows a user for each case."""
    rights = [right for right in cls.needs if right.action is not Action.SERVE and right.field != LISTED]
    allowed, denied = rules(RuleEffect.ALLOW, rights), rules(RuleEffect.DENY, rights[-1:])
    everything = Rule(RuleEffect.ALLOW, frozenset(Action) - {Action.SERVE}, None, Match.ANY, "")
    users = [
        User("none", (KEYS["none"],), rules=(everything,) if is_served(cls) else ()),
        User("right", (KEYS["right"],), rules=allowed),
        User("denied", (KEYS["denied"],), rules=(everything,), roles=("deny",)),
        User("super", (KEYS["super"],), UserKind.SUPER),
        User("node", (KEYS["node"],), UserKind.SERVER, binding=Binding("c", NAME, NAME)),
        User("other", (KEYS["other"],), UserKind.SERVER, binding=Binding("c", "elsewhere", NAME)),
        User("off", (KEYS["off"],), UserKind.SUPER, disabled=True),
    ]
    return Guard(AccessTable(users, [UserRole("deny", denied)]), group=NAME)


def is_served(cls: type[Request]) -> bool:
    """Only servers may ask it."""
    return any(right.action is Action.SERVE for right in cls.needs)


def is_free(cls: type[Request]) -> bool:
    """Whoever has a key may ask it."""
    return all(right.field == LISTED for right in cls.needs)


@pytest.mark.parametrize("cls", ASKED)
def test_who_may_make_a_request(cls: type[Request]) -> None:
    guard, request = guard_for(cls), made(cls)
    may = {name: guard.check(key, "", request) is None for name, key in KEYS.items()}
    assert not may["off"]
    assert guard.check(STRANGER, "", request) is not None
    if is_free(cls):
        assert may == dict.fromkeys(KEYS, True) | {"off": False}
    elif is_served(cls):
        is_of_group = any(right.resource is Resource.REPLICA for right in cls.needs)
        expected = {"node": True, "other": not is_of_group}
        assert may == dict.fromkeys(KEYS, False) | expected
    else:
        is_of_security = any(right.resource is Resource.SECURITY for right in cls.needs)
        reads = all(right.action in (Action.GET, Action.LIST) for right in cls.needs)
        serves = not is_of_security or reads
        assert may == {
            "none": False,
            "right": True,
            "denied": False,
            "super": True,
            "node": serves,
            "other": serves,
            "off": False,
        }


@pytest.mark.parametrize("cls", [each for each in ASKED if len(each.values[0].needs) > 1])  # type: ignore[attr-defined]
def test_each_of_several_rights_is_needed(cls: type[Request]) -> None:
    request = made(cls, by_field=True)
    for right in cls.needs:
        others = [each for each in cls.needs if each is not right and each.action is not Action.SERVE]
        user = User("u", (KEYS["none"],), rules=rules(RuleEffect.ALLOW, others, by_field=True))
        refusal = Guard(AccessTable([user], []), group=NAME).check(KEYS["none"], "", request)
        assert refusal is not None
        assert refusal.right == right


@pytest.mark.parametrize(
    "cls", [each for each in ASKED if any(right.field not in ("", LISTED) for right in each.values[0].needs)]
)  # type: ignore[attr-defined]
def test_a_right_on_something_else_is_none(cls: type[Request]) -> None:
    request = made(cls)
    wrong = tuple(
        Rule(rule.effect, rule.actions, rule.resource, rule.match, "elsewhere" if rule.name else "")
        for rule in rules(RuleEffect.ALLOW, [right for right in cls.needs if right.action is not Action.SERVE])
    )
    user = User("u", (KEYS["none"],), rules=wrong)
    assert Guard(AccessTable([user], []), group=NAME).check(KEYS["none"], "", request) is not None
