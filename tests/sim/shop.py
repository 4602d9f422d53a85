"""A shop whose orders are popped: the shipped stores, tables and handlers of three replicas under one seeded schedule.

Receivers pop, acknowledge, give back, ask for more time, or die; masters are killed, cut off and elected; answers are lost. All
along, no message that was acknowledged goes out again, none is with two receivers at a time, and in the ordered group none
overtakes another one of its key. In the end each message that was sent is handled, and all replicas know the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pop_kit import content
from pop_scene import Asked, Scene
from store_kit import StillClock, put, read_queue

from zenitmq.model.errors import NotMaster
from zenitmq.model.properties import encode_properties
from zenitmq.model.redelivery import dead_letter_topic
from zenitmq.record.kernel import encode_record

from .ledger import Violation
from .trio import SEGMENT, Trio

TOPIC: Final = "t"
QUEUES: Final = 2
KEYS: Final = 3
ORDERED: Final = "ordered"
GROUPS: Final = ("g", ORDERED)
INVISIBLE_MS: Final = (1000, 5000, 30_000)
SLACK_MS: Final = 1000
HEAL_ROUNDS: Final = 100


class Node(Scene):
    """One life of a replica."""

    def __init__(self, directory: Path, clock: StillClock, confirm: int) -> None:
        super().__init__(directory, clock, confirms=True, segment_bytes=SEGMENT)
        self.leads = self.is_master = False
        self.start = 0
        self.store.confirm(confirm)

    def confirm(self, offset: int) -> None:
        """What two hold may be read and answered."""
        self.store.confirm(offset)
        self.leads = self.is_master and offset >= self.start
        if self.is_master:
            self.turn()

    def depose(self) -> None:
        """Nobody is answered any more."""
        self.leads = self.is_master = False
        self.parts.acknowledgements.fail_all(NotMaster("broker-a", 1))
        self.pops.on_deposed()
        self.leases.on_deposed()

    def log(self) -> bytes:
        """All of it."""
        files = sorted((self.directory / "commitlog").iterdir())
        return b"".join(file.read_bytes() for file in files)[: self.store.written]


@dataclass(eq=False)
class Lease:
    """What a receiver knows: the n-th of `bodies` has bit n. Nobody else gets one before `until_ms`."""

    group: str
    handle: str
    bodies: list[bytes]


class Shop(Trio[Node]):
    """`run()` raises Violation."""

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        self.clock = StillClock()
        self.waiting: list[tuple[Asked, Callable[[Asked], None]]] = []
        self.numbers = 0
        self.sent: set[bytes] = set()
        self.leases: list[Lease] = []
        self.until_ms: dict[tuple[str, bytes], int] = {}
        self.done: set[tuple[str, bytes]] = set()  # it was said so
        self.maybe_done: set[tuple[str, bytes]] = set()  # somebody wanted it
        self.handed_out = self.again = 0

    def new_node(self, directory: Path, confirm: int) -> Node:
        """Opens a replica."""
        return Node(directory, self.clock, confirm)

    # ---- the run

    def run(self, steps: int) -> None:
        """Faults, then healing, then the count."""
        try:
            with ExitStack() as closing:
                closing.callback(self.close)
                self.begin()
                self._found()
                for _ in range(steps):
                    self.rng.choices(*self._choices)[0]()
                    self._hear()
                self._heal()
                self._count()
        except (AssertionError, ValueError, KeyError) as error:
            error.add_note(f"shop, seed {self.seed}")
            raise

    @property
    def _choices(self) -> tuple[list[Callable[[], None]], list[int]]:
        table: list[tuple[Callable[[], None], int]] = [
            (self._send, 20),
            (self._pop, 30),
            (self._ack, 20),
            (self._give_back, 5),
            (self._ask_for_time, 8),
            (self._forward, 2),
            (self.replicate, 60),
            (self._turn, 25),
            (self._persist, 4),
            (self.kill, 3),
            (self.start, 6),
            (self.isolate, 2),
            (self.fail_over, 5),
            (self.reconnect, 4),
        ]
        return [action for action, _ in table], [weight for _, weight in table]

    def _found(self) -> None:
        node = self.nodes[0]
        assert node is not None
        node.create(TOPIC, QUEUES)
        for group in GROUPS:
            node.allow(10_000, group)
        node.turn()
        for _ in range(20):
            self.replicate()

    # ---- clients

    def _leading(self) -> Node | None:
        node = self.leader()
        return node if node is not None and node.leads else None

    def _send(self) -> None:
        node = self._leading()
        if node is None:
            return
        number = self.numbers
        self.numbers += 1
        body = b"%d" % number
        record = encode_record(
            topic=TOPIC.encode(), body=body, properties=encode_properties({"__SHARDINGKEY": f"k{key_of(body)}"})
        )
        put(node.store, TOPIC, number % KEYS % QUEUES, record)
        sent = self.sent

        def on_stored(error: Exception | None) -> None:
            if error is None:
                sent.add(body)

        node.parts.acknowledgements.when_promised(int(node.store.written), on_stored)
        node.turn()

    def _ask(self, node: Node, asked: Asked, then: Callable[[Asked], None]) -> None:
        node.turn()
        if self.rng.random() < 0.9:  # else the answer is lost
            self.waiting.append((asked, then))

    def _hear(self) -> None:
        waiting, self.waiting = self.waiting, []
        for asked, then in waiting:
            if not asked.is_answered:
                self.waiting.append((asked, then))
            elif asked.error is None:
                then(asked)

    def _pop(self) -> None:
        node = self._leading()
        if node is None:
            return
        group = self.rng.choice(GROUPS)
        invisible_ms = self.rng.choice(INVISIBLE_MS)
        asked_ms = self.clock.time_ms

        def on_popped(asked: Asked) -> None:
            bodies = iter(asked.bodies)
            for _, count, handle, attempts in asked.reply.parts:
                lease = Lease(group, handle, [next(bodies) for _ in range(count)])
                self.leases.append(lease)
                self.again += sum(map(bool, attempts))
                for body in lease.bodies:
                    self._on_handed_out(group, body, asked_ms + invisible_ms)

        count = self.rng.choice((1, 3, 32))
        asked = node.pop(count, group=group, topic=TOPIC, invisible_ms=invisible_ms, is_ordered=group == ORDERED)
        self._ask(node, asked, on_popped)

    def _on_handed_out(self, group: str, body: bytes, until_ms: int) -> None:
        self.handed_out += 1
        if (group, body) in self.done:
            raise Violation(f"{body!r} goes out again in {group}, it was acknowledged")
        if self.clock.time_ms < self.until_ms.get((group, body), 0):
            raise Violation(f"{body!r} goes out in {group}, it is leased until {self.until_ms[group, body]}")
        self.until_ms[group, body] = until_ms
        if group == ORDERED:
            for other in range(int(body)):
                name = ORDERED, b"%d" % other
                if other % KEYS == key_of(body) and name[1] in self.sent and name not in self.maybe_done:
                    raise Violation(f"{body!r} overtakes {other}")

    def _some_of(self) -> tuple[Node, Lease, int] | None:
        node = self._leading()
        if node is None or not self.leases:
            return None
        lease = self.rng.choice(self.leases[-40:])
        return node, lease, self.rng.randrange(1, 1 << len(lease.bodies)) if self.rng.random() < 0.3 else -1

    def _ack(self) -> None:
        if some := self._some_of():
            node, lease, bits = some
            self._acknowledge(node, lease, bits & ((1 << len(lease.bodies)) - 1))

    def _acknowledge(self, node: Node, lease: Lease, bits: int) -> None:
        names = [(lease.group, body) for index, body in enumerate(lease.bodies) if bits >> index & 1]
        self.maybe_done.update(names)

        def on_acked(asked: Asked) -> None:
            if asked.reply.rows[0][0] == 0:
                self.done.update(names)

        self._ask(node, node.ack((lease.handle, bits), group=lease.group, topic=TOPIC), on_acked)

    def _give_back(self) -> None:
        if some := self._some_of():
            node, lease, bits = some
            bits &= (1 << len(lease.bodies)) - 1
            for body in lease.bodies:
                self.until_ms.pop((lease.group, body), None)
            self._ask(node, node.release((lease.handle, bits), group=lease.group, topic=TOPIC), lambda _: None)

    def _ask_for_time(self) -> None:
        if some := self._some_of():
            node, lease, _ = some
            index, invisible_ms = self.rng.randrange(len(lease.bodies)), self.rng.choice((0, *INVISIBLE_MS))
            body, until_ms = lease.bodies[index], self.clock.time_ms + invisible_ms
            self.until_ms.pop((lease.group, body), None)  # until it is heard what became of it

            def on_changed(asked: Asked) -> None:
                if asked.reply.handle:
                    self.leases.append(Lease(lease.group, asked.reply.handle, [body]))
                    self.until_ms[lease.group, body] = until_ms

            asked = node.change(lease.handle, index, invisible_ms, group=lease.group, topic=TOPIC)
            self._ask(node, asked, on_changed)

    def _forward(self) -> None:
        if some := self._some_of():
            node, lease, _ = some
            index = self.rng.randrange(len(lease.bodies))
            name = lease.group, lease.bodies[index]
            self.maybe_done.add(name)
            self._ask(
                node, node.forward(lease.handle, index, group=lease.group, topic=TOPIC), lambda _: self.done.add(name)
            )

    # ---- brokers

    def _turn(self) -> None:
        self._pass_ms(self.rng.choice((0, 100, 1000, 5000)))

    def _pass_ms(self, ms: int) -> None:
        """All see the same time; whoever leads acts on it."""
        begin_ms = self.clock.time_ms
        for node in self.nodes:
            if node is not None:
                self.clock.time_ms = begin_ms
                node.pass_ms(ms)
        self.clock.time_ms = begin_ms + ms

    def _persist(self) -> None:
        node = self.rng.choice(self.nodes)
        if node is not None:
            node.state.persist_confirmed(node.store.confirm_offset)

    # ---- the end

    def _heal(self) -> None:
        """All comes back within its time, and is handled."""
        for round_ in range(HEAL_ROUNDS):
            self.reconnect()
            for _ in self.nodes:
                self.start()
            self.fail_over()
            for _ in range(10):
                self.replicate()
            self._hear()
            if round_ == 0:
                self._pass_ms(max(INVISIBLE_MS) + SLACK_MS)
                continue
            master = self.nodes[self.master]
            assert master is not None
            if master.leads and self._drain(master):
                return
            self._pass_ms(100)
        raise Violation("some do not come back")

    def _drain(self, master: Node) -> bool:
        is_empty = True
        self.leases.clear()
        for group in GROUPS:
            asked = master.pop(32, group=group, topic=TOPIC, invisible_ms=43_200_000, is_ordered=group == ORDERED)
            master.turn()
            self._pass_ms(100)
            for _ in range(10):
                self.replicate()
            if asked.error is not None:
                return False
            bodies = iter(asked.bodies)
            for _, count, handle, _ in asked.reply.parts if asked.reply else ():
                lease = Lease(group, handle, [next(bodies) for _ in range(count)])
                for body in lease.bodies:
                    self._on_handed_out(group, body, self.clock.time_ms)
                self._acknowledge(master, lease, (1 << count) - 1)
                is_empty = False
        for _ in range(10):
            self.replicate()
        self._hear()
        return is_empty and len({node.log() for node in self.nodes if node is not None}) == 1

    def _count(self) -> None:
        contents = []
        for node in self.nodes:
            assert node is not None
            contents.append(content(node.state.pop_table))
            for group in GROUPS:
                letters = {one.body for one in read_queue(node.store, dead_letter_topic(group), 0)}
                lost = {body for body in self.sent if (group, body) not in self.maybe_done and body not in letters}
                if lost:
                    raise Violation(f"lost in {group}: {lost}")
            if any(not queue.is_idle for _, queue in node.state.pop_table.all_queues()):
                raise Violation("something is leased or available in the end")
        if contents[0] != contents[1] or contents[1] != contents[2]:
            raise Violation(f"replicas know different things: {contents}")


def key_of(body: bytes) -> int:
    """Of the message."""
    return int(body) % KEYS
