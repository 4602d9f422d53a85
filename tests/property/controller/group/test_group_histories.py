"""Random histories of one group: nothing acknowledged is ever missing at a later master, and the node keeps its rules.

The controller's own functions decide, over the model of ZooKeeper, by two controllers of which either may act on an old
reading, with writes whose answers are lost or that arrive late. Replicas are reduced to what matters here: a log, an
epoch, a life, and the rules by which a master acknowledges (R1, R6-R8). Machines lose power, are killed, wiped, and set back
to an older image of their disk, as long as one of the electable holds everything: more than that no rule survives.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from sim.model_zookeeper import Loss, ModelStore, ModelZooKeeper

from zenitmq.controller.group.group_settings import change_settings
from zenitmq.controller.group.group_state import alter_in_sync, elect, electable, remove_replica
from zenitmq.controller.group.registration import register
from zenitmq.controller.group_store import Unknown
from zenitmq.model.errors import StartCounterBehind, ZenitError
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, KnownGroup
from zenitmq.remoting.commands import AlterInSync, ChangeGroup, RegisterReplica, RemoveReplica

GROUP = "broker-a"
SETTINGS = GroupSettings(min_in_sync=2)
STEPS = 800
SEEDS = 150


@dataclass
class Process:
    """One replica: its disk, and the process that runs on it."""

    name: str
    store_id: str
    log: list[tuple[int, int]] = field(default_factory=list)  # (epoch, number) of each record
    starts: int = 1
    token: str = "first"  # of the process
    epoch: int = 0  # persisted
    dirty: bool = False  # lost power, and no registration was seen since
    set_back: bool = False  # was told that its disk is older than its group's memory, and the same
    awaits_hearing: bool = False  # its disk is an image, and no controller has told it so: a documented window
    known: KnownGroup | None = None
    leads: bool = False
    positions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # of this term's sessions
    proposed: frozenset[str] = frozenset()
    proposed_on: int = -1
    image: tuple[list[tuple[int, int]], int, int] = ([], 0, 0)  # log, epoch and starts, as a copy of the disk has them

    @property
    def life(self) -> Incarnation:
        return Incarnation(self.store_id, self.starts)

    def start(self, token: str) -> None:
        self.starts += 1
        self.token = token
        self.known, self.leads, self.positions, self.proposed = None, False, {}, frozenset()


class History:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.zookeeper = ModelZooKeeper()
        self.controllers: list[ModelStore] = [self.zookeeper.store(lambda _: None) for _ in range(2)]
        self.observer = self.zookeeper.store(lambda _: None)
        self.cached: list[KnownGroup | None] = [None, None]
        self.processes = {name: Process(name, f"store-{name}") for name in "abc"}
        self.acknowledged: set[tuple[int, int]] = set()
        self.numbers = 0
        self.done: list[str] = []
        self.counts: Counter[str] = Counter()
        self.seen: KnownGroup | None = None
        self.sent: list[AlterInSync] = []

    # ---- one step

    def step(self) -> None:
        actions = {
            self.learn: 14,
            self.append: 8,
            self.copy: 18,
            self.acknowledge: 8,
            self.propose: 8,
            self.register: 8,
            self.elect: 3.5,
            self.refresh: 12,
            self.kill: 0.4,
            self.lose_power: 0.6,
            self.wipe: 0.4,
            self.change_settings: 0.3,
            self.set_back: 0.5,
            self.repeat_proposal: 1,
            self.remove: 0.2,
            self.carry_out_late: 1,
        }
        action = self.random.choices(list(actions), list(actions.values()))[0]
        action()
        self.check_node()

    def note(self, text: str) -> None:
        self.done.append(text)
        self.counts[text.split()[0]] += 1

    def any_process(self) -> Process:
        return self.random.choice(list(self.processes.values()))

    def node(self) -> GroupNode | None:
        known = self.observer.read(GROUP)
        return None if known is None else known.node

    # ---- controllers

    def controller(self) -> tuple[ModelStore, KnownGroup | None]:
        number = self.random.randrange(2)
        store = self.controllers[number]
        if self.random.random() < 0.1:
            store.next_write = self.random.choice(list(Loss))
        return store, self.cached[number]

    def refresh(self) -> None:
        number = self.random.randrange(2)
        self.cached[number] = self.controllers[number].read(GROUP)

    def write(self, store: ModelStore, node: GroupNode, version: int | None, why: str) -> None:
        outcome = store.create(node) if version is None else store.write(node, version)
        self.note(f"{why}: {type(outcome).__name__}{' ' + outcome.reason if isinstance(outcome, Unknown) else ''}")

    def carry_out_late(self) -> None:
        self.zookeeper.carry_out_late()

    def elect(self) -> None:
        """Anybody whom the rules allow, dead or alive: a controller's belief may be wrong."""
        store, known = self.controller()
        if known is None:
            return
        name, dead = self.any_process().name, self.random.random() < 0.7
        try:
            node = elect(known.node, name, old_master_is_dead=dead, epoch_seen=0)
        except ZenitError:
            return
        self.write(store, node, known.version, f"elect {name} on {known.version}")

    def change_settings(self) -> None:
        store, known = self.controller()
        if known is None:
            return
        wanted = str(self.random.choice([1, 2, 2, 3]))
        request = ChangeGroup(GROUP, known.version, (("min_in_sync", wanted),))
        try:
            node = change_settings(known, request, flushed=frozenset(), epoch_seen=0)
        except ZenitError:
            return
        self.write(store, node, known.version, f"minimum {wanted}")

    def remove(self) -> None:
        store, known = self.controller()
        name = self.any_process().name
        if known is None:
            return
        try:
            node = remove_replica(known, RemoveReplica(GROUP, known.version, name))
        except ZenitError:
            return
        self.write(store, node, known.version, f"remove {name}")

    def register(self) -> None:
        process = self.any_process()
        store, known = self.controller()
        request = RegisterReplica(
            GROUP,
            process.name,
            f"{process.name}:1",
            f"{process.name}:2",
            process.store_id,
            process.starts,
            life=process.token,
            epoch=process.epoch,
            log_end=len(process.log),
            clean_marker=False,
            marker_end=-1,
            same_boot=not process.dirty,
            ran_async=True,
            set_back=process.set_back,
        )
        try:
            made = register(None if known is None else known.node, request, settings=SETTINGS, present_is_alive=False)
        except StartCounterBehind as behind:
            process.set_back, process.starts, process.awaits_hearing = True, behind.current + 1, False
            return
        except ZenitError:
            return
        if not made.repeated:
            self.write(store, made.node, None if known is None else known.version, f"register {process.name}")

    # ---- replicas

    def learn(self) -> None:
        """A process reads the node; it is elected if the node names its life in an epoch it has not seen."""
        process = self.any_process()
        known = self.observer.read(GROUP)
        if known is None or (process.known is not None and known.version <= process.known.version):
            return
        present = known.node.replica(process.name)
        if present is None or (present.incarnation, present.life) != (process.life, process.token):
            return  # it has to register first
        process.dirty = process.set_back = False
        if known.version > process.proposed_on:
            process.proposed = frozenset()
        node = known.node
        if node.epoch > process.epoch:
            process.epoch = node.epoch
            process.leads = node.master == process.name and node.master_incarnation == process.life
            process.positions = {}
            process.proposed = frozenset()
            if process.leads:
                self.note(f"term {process.name} of epoch {node.epoch}")
                lost = self.acknowledged - set(process.log)
                assert not lost, f"acknowledged, but missing at the new master: {sorted(lost)}"
        process.known = known

    def masters(self) -> list[Process]:
        return [process for process in self.processes.values() if process.leads]

    def append(self) -> None:
        for master in self.masters():
            self.numbers += 1
            master.log.append((master.epoch, self.numbers))

    def copy(self) -> None:
        """A slave takes its master's log over, what it had beside it is gone; the master hears of it."""
        slave = self.any_process()
        if slave.known is None or slave.leads or slave.known.node.master is None:
            return
        master = self.processes[slave.known.node.master]
        if master.leads and master.epoch == slave.epoch and master is not slave:
            slave.log = list(master.log)
            known = master.known
            present = known.node.replica(slave.name) if known is not None else None
            if present is not None and present.incarnation == slave.life:  # a session of a life that the master knows
                master.positions[slave.name] = list(slave.log)

    def acknowledge(self) -> None:
        """Everything that all of the union hold, where enough are in sync (R6, R8)."""
        for master in self.masters():
            known = master.known
            if known is None or len(known.node.in_sync) < known.node.settings.min_in_sync:
                continue
            others = (frozenset(known.node.in_sync) | master.proposed) - {master.name}
            held = set(master.log)
            for name in others:
                held &= set(master.positions.get(name, []))
            self.counts["acknowledged"] += len(held - self.acknowledged)
            self.acknowledged |= held

    def propose(self) -> None:
        """The master shrinks or expands its in-sync set; who expands it is in the union before (R7)."""
        master = self.random.choice(self.masters() or [None])
        if master is None or master.known is None:
            return
        current = set(master.known.node.in_sync)
        name = self.any_process().name
        if name in current:
            current.discard(name)
        elif set(master.positions.get(name, [])) == set(master.log) and name in master.positions:
            current.add(name)
            master.proposed |= {name}
            master.proposed_on = master.known.version
        request = AlterInSync(
            GROUP,
            master.known.version,
            master.epoch,
            master.name,
            master.store_id,
            master.starts,
            tuple(sorted(current)),
        )
        self.sent.append(request)
        self.alter(request)

    def repeat_proposal(self) -> None:
        """A copy of an old proposal arrives."""
        if self.sent:
            self.alter(self.random.choice(self.sent[-5:]))

    def alter(self, request: AlterInSync) -> None:
        store, known = self.controller()
        if known is None:
            return
        try:
            node = alter_in_sync(known, request)
        except ZenitError:
            return
        self.write(store, node, known.version, f"alter {request.in_sync} built on {request.version}")

    def kill(self) -> None:
        process = self.any_process()
        if not process.awaits_hearing:
            self.restart(process, "kill")

    def restart(self, process: Process, why: str) -> None:
        for other in self.processes.values():  # its sockets are closed
            other.positions.pop(process.name, None)
        self.numbers += 1
        process.start(f"life-{self.numbers}")
        self.note(f"{why} {process.name}")

    def lose_power(self) -> None:
        process = self.any_process()
        kept = process.log[: self.random.randint(0, len(process.log))]
        if self.survives_without(process) and not process.awaits_hearing:
            process.log, process.dirty = kept, True
            self.restart(process, f"power at {len(kept)}")

    def wipe(self) -> None:
        process = self.any_process()
        if self.survives_without(process):
            process.log, process.epoch, process.dirty, process.awaits_hearing = [], 0, False, False
            process.starts = self.random.choice([0, process.starts + 5])
            process.image = ([], 0, process.starts)
            self.numbers += 1
            process.store_id = f"store-{process.name}-{self.numbers}"
            self.restart(process, "wipe")

    def set_back(self) -> None:
        """An image of the disk is taken, or put back. One that holds the last life that was registered would pass for
        sound: no rule tells that, so that only older ones are put back."""
        process, node = self.any_process(), self.node()
        present = None if node is None else node.replica(process.name)
        if present is None or present.incarnation != process.life:
            return
        if process.starts > process.image[2] and self.survives_without(process):
            log, process.epoch, process.starts = process.image
            process.log, process.awaits_hearing = list(log), True
            self.restart(process, "image")
        elif self.random.random() < 0.3:
            process.image = (list(process.log), process.epoch, process.starts)

    def survives_without(self, lost: Process) -> bool:
        """Whether another that can be elected holds all that was acknowledged, in the life that is registered."""
        node = self.node()
        if node is None:
            return False
        for name in electable(node) - {lost.name}:
            other, present = self.processes[name], node.replica(name)
            sound = present is not None and present.incarnation == other.life and present.life == other.token
            if sound and self.acknowledged <= set(other.log):
                return True
        return False

    # ---- what always holds

    def check_node(self) -> None:
        known = self.observer.read(GROUP)
        if known is None:
            return
        before, self.seen = self.seen, known
        node = known.node
        assert not set(node.in_sync) & set(node.eligible)
        assert len(node.in_sync) < node.settings.min_in_sync or not node.eligible
        assert electable(node) or node.last is not None, "nobody is electable, and nobody knows whom to ask"
        assert {*node.in_sync, *node.eligible} <= {replica.name for replica in node.replicas}
        if before is None:
            assert known.version == 0
            return
        old = before.node
        assert known.version - before.version in (0, 1)
        if (node.master, node.master_incarnation) != (old.master, old.master_incarnation):
            assert node.epoch == old.epoch + 1, "a master without an epoch of its own"
        if node.epoch != old.epoch:
            assert node.epoch == old.epoch + 1
            assert node.master in electable(old), "elected from outside both sets"
            assert node.master in node.in_sync
            present = node.replica(node.master or "")
            assert present is not None
            assert node.master_incarnation == present.incarnation


def run(seed: int) -> History:
    history = History(seed)
    for _ in range(STEPS):
        try:
            history.step()
        except AssertionError as error:
            story = "\n".join(history.done[-40:])
            raise AssertionError(
                f"seed {seed}: {error}\nthe last of what was done:\n{story}\n{history.node()}"
            ) from error
    return history


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_missing_at_a_later_master(seed: int) -> None:
    run(seed)


def test_histories_are_worth_their_time() -> None:
    """They elect, acknowledge, forget and lose answers often enough to find something."""
    total: Counter[str] = Counter()
    for seed in range(20):
        total += run(seed).counts
    for what, often in {"term": 60, "acknowledged": 200, "alter": 200, "power": 50, "wipe": 30, "remove": 5}.items():
        assert total[what] >= often, total
