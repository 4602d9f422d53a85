"""Subscriptions to lite topics: the core against a model that looks at everything each time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zenitmq.broker.lite.subscriptions import LiteSubscriptions, MemberName

QUEUES = [f"%LMQ%$chats${number}" for number in range(6)]
MEMBERS = [MemberName(group, client, "chats") for group in ("g", "h") for client in ("a", "b", "c")]

queues = st.sampled_from(QUEUES)
sets = st.lists(queues, max_size=6)
members = st.sampled_from(MEMBERS)


class Subscribing(RuleBasedStateMachine):
    """`has`: who subscribes to what; `ready`: what may be there for whom, in order; `evicted`: what is not heard of yet."""

    def __init__(self) -> None:
        super().__init__()
        self.core = LiteSubscriptions()
        self.has: dict[MemberName, set[str]] = {}
        self.ready: dict[MemberName, list[str]] = {}
        self.evicted: dict[MemberName, list[tuple[str, int]]] = {}
        self.evictions: dict[MemberName, int] = {}

    def _begin(self, name: MemberName) -> None:
        self.has.setdefault(name, set())
        self.ready.setdefault(name, [])
        self.evicted.setdefault(name, [])
        self.evictions.setdefault(name, 0)

    @rule(name=members, names=sets, is_exclusive=st.booleans())
    def adds(self, name: MemberName, names: list[str], is_exclusive: bool) -> None:
        self._begin(name)
        fresh = list(dict.fromkeys(queue for queue in names if queue not in self.has[name]))
        for queue in fresh:
            for other in self.has:
                if is_exclusive and other != name and other.group == name.group and queue in self.has[other]:
                    self.has[other].remove(queue)
                    self.ready[other] = [one for one in self.ready[other] if one != queue]
                    self.evictions[other] += 1
                    self.evicted[other].append((queue, self.evictions[other]))
            self.has[name].add(queue)
            self.ready[name].append(queue)
            self.evicted[name] = [row for row in self.evicted[name] if row[0] != queue]
        added = self.core.add(self.core.begin(name), names, is_exclusive=is_exclusive)
        assert added == fresh

    @rule(name=members, names=sets)
    def removes(self, name: MemberName, names: list[str]) -> None:
        self._begin(name)
        self.has[name] -= set(names)
        self.ready[name] = [queue for queue in self.ready[name] if queue not in names]
        self.core.remove(self.core.begin(name), names)

    @rule(name=members, names=sets)
    def says_all(self, name: MemberName, names: list[str]) -> None:
        self._begin(name)
        self.has[name] &= set(names)
        self.ready[name] = [queue for queue in self.ready[name] if queue in names]
        self.evicted[name] = []
        self.core.keep_only(self.core.begin(name), set(names))

    @rule(name=members)
    def goes(self, name: MemberName) -> None:
        member = self.core.find(name)
        assert (member is not None) == (name in self.has)
        if member is not None:
            self.core.forget(member)
            del self.has[name], self.ready[name], self.evicted[name], self.evictions[name]

    @rule(queue=queues)
    def message(self, queue: str) -> None:
        told = {member.name for member in self.core.on_message(queue)}
        assert told == {name for name in self.has if queue in self.has[name]}
        for name in told:
            self._make_ready(name, queue)

    @rule(queue=queues, group=st.sampled_from(["g", "h"]))
    def freed(self, queue: str, group: str) -> None:
        told = {member.name for member in self.core.on_freed(group, queue)}
        assert told == {name for name in self.has if name.group == group and queue in self.has[name]}
        for name in told:
            self._make_ready(name, queue)

    def _make_ready(self, name: MemberName, queue: str) -> None:
        if queue not in self.ready[name]:
            self.ready[name].append(queue)

    @rule(name=members)
    def looks(self, name: MemberName) -> None:
        member = self.core.find(name)
        if member is not None and member.ready:
            first = next(iter(member.ready))
            assert self.ready[name].pop(0) == first
            del member.ready[first]

    @rule(name=members, number=st.integers(0, 8))
    def hears(self, name: MemberName, number: int) -> None:
        member = self.core.find(name)
        if member is not None:
            self.core.on_heard(member, number)
            self.evicted[name] = [row for row in self.evicted[name] if row[1] > number]

    @invariant()
    def is_the_same(self) -> None:
        found = {member.name: member for member in self.core.members()}
        assert {name: member.names for name, member in found.items()} == self.has
        assert {name: list(member.ready) for name, member in found.items()} == self.ready
        assert {name: list(member.evicted.items()) for name, member in found.items()} == self.evicted
        assert self.core.count == sum(map(len, self.has.values()))
        for queue in QUEUES:
            subscribers = [member.name for member in self.core.subscribers(queue)]
            assert len(subscribers) == len(set(subscribers))
            assert set(subscribers) == {name for name in self.has if queue in self.has[name]}


Subscribing.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestSubscribing = Subscribing.TestCase
