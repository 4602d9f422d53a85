"""Random failures under detection: a group gets a living master soon, and keeps one that lives.

Replicas here beat, answer probes, report closed sockets (some of them wrongly), pause, die and come back; the leading
controller is replaced now and then, and some of its writes lose their answers. Time is a number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from sim.group_kit import GROUP, heartbeat, registration, report
from sim.model_zookeeper import Loss, ModelZooKeeper

from zenitmq.controller.group.detection import DEAD_AFTER_MS, PROBE_TIMEOUT_MS, Detection, Effect, Probe, WriteGroup
from zenitmq.controller.group.group_state import electable
from zenitmq.controller.group.registration import register
from zenitmq.model.errors import ZenitError
from zenitmq.model.groups.group import NO_VERSION, GroupSettings, KnownGroup
from zenitmq.remoting.commands import ReplicaHeartbeat, ReportMasterGone

STEP_MS = 50
BEAT_MS = 500
CALM_MS = 2 * DEAD_AFTER_MS + PROBE_TIMEOUT_MS + BEAT_MS


@dataclass
class Broker:
    name: str
    starts: int = 0
    up: bool = False
    paused_until_ms: int = 0
    registered: bool = False
    since_ms: int = 0  # when it last became unable or able to answer


class Cluster:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.zookeeper = ModelZooKeeper()
        self.store = self.zookeeper.store(lambda _: None)
        self.detection = Detection()
        self.brokers = {name: Broker(name) for name in "abc"}
        self.now_ms = 100_000
        self.elections = 0
        self.answer_due: list[tuple[int, str, int]] = []  # (when, name, probe)

    # ---- the controller's service, as plain as can be

    def known(self) -> KnownGroup | None:
        return self.store.read(GROUP)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Probe):
                self.answer_due.append((self.now_ms + self.random.choice([0, 50, 250]), effect.name, effect.number))
            elif isinstance(effect, WriteGroup):
                self.check_election(effect)
                self.lose_an_answer()
                if effect.version != NO_VERSION:
                    self.store.write(effect.node, effect.version)
                self.read_again()

    def read_again(self) -> None:
        known = self.known()
        if known is not None:
            self.carry_out(self.detection.on_group(known, self.now_ms))

    def lose_an_answer(self) -> None:
        if self.random.random() < 0.2:
            self.store.next_write = self.random.choice([Loss.BEFORE, Loss.AFTER])

    def new_leader(self) -> None:
        self.detection = Detection()
        self.read_again()

    def check_election(self, effect: WriteGroup) -> None:
        """Another master is elected only for a reason that is one, and is one who lives and holds everything."""
        self.elections += 1
        known = self.known()
        assert known is not None
        node = known.node
        assert effect.version == known.version
        assert effect.node.master in electable(node)
        assert self.heard_lately(effect.node.master or "")
        if node.master is None or node.replica(node.master).incarnation != node.master_incarnation:  # type: ignore[union-attr]
            return
        master = self.brokers[node.master]
        unable = not master.up or not master.registered or self.now_ms < master.paused_until_ms
        recovered_lately = self.now_ms - master.since_ms <= DEAD_AFTER_MS
        assert unable or recovered_lately, f"{node.master} was well ({effect.why})"

    def heard_lately(self, name: str) -> bool:
        return self.detection.is_alive(GROUP, name, self.now_ms)

    # ---- replicas

    def well(self, broker: Broker) -> bool:
        return broker.up and self.now_ms >= broker.paused_until_ms

    def say(self, message: ReplicaHeartbeat | ReportMasterGone) -> None:
        try:
            heard = (
                self.detection.on_heartbeat if isinstance(message, ReplicaHeartbeat) else self.detection.on_master_gone
            )
            effects = heard(message, self.now_ms)  # type: ignore[operator]
        except ZenitError:
            return
        self.carry_out(effects)

    def beat(self, broker: Broker, probe: int = 0) -> None:
        if not broker.registered:
            self.register(broker)
            return
        known = self.known()
        epoch = 0 if known is None else known.node.epoch
        self.say(heartbeat(broker.name, broker.starts, epoch=epoch, probe=probe, log_end=self.random.randint(0, 99)))

    def register(self, broker: Broker) -> None:
        known = self.known()
        request = registration(broker.name, broker.starts, log_end=0, marker_end=0)
        settings = GroupSettings(min_in_sync=1)
        made = register(None if known is None else known.node, request, settings=settings, present_is_alive=False)
        if not made.repeated:
            self.lose_an_answer()
            if known is None:
                self.store.create(made.node)
            else:
                self.store.write(made.node, known.version)
        now_known = self.known()
        if (
            now_known is not None
            and register(now_known.node, request, settings=settings, present_is_alive=False).repeated
        ):
            broker.registered = True
            self.carry_out(self.detection.on_registered(now_known, request, self.now_ms))

    def see_closed_sockets(self, broker: Broker) -> None:
        """A slave reports the master that is gone, or, seldom, one that is not."""
        known = self.known()
        if known is None or known.node.master in (None, broker.name):
            return
        master = self.brokers[known.node.master or ""]
        if not master.up or self.random.random() < 0.02:
            said = report(broker.name, epoch=known.node.epoch, master=master.name)
            self.say(ReportMasterGone(GROUP, broker.name, said.store_id, broker.starts, said.epoch, said.master))

    def join_all(self) -> None:
        """What a master does over time: everybody that is well joins the set (the dead leave by elections only)."""
        known = self.known()
        if known is None or known.node.master is None or not self.well(self.brokers[known.node.master]):
            return
        node = known.node
        present = {replica.name for replica in node.replicas if self.well(self.brokers[replica.name])}
        wanted = tuple(sorted({*node.in_sync, *present}))
        if wanted != node.in_sync:
            self.store.write(replace(node, in_sync=wanted, eligible=()), known.version)
            self.read_again()

    def fail(self) -> None:
        broker = self.random.choice(list(self.brokers.values()))
        match self.random.choice(["kill", "start", "start", "pause", "leader"]):
            case "kill" if broker.up:
                broker.up, broker.registered, broker.since_ms = False, False, self.now_ms
            case "start" if not broker.up:
                broker.up, broker.starts, broker.since_ms = True, broker.starts + 1, self.now_ms
            case "pause" if self.well(broker):
                broker.paused_until_ms = self.now_ms + self.random.choice([400, 1000, 2200, 6000])
                broker.since_ms = broker.paused_until_ms
            case "leader" if self.random.random() < 0.3:
                self.new_leader()

    def step(self, *, failures: bool) -> None:
        self.now_ms += STEP_MS
        if failures and self.random.random() < 0.08:
            self.fail()
        due = [answer for answer in self.answer_due if answer[0] <= self.now_ms]
        self.answer_due = [answer for answer in self.answer_due if answer[0] > self.now_ms]
        for _, name, probe in due:
            if self.well(self.brokers[name]) and self.brokers[name].registered:
                self.beat(self.brokers[name], probe)
        if self.now_ms % BEAT_MS == 0:
            for broker in self.brokers.values():
                if self.well(broker):
                    self.beat(broker)
                    self.see_closed_sockets(broker)
            self.join_all()
        self.carry_out(self.detection.on_tick(self.now_ms))


@pytest.mark.parametrize("seed", range(60))
def test_a_group_has_a_living_master_soon_after_the_failures_end(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(8):
        for _ in range(200):
            cluster.step(failures=True)
        for broker in cluster.brokers.values():
            broker.paused_until_ms = 0
        for _ in range(CALM_MS // STEP_MS):
            cluster.step(failures=False)
        known = cluster.known()
        if known is None:
            continue
        node = known.node
        possible = {name for name in electable(node) if cluster.brokers[name].up}
        if possible:
            assert node.master in possible, f"seed {seed}: {node}"
            life = node.replica(node.master or "")
            assert life is not None
            assert node.master_incarnation == life.incarnation, f"seed {seed}: a life that is over"
            assert life.incarnation.starts == cluster.brokers[life.name].starts


def test_failures_are_many_and_elections_with_them() -> None:
    total = 0
    for seed in range(5):
        cluster = Cluster(seed)
        for _ in range(2000):
            cluster.step(failures=True)
        total += cluster.elections
    assert total >= 50
