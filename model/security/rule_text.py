"""A rule as an operator writes it: "pub,sub" on "topic:orders*". Pure.

`str(rule)` is the same text with its effect: "allow pub,sub on topic:orders*".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import InvalidParameter
from .principals import ANY, GIVEN, GIVEN_ON, Match, Rule, RuleEffect, check_rule
from .rights import Action, Resource

NAMELESS: Final = frozenset({Resource.CLUSTER, Resource.SECURITY, Resource.GATEWAY})
"""Of these there is only one in a cluster."""

_SEEN: Final = frozenset({Action.GET, Action.LIST})
_KEPT: Final = _SEEN | {Action.UPDATE, Action.DELETE}
_USED: Final = _KEPT | {Action.PUB, Action.SUB, Action.CREATE}
COUNTED: Final = {
    Resource.TOPIC: _USED,
    Resource.GROUP: _USED,
    Resource.QUERY: _KEPT,
    Resource.CLUSTER: _KEPT | {Action.SUB},
    Resource.SECURITY: _KEPT,
    Resource.GATEWAY: frozenset({Action.PUB}),
}
"""The actions on each kind of resource that some request needs; a rule with another one would never decide anything."""

_RESOURCES: Final = ", ".join(sorted(each.value for each in GIVEN_ON))
_ACTIONS: Final = ", ".join(sorted(each.value for each in GIVEN))


def parse_rule(effect: RuleEffect, actions: str, target: str, addresses: Sequence[str] = ()) -> Rule:
    """The rule. `actions`: "pub,sub", or "*" for all. `target`: as `parse_target`. Raises InvalidParameter."""
    resource, match, name = parse_target(target)
    return check_rule(Rule(effect, parse_actions(actions), resource, match, name, tuple(addresses)))


def check_counts(rule: Rule) -> Rule:
    """The rule. Raises InvalidParameter if it names an action that nothing on such a resource needs; "*" names none."""
    counted = GIVEN if rule.resource is None or rule.actions == GIVEN else COUNTED[rule.resource]
    if idle := rule.actions - counted:
        kind = rule.resource.value if rule.resource is not None else ANY
        raise InvalidParameter(
            "actions",
            ",".join(sorted(each.value for each in idle)),
            f"what counts on {kind}: " + ", ".join(sorted(each.value for each in counted)),
        )
    return rule


def parse_actions(text: str) -> frozenset[Action]:
    """Raises InvalidParameter."""
    return GIVEN if text == ANY else frozenset(map(parse_action, text.split(",")))


def parse_action(text: str) -> Action:
    """Raises InvalidParameter."""
    for action in GIVEN:
        if action.value == text.strip().lower():
            return action
    raise InvalidParameter("action", text[:80], f"one of {_ACTIONS}")


def parse_target(text: str) -> tuple[Resource | None, Match, str]:
    """Raises InvalidParameter. "topic:orders": one; "topic:or*": those that begin so; "topic:*": all; "cluster"; "*": all."""
    kind, _, name = text.partition(":")
    if kind == ANY:
        if name not in ("", ANY):
            raise InvalidParameter("resource", text[:80], '"*" alone, or a kind, as in "topic:orders*"')
        return None, Match.ANY, ""
    resource = _resource(kind)
    if resource in NAMELESS:
        if name not in ("", ANY):
            raise InvalidParameter("resource", text[:80], f'"{kind}" alone: a cluster has one')
        return resource, Match.ANY, ""
    if not name:
        raise InvalidParameter("resource", text[:80], f'a name, "{kind}:orders", or "{kind}:*" for all')
    if name == ANY:
        return resource, Match.ANY, ""
    if ANY in name.removesuffix(ANY):
        raise InvalidParameter("resource", text[:80], 'at most one "*", at its end')
    return (resource, Match.PREFIX, name.removesuffix(ANY)) if name.endswith(ANY) else (resource, Match.LITERAL, name)


def parse_asked(text: str) -> tuple[Resource, str]:
    """What a question is about: "topic:orders", or "cluster". Raises InvalidParameter."""
    resource, match, name = parse_target(text)
    if resource is None or (match is not Match.LITERAL and resource not in NAMELESS):
        raise InvalidParameter("resource", text[:80], 'one thing, as in "topic:orders"')
    return resource, name


def _resource(text: str) -> Resource:
    for resource in GIVEN_ON:
        if resource.value == text:
            return resource
    raise InvalidParameter(
        "resource", text[:80], f'a kind and a name, as in "topic:orders*"; the kinds are {_RESOURCES}'
    )
