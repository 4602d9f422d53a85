"""Who subscribes to which lite topics here, and for whom something may be there. Pure; loop thread.

    member = (group, client, parent topic):  names    what it subscribes to
                                             ready    of these, in the order in which it came: what may have messages for it

A message in a lite topic, or a lease of one that is over, makes the lite topic ready for each of its subscribers: that costs as
many steps as it has. Looking at what is ready for a member costs as many steps as that is, however many names it has.
*Ready* is a hint: whoever looks may find nothing, since another member of the group was faster.

Names are those of light queues. A member's names change by numbered steps: each change names the number before it. So a broker
that has missed one, or is new, says so, and is told all names again.

In a group that is *exclusive* a lite topic has one subscriber: a newcomer evicts the one before, who is told with its next
receive, until it says that it has heard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class MemberName(NamedTuple):
    """One consumer of a group, as a receiver of one parent's lite topics."""

    group: str
    client_id: str
    parent: str


@dataclass(slots=True, eq=False)
class LiteMember:
    """`version`: the number of the last change. `evicted`: {light queue: number of the eviction} of what it has not heard of.
    `seen_ms`: when it last said something (monotonic)."""

    name: MemberName
    version: int = 0
    names: set[str] = field(default_factory=set)
    ready: dict[str, None] = field(default_factory=dict)
    evicted: dict[str, int] = field(default_factory=dict)
    evictions: int = 0
    seen_ms: int = 0


class LiteSubscriptions:
    """Of all groups at one broker. `count`: subscriptions in all."""

    def __init__(self) -> None:
        self.count = 0
        self._members: dict[MemberName, LiteMember] = {}
        self._subscribers: dict[str, tuple[LiteMember, ...]] = {}  # by light queue; most have one

    # ---- changes

    def begin(self, name: MemberName) -> LiteMember:
        """The member, with no names if it is new."""
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = LiteMember(name)
        return member

    def add(self, member: LiteMember, names: Iterable[str], *, is_exclusive: bool) -> list[str]:
        """Returns those that it did not have, which are ready: it may have yet to receive what is there. `is_exclusive`: their
        other subscribers in its group are evicted."""
        added = []
        for name in names:
            if name in member.names:
                continue
            others = self._subscribers.get(name, ())
            if is_exclusive:
                for other in others:
                    if other.name.group == member.name.group:
                        self._evict(other, name)
                others = self._subscribers.get(name, ())
            self._subscribers[name] = (*others, member)
            member.names.add(name)
            member.ready[name] = None
            member.evicted.pop(name, None)
            self.count += 1
            added.append(name)
        return added

    def remove(self, member: LiteMember, names: Iterable[str]) -> None:
        """It does not subscribe to these any more."""
        for name in names:
            if name in member.names:
                self._take_out(member, name)

    def keep_only(self, member: LiteMember, names: Collection[str]) -> None:
        """It subscribes to none but these, as far as it has them."""
        self.remove(member, member.names.difference(names))
        member.evicted.clear()

    def forget(self, member: LiteMember) -> None:
        """It is gone."""
        self.remove(member, list(member.names))
        self._members.pop(member.name, None)

    def forget_all(self) -> None:
        """Another broker hands out from now on."""
        self._members.clear()
        self._subscribers.clear()
        self.count = 0

    def _evict(self, member: LiteMember, name: str) -> None:
        self._take_out(member, name)
        member.evictions += 1
        member.evicted[name] = member.evictions

    def _take_out(self, member: LiteMember, name: str) -> None:
        member.names.discard(name)
        member.ready.pop(name, None)
        self.count -= 1
        left = tuple(other for other in self._subscribers[name] if other is not member)
        if left:
            self._subscribers[name] = left
        else:
            del self._subscribers[name]

    def on_heard(self, member: LiteMember, evictions: int) -> None:
        """It knows of its evictions up to this number."""
        if member.evicted:
            member.evicted = {name: number for name, number in member.evicted.items() if number > evictions}

    # ---- what is ready

    def on_message(self, queue: str) -> tuple[LiteMember, ...]:
        """A light queue has a message: it is ready for its subscribers, which are returned."""
        members = self._subscribers.get(queue, ())
        for member in members:
            member.ready[queue] = None
        return members

    def on_freed(self, group: str, queue: str) -> list[LiteMember]:
        """No message of it is leased in the group any more: it is ready for the group's subscribers, which are returned."""
        members = [member for member in self._subscribers.get(queue, ()) if member.name.group == group]
        for member in members:
            member.ready[queue] = None
        return members

    # ---- questions

    def find(self, name: MemberName) -> LiteMember | None:
        """None: this broker does not know it."""
        return self._members.get(name)

    def members(self) -> Iterator[LiteMember]:
        """All of them."""
        return iter(self._members.values())

    def subscribers(self, queue: str) -> tuple[LiteMember, ...]:
        """Of a light queue."""
        return self._subscribers.get(queue, ())
