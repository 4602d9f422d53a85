"""Checks whether the members of a group subscribe to each topic alike. Pure; owned by the loop thread.

The members of a group that subscribe to a topic share its queues. If they subscribe differently, the group gets those
messages of a queue that its present owner asks for. That is a mistake, or a roll-out in
progress; both sides are told. Broadcasting members read all queues by themselves, share nothing and may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...model.subscription import ExpressionKind, Subscription

Subscriptions = tuple[tuple[str, str, str], ...]  # (topic, kind, expression)

MEMBERS_NAMED_MAX: Final = 8  # of members with the same subscription


@dataclass(frozen=True, slots=True)
class Want:
    """One subscription to a topic, and some of its members by name."""

    kind: str
    expression: str
    client_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionDisagreement:
    """A topic with two or more different subscriptions."""

    topic: str
    wants: tuple[Want, ...]

    def document(self) -> dict[str, Any]:
        """As `group describe` shows it."""
        wants = [
            {"kind": want.kind, "expression": want.expression, "members": list(want.client_ids)} for want in self.wants
        ]
        return {"topic": self.topic, "subscriptions": wants}


class GroupSubscriptions:
    """The members of one group by their subscriptions."""

    __slots__ = ("_found", "_members")

    def __init__(self) -> None:
        self._members: dict[Subscriptions, dict[str, None]] = {}
        self._found: tuple[SubscriptionDisagreement, ...] | None = ()

    def put(self, client_id: str, subscriptions: Subscriptions) -> None:
        """Adds a member's subscriptions; a former one must be removed first."""
        self._members.setdefault(subscriptions, {})[client_id] = None
        self._found = None

    def take_out(self, client_id: str, subscriptions: Subscriptions) -> None:
        """Removes a member that leaves, or whose subscriptions change."""
        members = self._members[subscriptions]
        del members[client_id]
        if not members:
            del self._members[subscriptions]
        self._found = None

    def disagreements(self) -> tuple[SubscriptionDisagreement, ...]:
        """By topic."""
        if self._found is None:
            self._found = _disagreements(self._members) if len(self._members) > 1 else ()
        return self._found

    def others(self, subscriptions: Subscriptions) -> list[tuple[str, str]]:
        """[(topic, another member that subscribes to it differently)] for a member with these subscriptions."""
        wants = {disagreement.topic: disagreement.wants for disagreement in self.disagreements()}
        found = []
        for topic, kind, expression in subscriptions:
            mine = _meaning(topic, kind, expression)
            others = [want for want in wants.get(topic, ()) if _meaning(topic, want.kind, want.expression) != mine]
            if others:
                found.append((topic, others[0].client_ids[0]))
        return found


def _disagreements(members: dict[Subscriptions, dict[str, None]]) -> tuple[SubscriptionDisagreement, ...]:
    topics: dict[str, dict[object, Want]] = {}
    for subscriptions, clients in members.items():
        named = sorted(clients)[:MEMBERS_NAMED_MAX]
        for topic, kind, expression in subscriptions:
            wants = topics.setdefault(topic, {})
            meaning = _meaning(topic, kind, expression)
            known = wants.get(meaning)
            if known is None:
                wants[meaning] = Want(kind, expression, tuple(named))
            else:
                both = sorted({*known.client_ids, *named})[:MEMBERS_NAMED_MAX]
                wants[meaning] = Want(known.kind, known.expression, tuple(both))
    return tuple(
        SubscriptionDisagreement(topic, tuple(wants.values()))
        for topic, wants in sorted(topics.items())
        if len(wants) > 1
    )


def _meaning(topic: str, kind: str, expression: str) -> object:
    """Equal if the same messages are selected: the order of tags does not count. A condition is compared as text."""
    return Subscription.parse(topic, expression).tags if kind == ExpressionKind.TAG.value else expression
