"""Three replicas of the shipped cores, a network that drops, doubles and reorders, disks and processes that fail.

The controller is a few lines here: conditional writes on one node, elections and shrinks at any moment. Checked after
every step, with the names of the design's model: I1 what was acknowledged is in every later master's log, I3 what was
readable never changes, I4 confirm offset and promise never go back, I6 no slave is asked to cut below its guard. At the
end the faults stop, and all must become equal again (I5). `ZENIT_SEEDS=from:to` runs other seeds.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from zenitmq.broker.replication.chunk_payload import ChunkEncoder, unseal
from zenitmq.broker.replication.effects import (
    Acknowledge,
    Append,
    ClearIntent,
    CutLog,
    CutTail,
    DiskEffect,
    Effect,
    Follow,
    Halt,
    Lead,
    PersistEpochs,
    PersistIntent,
    PersistPromise,
    ProposeInSync,
    SendChunk,
    SendFrame,
    StartAnew,
    StopFollowing,
    StopLeading,
    Stopped,
    SyncLog,
)
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frame_codec import decode, encode
from zenitmq.broker.replication.frames import Chunk, Opening, RefusalReason, Side, group_key
from zenitmq.broker.replication.master import MasterState, refusal
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.broker.replication.role import Role, RoleState
from zenitmq.broker.replication.slave import Phase, SlaveState
from zenitmq.model.groups.group import FlushMode, GroupNode, GroupSettings, Incarnation, KnownGroup, Replica

RECORD = 10  # bytes of a record: its number, as text
SEGMENT = 8 * RECORD
NOT_KEPT = -1
KEY = group_key("test", "broker-a")
NAMES = ("a", "b", "c")
STEPS = 2_500
first, _, last = os.environ.get("ZENIT_SEEDS", "0:36").partition(":")
SEEDS = range(int(first), int(last))


@dataclass
class Disk:
    """What outlives a process. Records beyond `durable` are in the page cache only; before `begin`, none is kept."""

    records: list[int] = field(default_factory=list)
    begin: int = 0
    durable: int = 0
    epochs: EpochList = field(default_factory=EpochList)
    promised: int = 0
    intent: PersistIntent | None = None
    confirm: int = 0
    starts: int = 0
    unclean: bool = False


@dataclass
class Task:
    """A disk effect on its way: to be applied, then told to the core that asked for it."""

    owner: str
    effect: DiskEffect
    applied: bool = False


@dataclass(frozen=True)
class Mail:
    """One message of the replication port."""

    to: Side
    src: str
    dst: str
    session: int
    frame: bytes
    data: bytes


class Process:
    """One life of a replica: the three cores and a shell."""

    def __init__(self, group: Group, name: str, disk: Disk) -> None:
        disk.starts += 1
        self.group, self.name, self.disk = group, name, disk
        end = len(disk.records) * RECORD
        self.log = ReplicaLog(disk.begin * RECORD, end, 0, disk.confirm, disk.epochs.recovered(end))
        self.incarnation = Incarnation(f"store-{name}", disk.starts)
        self.role = RoleState(name, self.incarnation, self.log, promised=disk.promised)
        self.slave = SlaveState(
            name,
            group=KEY,
            incarnation=self.incarnation,
            log=self.log,
            session=disk.starts << 32,
            segment_bytes=1 << 30,
            wants_lz4=name == "b",
            credit_bytes=4 * RECORD + 5,
        )
        self.master: MasterState | None = None
        self.tasks: deque[Task] = deque()
        self.do("role", self.role.on_start(disk.intent))

    def do(self, owner: str, effects: list[Effect]) -> None:
        """Carries effects out, or queues them."""
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self.tasks.append(Task(owner, effect))
            elif isinstance(effect, SendFrame):
                to = Side.MASTER if owner == "slave" else Side.SLAVE
                self.post(to, effect.peer, effect.frame.session, encode(effect.frame), b"")
            elif isinstance(effect, SendChunk):
                self.send_chunk(effect)
            elif isinstance(effect, Lead):
                assert self.role.known is not None
                self.master = MasterState(
                    self.name,
                    group_key=KEY,
                    group=self.role.known,
                    log=self.log,
                    segment_bytes=SEGMENT,
                    cut_at=lambda begin, limit: max(begin + RECORD, limit // RECORD * RECORD),
                    now_ms=self.group.now_ms,
                )
            elif isinstance(effect, StopLeading):
                self.master = None
            elif isinstance(effect, Follow):
                self.do("slave", self.slave.on_master(effect.master, effect.epoch, self.group.now_ms))
            elif isinstance(effect, StopFollowing):
                self.do("slave", self.slave.on_stop())
            elif isinstance(effect, Stopped):
                self.do("role", self.role.on_stopped())
            elif isinstance(effect, ProposeInSync):
                self.group.proposals.append((self.name, self.role.promised, effect))
            elif isinstance(effect, Acknowledge):
                self.group.acknowledge(self, effect.up_to)
            elif isinstance(effect, Halt):
                self.group.fail(f"I6: {self.name} halts: {effect.reason}")

    def post(self, to: Side, dst: str, session: int, frame: bytes, data: bytes) -> None:
        self.group.mails.append(Mail(to, self.name, dst, session, frame, data))

    def send_chunk(self, effect: SendChunk) -> None:
        begin, end = effect.chunk.begin // RECORD, effect.chunk.end // RECORD
        assert begin >= self.disk.begin
        assert effect.chunk.end <= effect.chunk.begin - effect.chunk.begin % SEGMENT + SEGMENT
        owners = {self.group.epoch_of[number] for number in self.disk.records[begin:end]}
        assert owners == {effect.chunk.data_epoch}, f"a chunk of {effect.chunk.data_epoch} holds {owners}"
        data = b"".join(b"%10d" % number for number in self.disk.records[begin:end])
        chunk, payload = ChunkEncoder(lambda _begin, _end: data, bytes).seal(effect.chunk)
        self.post(Side.SLAVE, effect.peer, chunk.session, encode(chunk), bytes(payload))

    def on_mail(self, mail: Mail) -> None:
        frame = decode(mail.frame, mail.to)
        if mail.to is Side.MASTER:
            if self.master is not None:
                self.do("master", self.master.on_frame(mail.src, frame, self.group.now_ms))
            elif isinstance(frame, Opening):
                self.do("master", [refusal(frame, RefusalReason.OTHER_EPOCH, epoch=self.disk.promised)])
            return
        data = unseal(frame, mail.data) if isinstance(frame, Chunk) else b""
        self.do("slave", self.slave.on_frame(frame, self.group.now_ms, data))

    def on_disk(self) -> None:
        """The first of the disk's tasks takes a step."""
        if not self.tasks:
            return
        task = self.tasks[0]
        if not task.applied:
            task.applied = True
            self.apply(task.effect)
            return
        self.tasks.popleft()
        now_ms = self.group.now_ms
        done = self.role.on_done(task.effect) if task.owner == "role" else self.slave.on_done(task.effect, now_ms)
        self.do(task.owner, done)

    def apply(self, effect: DiskEffect) -> None:
        disk = self.disk
        if isinstance(effect, PersistPromise):
            self.group.expect(effect.epoch > disk.promised, f"I4: promise of {self.name} goes back")
            disk.promised = effect.epoch
        elif isinstance(effect, PersistIntent):
            disk.intent = effect
        elif isinstance(effect, ClearIntent):
            disk.intent = None
        elif isinstance(effect, PersistEpochs):
            disk.epochs = effect.epochs
        elif isinstance(effect, CutLog):
            del disk.records[effect.offset // RECORD :]
            disk.durable = min(disk.durable, len(disk.records))
        elif isinstance(effect, Append):
            assert effect.chunk.begin == len(disk.records) * RECORD
            data = bytes(effect.data)
            disk.records += [int(data[at : at + RECORD]) for at in range(0, len(data), RECORD)]
        elif isinstance(effect, StartAnew):
            disk.begin = disk.durable = effect.begin // RECORD
            disk.records = [NOT_KEPT] * disk.begin
            disk.epochs = effect.epochs
            self.group.started_anew += 1
        elif isinstance(effect, SyncLog):
            self.sync()
        elif isinstance(effect, CutTail):
            self.log.on_position(len(disk.records) * RECORD, self.log.flushed)

    def sync(self) -> None:
        self.disk.durable = len(self.disk.records)
        self.log.on_flushed(self.disk.durable * RECORD)

    def flush(self) -> None:
        self.sync()
        self.do("slave", self.slave.on_flushed())
        if self.master is not None:
            self.do("master", self.master.on_turn(self.group.now_ms))

    def expire(self) -> None:
        """A master's retention: whole segments, of what is confirmed and on the disk, whoever still needs them."""
        if self.master is None:
            return
        limit = min(self.log.confirm, self.disk.durable * RECORD)
        begin = max(self.log.begin, self.group.rng.randint(0, limit // SEGMENT) * SEGMENT)
        self.log.begin, self.disk.begin = begin, begin // RECORD
        self.disk.records[: self.disk.begin] = [NOT_KEPT] * self.disk.begin
        self.do("master", self.master.on_log_begin())

    def append(self) -> None:
        """A producer's batch, where the broker takes one."""
        if self.master is None or not self.master.takes_writes or self.tasks:
            return
        for _ in range(self.group.rng.randint(1, 3)):
            number = len(self.group.epoch_of)
            self.group.epoch_of.append(self.master.epoch)
            self.disk.records.append(number)
        self.log.on_position(len(self.disk.records) * RECORD, self.log.flushed)
        self.do("master", self.master.on_turn(self.group.now_ms))

    def tick(self) -> None:
        self.do("slave", self.slave.on_tick(self.group.now_ms))
        if self.master is not None:
            self.do("master", self.master.on_tick(self.group.now_ms))

    def on_group(self, known: KnownGroup) -> None:
        self.do("role", self.role.on_group(known))
        if self.master is not None:
            self.do("master", self.master.on_group(known, self.group.now_ms))


class Group:
    """The replicas, the network between them, and the node that the controller writes."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng, self.now_ms = seed, random.Random(seed), 0
        mode = self.rng.choice([FlushMode.SYNC, FlushMode.ASYNC])
        settings = GroupSettings(min_in_sync=self.rng.choice([1, 2]), flush_mode=mode, lag_ms_max=4_000)
        self.node = GroupNode(broker_name="broker-a", in_sync=self.rng.choice([NAMES, NAMES[:2]]), settings=settings)
        self.fault_weight, self.whim_weight = self.rng.choice([0.1, 0.3, 0.8]), self.rng.choice([0.1, 0.3, 0.8])
        self.news_weight = self.rng.choice([5, 20])  # rates differ from seed to seed
        self.lost, self.late = self.rng.choice([0.0, 0.01, 0.1]), self.rng.choice([0.0, 0.02, 0.2])
        self.disk_weight, self.tick_weight = self.rng.choice([15, 40]), self.rng.choice([4, 12])
        self.tick_ms = self.rng.choice([(5, 20), (10, 40), (10, 40, 300)])
        self.history: list[KnownGroup] = []
        self.proposals: deque[tuple[str, int, ProposeInSync]] = deque()
        self.mails: list[Mail] = []
        self.epoch_of: list[int] = []  # record -> the epoch it was appended in
        self.acknowledged: dict[int, tuple[int, int]] = {}  # index in the log -> record, epoch
        self.seen: dict[int, tuple[int, int]] = {}
        self.confirms: dict[tuple[str, int], int] = {}
        self.started_anew = 0
        self.expire_weight = self.rng.choice([0, 0.3, 3])
        self.disks = {name: Disk() for name in NAMES}
        self.up: dict[str, Process] = {}
        for name in NAMES:
            self.start(name)
            self.register(name)
        self.elect("a")

    def expect(self, held: bool, what: str) -> None:
        if not held:
            self.fail(what)

    def fail(self, what: str) -> None:
        pytest.fail(f"seed {self.seed}: {what}; rerun: ZENIT_SEEDS={self.seed}:{self.seed + 1}")

    # ---- the controller

    def write(
        self, node: GroupNode, *, gone: frozenset[str] = frozenset(), unclean: frozenset[str] = frozenset()
    ) -> None:
        """One conditional write; the eligible set follows from it (R9)."""
        in_sync, minimum = set(node.in_sync), node.settings.min_in_sync
        eligible = set(node.eligible) - in_sync - unclean
        if len(in_sync) < minimum:
            eligible |= gone
        elif len(in_sync) >= minimum:
            eligible = set()
        self.node = replace(node, in_sync=tuple(sorted(in_sync)), eligible=tuple(sorted(eligible)))
        self.history.append(KnownGroup(self.node, len(self.history)))

    def register(self, name: str) -> None:
        process, disk = self.up[name], self.disks[name]
        others = tuple(replica for replica in self.node.replicas if replica.name != name)
        node = replace(self.node, replicas=(*others, Replica(name, "", "", process.incarnation)))
        if not disk.unclean:
            return self.write(node)
        in_sync = tuple(other for other in node.in_sync if other != name)
        disk.unclean = False
        return self.write(replace(node, in_sync=in_sync), unclean=frozenset({name}))

    def elect(self, name: str) -> None:
        replica, old = self.node.replica(name), self.node.master
        assert replica is not None
        in_sync, gone = {*self.node.in_sync, name}, frozenset[str]()
        if old is not None and old != name and old in in_sync and self.rng.random() < 0.5:
            in_sync, gone = in_sync - {old}, frozenset({old})
        self.write(
            replace(
                self.node,
                epoch=self.node.epoch + 1,
                master=name,
                master_incarnation=replica.incarnation,
                in_sync=tuple(in_sync),
            ),
            gone=gone,
        )

    def elect_any(self) -> None:
        names = [name for name in (*self.node.in_sync, *self.node.eligible) if name in self.up]
        if names:
            self.elect(self.rng.choice(names))

    def shrink(self) -> None:
        names = [name for name in self.node.in_sync if name != self.node.master]
        if names:
            gone = self.rng.choice(names)
            in_sync = tuple(name for name in self.node.in_sync if name != gone)
            self.write(replace(self.node, in_sync=in_sync), gone=frozenset({gone}))

    def answer_proposal(self, lost: float) -> None:
        if not self.proposals:
            return
        name, epoch, proposal = self.proposals.popleft()
        if self.rng.random() < lost or proposal.version != len(self.history) - 1:
            return
        if epoch == self.node.epoch and name == self.node.master:
            gone = frozenset(self.node.in_sync) - frozenset(proposal.names)
            self.write(replace(self.node, in_sync=proposal.names), gone=gone)

    # ---- faults

    def start(self, name: str) -> None:
        self.up[name] = Process(self, name, self.disks[name])

    def stop(self, name: str, *, power: bool) -> None:
        """kill -9, which keeps the page cache, or loss of power, which may lose what was not synced."""
        disk = self.disks[name]
        if power:
            kept = self.rng.randint(disk.durable, len(disk.records))
            if self.node.settings.flush_mode is FlushMode.ASYNC:
                if not self.is_survivable(name):
                    return
                disk.unclean = True
            del disk.records[kept:]
            disk.durable = kept
        del self.up[name]
        for process in self.up.values():
            slave = process.slave
            if slave.master == name and self.rng.random() < 0.7:
                process.do("slave", slave.on_socket_closed(slave.session, self.now_ms))

    def is_survivable(self, name: str) -> bool:
        """Another of the sets still holds all that was acknowledged or seen: else the loss is a documented window."""
        for member in {*self.node.in_sync, *self.node.eligible} - {name}:
            records = self.disks[member].records
            both = (*self.acknowledged.items(), *self.seen.items())
            if all(index < len(records) and records[index] in (number, NOT_KEPT) for index, (number, _) in both):
                return True
        return False

    # ---- one step

    def step(self) -> None:
        rng = self.rng
        actions: list[tuple[float, Callable[[], None]]] = [
            (40, lambda: self.deliver(lost=self.lost, doubled=self.lost, late=self.late)),
            (self.disk_weight, lambda: self.any_process().on_disk()),
            (20, lambda: self.any_process().append()),
            (8, lambda: self.any_process().flush()),
            (self.tick_weight, self.pass_time),
            (self.news_weight, self.tell_news),
            (self.news_weight, lambda: self.answer_proposal(lost=0.3)),
            (self.whim_weight, self.elect_any if rng.random() < 0.4 else self.shrink),
            (self.fault_weight, lambda: self.stop(self.any_process().name, power=rng.random() < 0.5)),
            (0.7, self.restart_any),
            (0.7, self.elect_if_headless),
            (self.expire_weight, lambda: self.any_process().expire()),
        ]
        rng.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
        for name, process in self.up.items():
            replica = self.node.replica(name)
            if (replica is None or replica.incarnation != process.incarnation) and rng.random() < 0.05:
                self.register(name)
        self.check()

    def any_process(self) -> Process:
        if not self.up:
            self.start(self.rng.choice(NAMES))
        return self.rng.choice(list(self.up.values()))

    def pass_time(self) -> None:
        self.now_ms += self.rng.choice(self.tick_ms)
        for process in self.up.values():
            process.tick()

    def tell_news(self) -> None:
        old = self.rng.random() < 0.1
        known = self.rng.choice(self.history) if old else self.history[-1]
        self.any_process().on_group(known)

    def restart_any(self) -> None:
        down = [name for name in NAMES if name not in self.up]
        if down:
            self.start(self.rng.choice(down))

    def deliver(self, *, lost: float = 0, doubled: float = 0, late: float = 0) -> None:
        if not self.mails:
            return
        index = self.rng.randrange(len(self.mails)) if self.rng.random() < late else 0
        mail = self.mails[index]
        if self.rng.random() >= doubled:
            del self.mails[index]
        if self.rng.random() < lost:
            return
        if mail.dst in self.up:
            self.up[mail.dst].on_mail(mail)
        elif mail.to is Side.SLAVE and mail.src in self.up:
            process = self.up[mail.src]
            if process.master is not None:
                process.do("master", process.master.on_unreachable(mail.dst, mail.session, self.now_ms))

    # ---- what must hold

    def acknowledge(self, process: Process, up_to: int) -> None:
        """A master answers its producers: those of records of its own term."""
        assert process.master is not None
        for index in range(process.disk.begin, up_to // RECORD):
            number = process.disk.records[index]
            if self.epoch_of[number] == process.master.epoch:
                known, _ = self.acknowledged.setdefault(index, (number, process.master.epoch))
                self.expect(known == number, f"I1: two records acknowledged at {index}")

    def check(self) -> None:
        for name, process in self.up.items():
            log, records = process.log, process.disk.records
            key = (name, process.disk.starts)
            self.expect(log.confirm >= self.confirms.get(key, 0), f"I4: confirm offset of {name} goes back")
            self.confirms[key] = process.disk.confirm = log.confirm
            if process.role.role is Role.CANDIDATE:
                continue
            epoch = process.role.promised
            for index in range(process.disk.begin, min(log.confirm, log.end) // RECORD):
                number, _ = self.seen.setdefault(index, (records[index], epoch))
                self.expect(number == records[index], f"I3: record {index} at {name} is not what was seen")
            if process.master is None:
                continue
            for what, must in (("I1: acknowledged", self.acknowledged), ("I3: seen", self.seen)):
                for index, (number, since) in must.items():
                    held = index < len(records) and records[index] in (number, NOT_KEPT)
                    self.expect(held or since > epoch, f"{what} record {index} is not at master {name} of {epoch}")

    # ---- afterwards

    def heal(self) -> None:
        """The faults stop: everything is delivered, everybody lives. All must become equal within 30 s of their time."""
        for name in NAMES:
            if name not in self.up:
                self.start(name)
            self.register(name)
        for _ in range(1_000):
            if self.is_whole() or not (self.node.in_sync or self.node.eligible):
                return  # both sets empty: the design leaves that to an operator (R10)
            self.elect_if_headless()
            for _ in range(40):
                self.deliver()
                for each in self.up.values():
                    each.on_disk()
            self.answer_proposal(lost=0)
            for each in self.up.values():
                each.on_group(self.history[-1])
                each.flush()
            self.now_ms += 30
            for each in self.up.values():
                each.tick()
            self.check()
        self.fail(f"I5: no convergence: {self.picture()}")

    def elect_if_headless(self) -> None:
        """The controller elects where nobody leads the node's epoch, nor is about to."""
        process = self.up.get(self.node.master or "")
        if process is None or (not process.tasks and process.role.role is not Role.MASTER):
            self.elect_any()

    def is_whole(self) -> bool:
        logs = [process.log for process in self.up.values()]
        begin = max(disk.begin for disk in self.disks.values())
        same = len({tuple(disk.records[begin:]) for disk in self.disks.values()}) == 1
        shown = all(log.confirm == log.end == logs[0].end for log in logs)
        return same and shown and self.node.in_sync == NAMES and any(process.master for process in self.up.values())

    def picture(self) -> str:
        lines = [str(self.node)]
        for name, process in self.up.items():
            slave = process.slave
            lines.append(f"{name} {process.role.role} {process.log} {slave.phase} {slave.session:x} {process.tasks}")
        return "\n".join(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_or_seen_is_lost_and_all_become_equal_again(seed: int) -> None:
    group = Group(seed)
    for _ in range(STEPS):
        group.step()
    group.heal()


def test_the_runs_are_not_idle() -> None:
    """Over a few seeds there are acknowledgements, elections, cuts and lost sessions: else the checks hold of nothing."""
    acknowledged = elections = sessions = readable = anew = 0
    for seed in range(1_000, 1_008):
        group = Group(seed)
        for _ in range(STEPS):
            group.step()
        acknowledged += len(group.acknowledged)
        readable += len(group.seen)
        elections += group.node.epoch
        anew += group.started_anew
        sessions += sum(process.slave.session & 0xFFFF for process in group.up.values())
        assert all(process.slave.phase is not Phase.HALTED for process in group.up.values())
    assert min(acknowledged, readable) > 200, f"seeds 1000 to 1007: {acknowledged}, {readable}"
    assert min(anew, elections - 15, sessions - 60) > 0, f"{anew} {elections} {sessions}"
