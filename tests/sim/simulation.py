"""One seed: brokers, controllers, ZooKeeper, producers and a consumer under one schedule; faults, then healing.

Faults come for a while of virtual time, then stop; within HEAL_MS of it the group must be whole: every log the same,
all of it readable everywhere, all replicas in sync, and a new message acknowledged (I5). All along, the ledger checks
what the events change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final
from unittest.mock import patch

from zenitmq.broker.replication import chunk_pacing, epochs
from zenitmq.model.errors import NotMaster, ZenitError
from zenitmq.model.groups.group import GroupNode

from .ambush import Ambush
from .broker import GROUP, Broker, World, node_of
from .clients import Consumer, Producer
from .controller import Controller, SlowZooKeeper
from .disk import Disk
from .faults import Faults
from .ledger import Ledger, Violation
from .link import WatchedLink
from .network import SimulatedNetwork
from .records import RECORD, decode
from .schedule import MS, Died, Host, Schedule
from .sockets import SimulatedRouter
from .swarm import Swarm
from .wire import SimulatedLoop

HEAL_MS: Final = 40_000
RESTART_MS: Final = 200
"""Until a process that could not start is started again."""
REOPEN_MS: Final = 20
"""A store is closed and opened anew within it, where its disk does not hang."""
NEVER_US: Final = 3600 * 1000 * MS
FOLLOWED_SEEDS: Final = 8
"""In one of so many seeds the last broker is a follower."""
FEW_ROWS: Final = 2
"""In some runs: lists of epochs lose the rows whose bytes retention has deleted after a few elections, not after a thousand."""


class Simulation(World):
    """`Simulation(seed).run()`; raises Violation. `trace`: told what happens, in words."""

    def __init__(self, seed: int, *, trace: Callable[[str], None] | None = None, swarm: Swarm | None = None) -> None:
        """`swarm`: the conditions; drawn from the seed where they are not given."""
        self.seed = seed
        self.schedule = Schedule(seed)
        self.schedule.on_died = self._on_died
        self.rng = self.schedule.rng
        self.swarm = swarm = swarm or Swarm.of(self.rng)
        if seed % FOLLOWED_SEEDS == 1 and len(swarm.names) > 2:
            swarm.followers = frozenset(swarm.names[-1:])
        self.trace = trace
        self.network = SimulatedNetwork(self.schedule, swarm.weather)
        self.ledger = Ledger()
        self.is_forced = False
        self.zookeeper = SlowZooKeeper(self.schedule, swarm.zookeeper_ms)
        self.damage_rate = swarm.damage_rate
        self.disk_latency_ms = swarm.disk_latency_ms
        self.disks = {name: Disk(name, f"store-{name}-0") for name in swarm.names}
        self.brokers: dict[str, Broker] = {}
        self.route = ""
        self._route_epoch = 0
        self.told: list[tuple[int, int, int]] = []  # (producer, sequence, offset) of what was acknowledged
        self.producers: list[Producer] = []
        self.healing = False
        self._number = 0
        self.controllers = [self._new_controller(number) for number in range(swarm.controllers)]
        for name in swarm.names:
            self.schedule.after_us(swarm.late_start[name] * MS, partial(self.start_broker, name))
        self.producers = [Producer(self, number, pause_ms=swarm.pause_ms) for number in range(swarm.producers)]
        self.consumer = Consumer(self, pause_ms=swarm.consumer_ms)
        self.faults = Faults(self)
        self.ambush = Ambush(self, swarm.ambush_rate)

    # ---- the run

    def run(self) -> None:
        """Faults, healing, checks. Raises Violation, whose note says how to see it again."""
        try:
            with ExitStack() as patched:
                chunk_bytes = self.swarm.chunk_records * RECORD
                patched.enter_context(patch.object(chunk_pacing, "CHUNK_BYTES", chunk_bytes))
                if self.seed % 4 == 3:
                    patched.enter_context(patch.object(epochs, "ROWS_KEPT", FEW_ROWS))
                self.schedule.run(self.swarm.chaos_ms * MS)
                self._heal()
                self._check_end()
        except (AssertionError, ValueError) as error:
            error.add_note(f"seed {self.seed}; see it again: python -m tests.sim --seed {self.seed} --trace")
            raise

    def _heal(self) -> None:
        self.say("healing begins")
        self.healing = True
        self.faults.heal()
        self.network.heal()
        self.zookeeper.delay_ms = 2.0
        self.damage_rate = 0.0
        for producer in self.producers:
            producer.stopping = True
        deadline_us = self.schedule.now_us + HEAL_MS * MS
        self.schedule.run(deadline_us, stop=self.is_whole)
        if not self.is_whole():
            raise Violation(f"I5: no convergence\n{self.picture()}")
        self._send_a_last_one(deadline_us)

    def _send_a_last_one(self, deadline_us: int) -> None:
        """A group that is whole takes a message."""
        count = len(self.told)
        last = Producer(self, len(self.producers), pause_ms=5)  # some are paused still: it sends until one is told of

        def is_done() -> bool:
            last.stopping = len(self.told) > count
            return last.stopping and self.is_whole()

        self.schedule.run(deadline_us, stop=is_done, stop_every=50)
        if len(self.told) == count:
            raise Violation(f"I5: a group that is whole takes no message\n{self.picture()}")
        if not self.is_whole():
            raise Violation(f"I5: no convergence after a message\n{self.picture()}")

    def is_whole(self) -> bool:
        """All logs are one, all of it is readable everywhere, all are in sync."""
        node = self.node()
        if node is None or len(self.brokers) < len(self.swarm.names) or len(node.replicas) < len(self.swarm.names):
            return False
        if node.in_sync != tuple(replica.name for replica in node.members):
            return False
        logs = [broker.replica.log for broker in self.brokers.values()]
        end = logs[0].end
        if any(log.end != end or log.confirm != end for log in logs):
            return False
        if not any(broker.replica.master is not None for broker in self.brokers.values()):
            return False
        begin = max(disk.begin for disk in self.disks.values())
        first = self.disks[self.swarm.names[0]].log[begin:]
        return all(disk.log[begin:] == first for disk in self.disks.values())

    def _check_end(self) -> None:
        for broker in self.brokers.values():
            broker.check()
        log = self.disks[self.swarm.names[0]].log
        if log != self.ledger.seen.data and not self.disks[self.swarm.names[0]].begin:
            raise Violation("I3: the log is not what was seen")
        if not self.ledger.counts_acks:
            return
        for producer, sequence, offset in self.told:
            record = decode(self.ledger.seen.data, offset)
            if (record.producer, record.sequence) != (producer, sequence):
                raise Violation(f"I1: message {sequence} of producer {producer} is not at {offset}")

    # ---- processes

    def start_broker(self, name: str) -> None:
        """The next life of a broker, where none lives."""
        if name in self.brokers:
            return
        disk, swarm = self.disks[name], self.swarm
        try:
            broker = Broker(
                self,
                name,
                disk,
                rate=swarm.clock_rates[name],
                flush_ms=swarm.flush_ms,
                wants_lz4=name in swarm.lz4,
                is_follower=name in swarm.followers and not self._counts(name),
            )
        except OSError as error:
            self.say("%s cannot start: %s", name, error)
            self.schedule.after_us(RESTART_MS * MS, partial(self.start_broker, name))
            return
        self.brokers[name] = broker
        addresses = tuple(f"controller-{number}:9878" for number in range(swarm.controllers))
        link = WatchedLink(broker, addresses, on_proposal=self.ambush.on_proposal)
        self.say("%s starts, life %s, log to %s", name, broker.incarnation.starts, len(disk.log))
        broker.begin(link)
        link.start(broker.life())
        self.ambush.on_start(name)

    def _counts(self, name: str) -> bool:
        """Whether a follower has been promoted: its operator has changed its setting then."""
        node = self.node()
        return node is not None and name in (*node.in_sync, *node.eligible, node.master, node.last)

    def end_broker(self, name: str, *, quietly: bool = False) -> None:
        """Killed, alone or with its machine."""
        broker = self.brokers.pop(name, None)
        if broker is not None:
            broker.end(quietly=quietly)

    def stop_broker(self, broker: Broker) -> None:
        """Stopped, and its store closed. Raises Died."""
        broker.stop()
        self.end_broker(broker.name)

    def on_reopen(self, broker: Broker) -> None:
        """Its loop stands still; then its store is closed, and the next life begins."""
        broker.pause(NEVER_US)
        self.schedule.after_us(int(self.rng.random() * REOPEN_MS * MS), partial(self._reopen, broker))

    def _reopen(self, broker: Broker) -> None:
        if not broker.alive:
            return
        if broker.disk.hangs:
            self.schedule.after_us(REOPEN_MS * MS, partial(self._reopen, broker))
            return
        self.say("the store of %s is opened anew", broker.name)
        self.stop_broker(broker)
        self.start_broker(broker.name)

    def on_drained(self, broker: Broker) -> None:
        """It has handed over: it stops soon, and is started again."""
        self.schedule.after_us(MS, partial(self._end_drained, broker), broker)

    def _end_drained(self, broker: Broker) -> None:
        if broker.disk.hangs:
            self.schedule.after_us(REOPEN_MS * MS, partial(self._end_drained, broker), broker)
            return
        self.say("%s has drained, and is stopped", broker.name)
        self.stop_broker(broker)
        self.schedule.after_us(self.faults.repair_us(), partial(self.start_broker, broker.name))

    def on_exit(self, broker: Broker) -> None:
        """An fsync has failed."""
        self.say("%s: fsync failed, durable %s of %s", broker.name, broker.disk.durable, len(broker.disk.log))
        broker.disk.unheard = True
        self.end_broker(broker.name)
        self.schedule.after_us(self.faults.repair_us(), partial(self.start_broker, broker.name))

    def _on_died(self, died: Died) -> None:
        """A process has ended in the middle of a write."""
        self.faults.on_died(died.name)

    def _new_controller(self, number: int) -> Controller:
        settings = self.swarm.settings
        self.ledger.counts_acks = settings.ack_mode.value == "all"
        controller = Controller(self, number, settings, rate=self.swarm.clock_rates[f"controller-{number}"])
        controller.worker.loss_rate = 0.0 if self.healing else self.swarm.zookeeper_loss
        return controller

    def start_controller(self, number: int) -> None:
        """The next life of a controller."""
        if not self.controllers[number].alive:
            self.controllers[number] = self._new_controller(number)

    def new_loop(self, host: Host, address: str) -> SimulatedLoop:
        """One whose timers run by themselves."""
        return SimulatedLoop(self, host, address)

    def listener(self, address: str) -> SimulatedLoop | None:
        """The life that listens at an address for requests."""
        host = address.partition(":")[0]
        broker = self.brokers.get(host)
        if broker is not None:
            return broker.loop
        return next((one.loop for one in self.controllers if one.name == host and one.alive), None)

    def router(self, address: str) -> SimulatedRouter | None:
        """Where the broker at an address listens for slaves."""
        broker = self.living(address)
        return None if broker is None else broker.sockets.bound

    def living(self, address: str) -> Broker | None:
        """The broker at an address."""
        return self.brokers.get(address.partition(":")[0])

    def is_reachable(self, src: str, dst: str) -> bool:
        """A machine that has no power, or is cut off, refuses nothing."""
        name = dst.partition(":")[0]
        return name not in self.faults.dark and not self.network.is_cut(src, name)

    def next_number(self) -> int:
        """Of a record."""
        self._number += 1
        return self._number

    # ---- who talks to whom

    def on_master(self, broker: Broker, epoch: int) -> None:
        """Name servers learn of it."""
        self.say("%s leads epoch %s from %s", broker.name, epoch, broker.replica.log.end)
        self.ambush.on_master(broker.name)
        self.schedule.after_us(20 * MS, partial(self._on_route, epoch, broker.name))

    def _on_route(self, epoch: int, name: str) -> None:
        if epoch >= self._route_epoch:
            self.route, self._route_epoch = name, epoch

    def send_message(
        self, producer: Producer, queue: int, sequence: int, on_answer: Callable[[int | ZenitError], None]
    ) -> None:
        """A send; where the route is stale, somebody who is not master answers so."""
        name = self.route if self.route and self.rng.random() < 0.9 else self.rng.choice(self.swarm.names)
        broker = self.brokers.get(name)
        if broker is None:
            refused = partial(on_answer, NotMaster(GROUP, 0))
            self.schedule.after_us(MS, refused, producer)
            return

        def answer(what: int | ZenitError) -> None:
            self.network.send(name, producer.name, producer, partial(on_answer, what), what)

        arrive = partial(broker.on_send, producer.number, queue, sequence, answer)
        self.network.send(producer.name, name, broker, arrive, "send")

    # ---- for people

    def node(self) -> GroupNode | None:
        """What ZooKeeper holds."""
        content = self.zookeeper.groups.get(GROUP)
        return None if content is None else node_of(content.data)

    def say(self, text: str, *facts: object) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.schedule.now_us / 1000:10.3f} {text % facts}")

    def picture(self) -> str:
        """Where everybody stands."""
        lines = [
            str(self.swarm),
            str(self.node()),
            f"dark {self.faults.dark} terms {[c.term for c in self.controllers]}",
        ]
        for name, broker in sorted(self.brokers.items()):
            replica, slave = broker.replica, broker.replica._slave
            lines.append(
                f"{name} {replica.role} of {replica.epoch}, {slave.phase} {slave.session:x} {replica.log} {replica._on_disk}"
            )
        return "\n".join(lines)
