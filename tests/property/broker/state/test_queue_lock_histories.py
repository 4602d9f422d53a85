"""Whatever clients, time and changes of master do: no two clients trust in one queue at a time, who trusts may commit,
and who is fenced may not. Clients trust a lease from when they asked, on clocks that run as fast as the broker's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.broker.state.queue_locks import LockDecision, QueueLockTable

LEASE_MS = 60
CLIENTS = st.sampled_from("abc")
QUEUES = st.lists(st.tuples(st.just("t"), st.integers(0, 2)), min_size=1, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("lock"), CLIENTS, QUEUES, st.booleans()),
    st.tuples(st.just("lost lock"), CLIENTS, QUEUES, st.booleans()),
    st.tuples(st.just("unlock"), CLIENTS, QUEUES),
    st.tuples(st.just("leave"), CLIENTS),
    st.tuples(st.just("wait"), st.integers(1, 70)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("turn")),
    st.tuples(st.just("new master"), st.booleans()),
)


@dataclass
class World:
    """One group's master and its clients. `trust`: until when each client takes a queue for its own."""

    locks: QueueLockTable = field(default_factory=lambda: QueueLockTable(LEASE_MS))
    log: list[dict[str, Any]] = field(default_factory=list)
    applied: int = 0
    now_ms: int = 0
    trust: dict[tuple[str, tuple[str, int]], int] = field(default_factory=dict)

    def carry_out(self, decision: LockDecision) -> None:
        self.log += decision.events()
        self.locks.adopt(decision, self.now_ms)

    def turn(self) -> None:
        for event in self.log[self.applied :]:
            self.locks.on_event(event, {})
        self.applied = len(self.log)

    def step(self, kind: str, *rest: Any) -> None:
        if kind == "wait":
            self.now_ms += rest[0]
        elif kind == "tick":
            for decision in self.locks.lapsed(self.now_ms):
                self.carry_out(decision)
        elif kind == "turn":
            self.turn()
        elif kind == "new master":
            self.new_master(by_snapshot=rest[0])
        else:
            self.ask(kind, *rest)

    def ask(self, kind: str, client: str, queues: Any = (), renews: bool = False) -> None:
        if kind == "leave":
            self.carry_out(self.locks.leave(client))
            self.trust = {key: until for key, until in self.trust.items() if key[0] != client}
        elif kind == "unlock":
            for queue in queues:
                self.trust.pop((client, queue), None)
            self.carry_out(self.locks.unlock("g", client, queues))
        else:
            if renews:  # it renews only what it trusts in still, as a client does
                queues = [queue for queue in queues if self.trust.get((client, queue), 0) > self.now_ms]
            decision = self.locks.lock(self.now_ms, "g", client, queues, renews=renews)
            self.carry_out(decision)
            for _, *queue in (*decision.kept, *decision.taken):
                if kind == "lock":
                    self.trust[client, tuple(queue)] = self.now_ms + LEASE_MS

    def new_master(self, *, by_snapshot: bool) -> None:
        self.turn()
        heir = QueueLockTable(LEASE_MS)
        if by_snapshot:
            heir.load(self.locks.document())
        else:
            for event in self.log:
                heir.on_event(event, {})
        assert heir.document()["lockTable"] == self.locks.document()["lockTable"]
        self.locks = heir

    def check(self) -> None:
        for number in range(3):
            queue = ("t", number)
            trusting = [client for client in "abc" if self.trust.get((client, queue), 0) > self.now_ms]
            assert len(trusting) <= 1, f"{queue} is taken for their own by {trusting}"
            for client in "abc":
                may_commit = self.locks.first_not_of("g", client, [queue]) is None
                assert may_commit == (self.locks.owner("g", *queue) == client)
                assert may_commit or client not in trusting


@settings(max_examples=400)
@given(steps=st.lists(STEPS, max_size=40))
def test_no_two_clients_trust_in_one_queue(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for step in steps:
        world.step(*step)
        world.check()


@settings(max_examples=100)
@given(steps=st.lists(STEPS, max_size=20), client=CLIENTS)
def test_a_queue_is_to_be_had_again_one_lease_after_its_owner_fell_silent(
    steps: list[tuple[Any, ...]], client: str
) -> None:
    world = World()
    for step in steps:
        world.step(*step)
    world.step("tick")
    world.now_ms += LEASE_MS
    decision = world.locks.lock(world.now_ms, "g", client, [("t", 0), ("t", 1), ("t", 2)], renews=False)
    assert len(decision.kept) + len(decision.taken) == 3
