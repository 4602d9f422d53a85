"""Members that come, go and vanish, notices that are late or lost, a broker that forgets: whatever happens, no message is
lost, none is handled by two members that have seen the same change, and in the end every queue has one owner.

The members are `Assignment` and the broker's is `ClientRegistry`, as shipped; between them is a network of a dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.broker.state.client_registry import ClientInfo, ClientRegistry
from zenitmq.client.connection.membership import Member
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.client.consuming.allocation import ALLOCATIONS
from zenitmq.client.consuming.assignment import Assignment
from zenitmq.model.errors import RequestTimeout
from zenitmq.model.queue import MessageQueue
from zenitmq.model.route import BrokerData, QueueData, TopicRoute
from zenitmq.remoting.commands import ConsumerListReply, GetConsumerList, Request

HEARTBEAT_MS, SETTLED_MS, LOOK_MS, AGAIN_MS = 100, 200, 700, 7
QUEUES, MESSAGES = 5, 40
ROUTE = TopicRoute("t", (QueueData("b", QUEUES, QUEUES, 6),), (BrokerData("z", "b", {0: "b:1"}),))
NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("join"), NAMES),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("vanish"), NAMES),
    st.tuples(st.just("look"), NAMES),
    st.tuples(st.just("handle"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("commit"), NAMES),
    st.tuples(st.just("lose notices")),
    st.tuples(st.just("new master")),
    st.tuples(st.just("wait"), st.integers(1, 150)),
)


@dataclass
class Consumer:
    """One member as a consumer is: where it stands in each of its queues, and what it knows."""

    name: str
    share: Assignment
    member: Member
    positions: dict[MessageQueue, int] = field(default_factory=dict)
    seen: int = -1  # the change of the group that it saw last
    is_stale: bool = True
    has_looked: bool = False
    look_again_ms: int = 0


class World:
    """The broker, its clock, what the group has committed, and what was handled by whom."""

    def __init__(self, allocation: str) -> None:
        self.allocation = allocation
        self.now_ms = 0
        self.led_since_ms = -SETTLED_MS
        self.registry = ClientRegistry(heartbeat_ms=HEARTBEAT_MS, clients_max=100)
        self.change = 0
        self.loses_notices = False
        self.consumers: dict[str, Consumer] = {}
        self.silent: list[Consumer] = []
        self.committed: dict[MessageQueue, int] = {}
        self.handled: dict[tuple[MessageQueue, int], list[tuple[str, int]]] = {}
        self.serial = 0

    # ---- the network, as Assignment uses it

    @property
    def routes(self) -> World:
        return self

    @property
    def members(self) -> World:
        return self

    async def route(self, _topic: str, _waits: object, *, timeout_ms: int) -> TopicRoute:
        return ROUTE

    async def announce(self, member: Member, _addresses: list[str], _waits: object, *, timeout_ms: int) -> None:
        self.beat(member)

    async def call(self, _address: str, request: Request, *, timeout_ms: int) -> tuple[Any, bytes]:
        if not isinstance(request, GetConsumerList):
            raise RequestTimeout("b", timeout_ms)
        if not request.topic:
            return ConsumerListReply(self.registry.members(request.group)), b""
        is_settled = self.now_ms - self.led_since_ms >= SETTLED_MS
        sharers = self.registry.sharers(request.group, request.topic)
        return ConsumerListReply(tuple(member.client_id for member in sharers), is_settled), b""

    def beat(self, member: Member) -> None:
        assert member.consumer is not None
        changed = self.registry.on_heartbeat(
            self.now_ms,
            client_id=member.client_id,
            identity=b"",
            producers=(),
            consumers=(member.consumer,),
            info=ClientInfo(allocation=member.allocation),
        )
        self.tell(changed)

    def tell(self, changed: list[str]) -> None:
        if changed:
            self.change += 1
            for consumer in self.consumers.values():
                if not self.loses_notices:
                    consumer.is_stale = True

    # ---- what happens

    def step(self, kind: str, *rest: Any) -> None:
        name = rest[0] if rest else None
        if kind == "join" and name not in self.consumers:
            self.join(name)
        elif kind == "lose notices":
            self.loses_notices = not self.loses_notices
        elif kind == "new master":
            self.registry.forget_all()
            self.led_since_ms = self.now_ms
            self.change += 1
        elif kind == "wait":
            self.wait(rest[0])
        elif name in self.consumers:
            consumer = self.consumers[name]
            if kind == "leave":
                self.leave(consumer)
            elif kind == "vanish":
                self.silent.append(self.consumers.pop(name))
            elif kind == "look":
                self.look(consumer)
            elif kind == "commit":
                self.commit(consumer, list(consumer.positions))
            elif kind == "handle":
                self.handle(consumer, rest[1])

    def join(self, name: str) -> None:
        self.serial += 1
        member = Member(
            f"{name}{self.serial}", consumer=("g", "CLUSTERING", (("t", "TAG", "*"),)), allocation=self.allocation
        )
        world: Any = self
        share = Assignment(world, world, "g", member.client_id, ALLOCATIONS[self.allocation])
        self.consumers[name] = Consumer(member.client_id, share, member)

    def leave(self, consumer: Consumer) -> None:
        self.commit(consumer, list(consumer.positions))
        del self.consumers[consumer.name[0]]
        self.tell(self.registry.on_unregister(consumer.member.client_id))

    def look(self, consumer: Consumer) -> None:
        """What `_move_queues` does."""
        consumer.is_stale, consumer.has_looked = False, True
        queues, are_known = run_blocking(consumer.share.queues_of(["t"], consumer.member, timeout_ms=1))
        if not are_known:
            consumer.share.forget_announcements()
        consumer.look_again_ms = self.now_ms + (LOOK_MS if are_known else AGAIN_MS)
        if are_known:
            consumer.seen = self.change
        lost = [queue for queue in consumer.positions if queue not in queues]
        self.commit(consumer, lost)
        for queue in lost:
            del consumer.positions[queue]
        for queue in queues:
            consumer.positions.setdefault(queue, self.committed.get(queue, 0))

    def commit(self, consumer: Consumer, queues: list[MessageQueue]) -> None:
        for queue in queues:
            self.committed[queue] = max(self.committed.get(queue, 0), consumer.positions[queue])

    def handle(self, consumer: Consumer, count: int) -> None:
        """A poll: it looks first where that is due."""
        if consumer.is_stale or self.now_ms >= consumer.look_again_ms:
            self.look(consumer)
        for queue in sorted(consumer.positions)[:count]:
            offset = consumer.positions[queue]
            if offset < MESSAGES:
                self.handled.setdefault((queue, offset), []).append((consumer.name, consumer.seen))
                consumer.positions[queue] += 1

    def wait(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + HEARTBEAT_MS // 2)
            for consumer in self.consumers.values():
                if consumer.has_looked:
                    self.beat(consumer.member)
            self.tell(self.registry.on_tick(self.now_ms))

    def settle(self) -> None:
        """Nothing happens any more, but what time brings."""
        for _ in range(3 * LOOK_MS // HEARTBEAT_MS):
            self.wait(HEARTBEAT_MS)
            for consumer in self.consumers.values():
                self.handle(consumer, 0)


@settings(max_examples=250)
@given(steps=st.lists(STEPS, max_size=40), allocation=st.sampled_from(sorted(ALLOCATIONS)))
def test_every_message_is_handled_and_by_one_of_those_who_have_seen_a_change(
    steps: list[tuple[Any, ...]], allocation: str
) -> None:
    world = World(allocation)
    for step in steps:
        world.step(*step)
    world.step("join", "a")
    world.settle()
    owned = [queue for consumer in world.consumers.values() for queue in consumer.positions]
    assert sorted(owned) == ROUTE.read_queues(), "every queue has one owner"
    for _ in range(MESSAGES):
        for consumer in world.consumers.values():
            world.handle(consumer, QUEUES)
    for queue in ROUTE.read_queues():
        for offset in range(MESSAGES):
            handlings = world.handled.get((queue, offset), [])
            assert handlings, f"{queue} {offset} is lost"
            for index, (name, seen) in enumerate(handlings):
                both = [other for other, as_seen in handlings[:index] if other != name and as_seen == seen]
                assert not both, f"{queue} {offset} by {name} and {both}, who have seen the same"


@settings(max_examples=50)
@given(looks=st.lists(st.tuples(NAMES, st.integers(1, 60)), max_size=12))
def test_a_new_master_moves_no_queue_of_members_that_stay(looks: list[tuple[str, int]]) -> None:
    """Each reports to it in time, and meanwhile looks when it likes."""
    world = World("averaging")
    for name in "abcd":
        world.step("join", name)
    world.settle()
    before = {name: set(consumer.positions) for name, consumer in world.consumers.items()}
    world.step("new master")
    for name, duration_ms in looks:
        world.step("look", name)
        world.step("wait", duration_ms)
        assert {name: set(consumer.positions) for name, consumer in world.consumers.items()} == before


def test_a_member_that_did_not_come_along_is_done_without_once_the_new_master_is_settled() -> None:
    world = World("averaging")
    for name in "ab":
        world.step("join", name)
    world.settle()
    world.step("vanish", "b")
    world.step("new master")
    world.step("look", "a")
    assert len(world.consumers["a"].positions) < QUEUES
    world.settle()
    assert len(world.consumers["a"].positions) == QUEUES


def test_who_reads_all_queues_by_itself_is_known_and_shares_nothing() -> None:
    world = World("averaging")
    world.step("join", "a")
    world.settle()
    network: Any = world
    member = Member("all", consumer=("g", "BROADCASTING", (("t", "TAG", "*"),)))
    share = Assignment(network, network, "g", "all", lambda _client_id, _members, queues: queues)
    assert run_blocking(share.queues_of(["t"], member, timeout_ms=1)) == (ROUTE.read_queues(), True)
    world.settle()
    assert len(world.consumers["a"].positions) == QUEUES
