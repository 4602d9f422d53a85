"""Whether the members of a group want the same of each topic. Pure; owned by the loop thread.

Queues are shared out among all members of a group, so where one wants other messages of a topic than another (or nothing
of it at all), it depends on who has a queue which of its messages the group gets. That is a mistake, or a roll-out under
way; both sides are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...model.subscription import ExpressionKind, Subscription

Subscriptions = tuple[tuple[str, str, str], ...]  # (topic, kind, expression)

MEMBERS_NAMED_MAX: Final = 8  # of those who want the same


@dataclass(frozen=True, slots=True)
class Want:
    """What some members want of a topic; kind and expression None = they have not subscribed. Some of them by name."""

    kind: str | None
    expression: str | None
    client_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A topic of which members want different things: two or more."""

    topic: str
    wants: tuple[Want, ...]

    def document(self) -> dict[str, Any]:
        """As `group describe` shows it."""
        wants = [
            {"kind": want.kind, "expression": want.expression, "members": list(want.client_ids)} for want in self.wants
        ]
        return {"topic": self.topic, "subscriptions": wants}


class GroupSubscriptions:
    """The members of one group by what they subscribe to."""

    __slots__ = ("_found", "_members")

    def __init__(self) -> None:
        self._members: dict[Subscriptions, dict[str, None]] = {}
        self._found: tuple[Disagreement, ...] | None = ()

    def put(self, client_id: str, subscriptions: Subscriptions) -> None:
        """A member says what it wants; one that wanted something else is taken out before."""
        self._members.setdefault(subscriptions, {})[client_id] = None
        self._found = None

    def take_out(self, client_id: str, subscriptions: Subscriptions) -> None:
        """A member leaves, or wants something else from now on."""
        members = self._members[subscriptions]
        del members[client_id]
        if not members:
            del self._members[subscriptions]
        self._found = None

    def disagreements(self) -> tuple[Disagreement, ...]:
        """By topic."""
        if self._found is None:
            self._found = _disagreements(self._members) if len(self._members) > 1 else ()
        return self._found

    def others(self, subscriptions: Subscriptions) -> list[tuple[str, str]]:
        """[(topic, another member that wants something else of it)] for a member that subscribes to these."""
        found = []
        wanted = {topic: (kind, expression) for topic, kind, expression in subscriptions}
        for disagreement in self.disagreements():
            mine = _meaning(disagreement.topic, *wanted.get(disagreement.topic, (None, None)))
            other = next(
                want for want in disagreement.wants if _meaning(disagreement.topic, want.kind, want.expression) != mine
            )
            found.append((disagreement.topic, other.client_ids[0]))
        return found


def _disagreements(members: dict[Subscriptions, dict[str, None]]) -> tuple[Disagreement, ...]:
    tables = [
        ({topic: (kind, expression) for topic, kind, expression in subscriptions}, clients)
        for subscriptions, clients in members.items()
    ]
    found = []
    for topic in sorted({topic for table, _ in tables for topic in table}):
        wants: dict[object, Want] = {}
        for table, clients in tables:
            kind, expression = table.get(topic, (None, None))
            named = tuple(sorted(clients)[:MEMBERS_NAMED_MAX])
            meaning = _meaning(topic, kind, expression)
            known = wants.get(meaning)
            if known is None:
                wants[meaning] = Want(kind, expression, named)
            else:
                both = tuple(sorted({*known.client_ids, *named})[:MEMBERS_NAMED_MAX])
                wants[meaning] = Want(known.kind, known.expression, both)
        if len(wants) > 1:
            found.append(Disagreement(topic, tuple(wants.values())))
    return tuple(found)


def _meaning(topic: str, kind: str | None, expression: str | None) -> object:
    """Equal where the same messages are wanted: the order of tags does not count. A condition is its text."""
    if kind == ExpressionKind.TAG.value:
        return Subscription.parse(topic, expression).tags
    return expression
