"""Users and roles as plain tables of texts, numbers and lists: what JSON rows and the trusted file have in common. Pure.

What is at its default is left out. A field that this version does not know is refused, never dropped: it may be what forbids
something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ..errors import InvalidParameter
from .principals import (
    NO_LIMITS,
    Binding,
    Match,
    Rule,
    RuleEffect,
    User,
    UserKind,
    UserLimits,
    UserRole,
    check_role,
    check_user,
)
from .rights import Action, Resource

LIMIT_MAX: Final = 1 << 50
_BINDING: Final = ("cluster", "group", "replica")
_LIMITS: Final[Mapping[str, type]] = {
    "bytes_in": int,
    "bytes_out": int,
    "requests": int,
    "busy_ratio": float,
    "connections": int,
}
USER_FIELDS: Final = frozenset({"kind", "keys", "disabled", "roles", "rules", "limits", "secrets", *_BINDING})
ROLE_FIELDS: Final = frozenset({"rules"})
RULE_FIELDS: Final = frozenset({"effect", "actions", "resource", "match", "name", "addresses"})

_KINDS: Final[Mapping[type, str]] = {bool: "true or false", str: "a text", list: "a list", dict: "a table"}

_T = TypeVar("_T")


# ---- to fields


def fields_of_user(user: User) -> dict[str, Any]:
    """All of a user but its name."""
    fields: dict[str, Any] = {"kind": user.kind.value}
    if user.keys:
        fields["keys"] = list(user.keys)
    if user.binding is not None:
        fields |= {"cluster": user.binding.cluster, "group": user.binding.group, "replica": user.binding.replica}
    if user.disabled:
        fields["disabled"] = True
    if user.roles:
        fields["roles"] = list(user.roles)
    if user.rules:
        fields["rules"] = [fields_of_rule(rule) for rule in user.rules]
    if user.limits != NO_LIMITS:
        fields["limits"] = {name: value for name in _LIMITS if (value := getattr(user.limits, name))}
    if user.secrets:
        fields["secrets"] = list(user.secrets)
    return fields


def fields_of_role(role: UserRole) -> dict[str, Any]:
    """All of a role but its name."""
    return {"rules": [fields_of_rule(rule) for rule in role.rules]}


def fields_of_rule(rule: Rule) -> dict[str, Any]:
    """A rule; its resource is left out if it is about every kind."""
    fields: dict[str, Any] = {"effect": rule.effect.value, "actions": sorted(action.value for action in rule.actions)}
    if rule.resource is not None:
        fields["resource"] = rule.resource.value
    fields["match"] = rule.match.value
    if rule.name:
        fields["name"] = rule.name
    if rule.addresses:
        fields["addresses"] = list(rule.addresses)
    return fields


# ---- from fields


def user_from_fields(name: str, fields: Mapping[str, Any]) -> User:
    """The user. Raises InvalidParameter for a field that is unknown, of a wrong type or out of its range."""
    _refuse_unknown(f"user {name}", fields, USER_FIELDS)
    binding = None
    if any(part in fields for part in _BINDING):
        binding = Binding(*(_text(fields, part) for part in _BINDING))
    return check_user(
        User(
            name,
            _texts(fields, "keys"),
            kind=_one_of(fields, "kind", UserKind),
            disabled=_typed(fields, "disabled", bool, False),
            roles=_texts(fields, "roles"),
            rules=_rules(fields),
            binding=binding,
            limits=_limits(fields),
            secrets=_texts(fields, "secrets"),
        )
    )


def role_from_fields(name: str, fields: Mapping[str, Any]) -> UserRole:
    """The role. Raises InvalidParameter."""
    _refuse_unknown(f"role {name}", fields, ROLE_FIELDS)
    return check_role(UserRole(name, _rules(fields)))


def _rules(fields: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(map(_rule, _typed(fields, "rules", list, [])))


def _rule(fields: Any) -> Rule:
    """Its limits are checked with those of its owner."""
    if not isinstance(fields, dict):
        raise InvalidParameter("rules", str(fields)[:80], "tables")
    _refuse_unknown("rule", fields, RULE_FIELDS)
    return Rule(
        _one_of(fields, "effect", RuleEffect),
        frozenset(_member("actions", each, Action) for each in _texts(fields, "actions")),
        _one_of(fields, "resource", Resource) if "resource" in fields else None,
        _one_of(fields, "match", Match),
        _text(fields, "name"),
        _texts(fields, "addresses"),
    )


def _limits(fields: Mapping[str, Any]) -> UserLimits:
    limits: dict[str, Any] = _typed(fields, "limits", dict, {})
    _refuse_unknown("limits", limits, frozenset(_LIMITS))
    given = {}
    for name, kind in _LIMITS.items():
        value = limits.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            raise InvalidParameter(name, str(value)[:80], "a number" if kind is float else "a whole number")
        if not 0 <= value <= LIMIT_MAX:
            raise InvalidParameter(name, "out of its range", f"0 to {LIMIT_MAX}")
        given[name] = kind(value)
    return UserLimits(**given)


def _refuse_unknown(of: str, fields: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(map(str, fields.keys() - known)):
        raise InvalidParameter(of, unknown[0][:80], f"one of the fields {', '.join(sorted(known))}")


def _typed(fields: Mapping[str, Any], name: str, kind: type[_T], default: _T) -> _T:
    value = fields.get(name, default)
    if type(value) is not kind:
        raise InvalidParameter(name, str(value)[:80], _KINDS[kind])
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = _typed(fields, name, str, "")
    if not value.isprintable():
        raise InvalidParameter(name, ascii(value)[:80], "printable characters")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values: list[Any] = _typed(fields, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise InvalidParameter(name, str(values)[:80], "a list of texts")
    return tuple(values)


def _one_of(fields: Mapping[str, Any], name: str, kind: Callable[[object], _T]) -> _T:
    return _member(name, fields.get(name), kind)


def _member(name: str, value: object, kind: Callable[[object], _T]) -> _T:
    try:
        return kind(value)
    except ValueError as error:
        expected = ", ".join(str(each.value) for each in kind)  # type: ignore[attr-defined]
        raise InvalidParameter(name, str(value)[:80], f"one of {expected}") from error
