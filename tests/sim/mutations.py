"""The rules, each taken away on its own: a patch of a core (or of the simulated disk, where the rule is the shell's).

Names are those of the design's model and of docs/replication.md. `with mutated("confmin"):` holds for all that runs
inside. A mutation does what an engineer might who has not read the rule; it may do no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest.mock import patch

from zenitmq.broker.replication import in_sync, intake, master, member, replica_log, role, slave
from zenitmq.broker.replication.effects import ConfirmMoved, CutLog, CutTail, Effect
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frames import Accepted, Ack, Chunk
from zenitmq.controller import detection, group_settings, group_state, registration, reign
from zenitmq.model.group import GroupNode, KnownGroup

from . import disk, port

Patch = tuple[Any, str, Any]
"""(object, attribute, what stands there instead)."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`rule`: which one, and what is left of it."""

    name: str
    rule: str
    patches: Callable[[], list[Patch]]


MUTATIONS: Final[dict[str, Mutation]] = {}


def mutation(name: str, rule: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    """Adds one to the table."""

    def add(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        MUTATIONS[name] = Mutation(name, rule, patches)
        return patches

    return add


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The rule is gone."""
    with ExitStack() as patched:
        for target, attribute, value in MUTATIONS[name].patches():
            patched.enter_context(patch.object(target, attribute, value, create=True))
        yield


def _everywhere(name: str, value: Any) -> list[Patch]:
    """A function of group_state, wherever it was imported to."""
    modules = (group_state, group_settings, registration, reign, detection)
    return [(module, name, value) for module in modules if hasattr(module, name)]


# ---- the in-sync set


@mutation("mincount", "R8: a proposed member counts towards the minimum")
def _() -> list[Patch]:
    def has_minimum(self: in_sync.InSyncSet) -> bool:
        return len(self.union) >= self.group.node.settings.min_in_sync

    return [
        (in_sync.InSyncSet, "has_minimum", property(has_minimum, lambda *_: None)),
        (in_sync.InSyncSet, "_has_minimum", lambda _: True),
    ]


@mutation("confmin", "R6: the confirm offset moves below the minimum")
def _() -> list[Patch]:
    progress = master.MasterState._progress

    def mutant(self: master.MasterState, effects: list[Effect]) -> None:
        if self._in_sync.has_minimum:
            return progress(self, effects)
        log, sync = self._log, self._is_sync
        positions = [other.flushed if sync else other.written for other in self._others]
        lowest = min([log.flushed if sync else log.end, *positions])
        if lowest > log.confirm:
            log.confirm = lowest
            effects.append(ConfirmMoved(lowest))
        return None

    return [(master.MasterState, "_progress", mutant)]


@mutation("minimum-split", "R8: the master's own idea of the minimum")
def _() -> list[Patch]:
    return [(in_sync.InSyncSet, "_has_minimum", lambda self: len(self.known) >= 1)]


def _adopting(is_news: Callable[[int, int], bool]) -> list[Patch]:
    def on_group(self: in_sync.InSyncSet, group: KnownGroup) -> bool:
        if not is_news(group.version, self.group.version):
            return False
        self.group = group
        self.known = self.union = frozenset(group.node.in_sync)
        self.has_minimum = self._has_minimum()
        self._proposed = None
        return True

    return [(in_sync.InSyncSet, "on_group", on_group)]


@mutation("infover", "R2: the master adopts an older version of the node")
def _() -> list[Patch]:
    return _adopting(lambda version, known: version != known)


@mutation("resolvever", "R7: the same version, read again, settles a proposal")
def _() -> list[Patch]:
    return _adopting(lambda version, known: version >= known)


@mutation("R6-union", "R6: a proposal that was not answered is given up, and its member with it")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        if self._proposed is not None and wanted["now_ms"] >= self._again_ms:
            self.union, self._proposed = self.known, None
            return None
        return propose(self, **wanted)

    ask = master.MasterState._propose

    def listed(self: master.MasterState, now_ms: int) -> list[Effect]:
        effects = ask(self, now_ms)
        self._list_union()
        return effects

    return [(in_sync.InSyncSet, "propose", mutant), (master.MasterState, "_propose", listed)]


@mutation("R7-expand", "R7: a member is proposed before it is waited for")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        proposal = propose(self, **wanted)
        self.union &= self.known
        return proposal

    return [(in_sync.InSyncSet, "propose", mutant)]


@mutation("R7-shrink", "R7: a member is not waited for any more before the controller has written")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        proposal = propose(self, **wanted)
        self.union -= wanted["leaving"]
        return proposal

    return [(in_sync.InSyncSet, "propose", mutant)]


@mutation("R8-all", "R8: as many as the minimum hold it, not all of the union")
def _() -> list[Patch]:
    progress = master.MasterState._progress

    def mutant(self: master.MasterState, effects: list[Effect]) -> None:
        others, sync = self._others, self._is_sync
        needed = self._in_sync.group.node.settings.min_in_sync - 1
        by_position = sorted(others, key=lambda other: -(other.flushed if sync else other.written))
        self._others = tuple(by_position[:needed])
        progress(self, effects)
        self._others = others

    return [(master.MasterState, "_progress", mutant)]


@mutation("epstart", "R7: a member joins at a confirm offset below the start of the epoch")
def _() -> list[Patch]:
    propose = master.MasterState._propose

    def mutant(self: master.MasterState, now_ms: int) -> list[Effect]:
        start, self.start = self.start, 0
        effects = propose(self, now_ms)
        self.start = start
        return effects

    return [(master.MasterState, "_propose", mutant)]


@mutation("expinc", "R7: a member joins on the acks of a session of an earlier life")
def _() -> list[Patch]:
    def may_join(self: member.Member, bar: int, is_sync: bool) -> bool:
        return (self.flushed if is_sync else self.written) >= bar

    return [(member.Member, "may_join", may_join)]


@mutation("join-any", "R7: a member joins without having caught up")
def _() -> list[Patch]:
    return [(member.Member, "may_join", lambda self, *_: self.is_open and self.session_incarnation == self.incarnation)]


# ---- sessions


def _deaf_port() -> list[Patch]:
    """The port lets frames of closed connections through: the cores' own check is what is tested."""
    on_slave_frame, on_master_frame = port.SimulatedPort.on_slave_frame, port.SimulatedPort.on_master_frame

    def from_slave(self: port.SimulatedPort, connection: port.Connection, frame: Any) -> None:
        if isinstance(frame, Ack) and connection not in self._peers:
            self._broker.replica.on_slave_frame(connection.slave.name, frame)
        else:
            on_slave_frame(self, connection, frame)

    def from_master(self: port.SimulatedPort, connection: port.Connection, frame: Any, data: bytes) -> None:
        if isinstance(frame, Accepted):
            self._broker.replica.on_master_frame(frame, b"")
        else:
            on_master_frame(self, connection, frame, data)

    return [
        (port.SimulatedPort, "on_slave_frame", from_slave),
        (port.SimulatedPort, "on_master_frame", from_master),
    ]


@mutation("nonce-ack", "R14: an ack counts whatever session it names")
def _() -> list[Patch]:
    on_frame = master.MasterState.on_frame

    def mutant(self: master.MasterState, peer: str, frame: Any, now_ms: int) -> list[Effect]:
        if isinstance(frame, Ack) and peer in self._members:
            frame = replace(frame, session=self._members[peer].session)
        return on_frame(self, peer, frame, now_ms)

    return [*_deaf_port(), (master.MasterState, "on_frame", mutant)]


@mutation("nonce-hello", "R4: the answer to an opening counts whatever session it names")
def _() -> list[Patch]:
    on_frame = slave.SlaveState.on_frame

    def mutant(self: slave.SlaveState, frame: Any, now_ms: int, data: bytes = b"") -> list[Effect]:
        if isinstance(frame, Accepted) and frame.epoch == self.epoch and self.is_quiet and self._is_open:
            return self._on_accepted(replace(frame, session=self.session), now_ms)
        return on_frame(self, frame, now_ms, data)

    return [*_deaf_port(), (slave.SlaveState, "on_frame", mutant)]


@mutation("highn", "R14: closing a session forgets its number")
def _() -> list[Patch]:
    close = master.MasterState._close

    def mutant(self: master.MasterState, one: member.Member) -> Effect:
        effect = close(self, one)
        one.session = 0
        return effect

    return [(master.MasterState, "_close", mutant)]


@mutation("R14", "R14: an ack counts even beyond what was sent")
def _() -> list[Patch]:
    def mutant(self: master.MasterState, one: member.Member, ack: Ack, now_ms: int) -> list[Effect]:
        one.written, one.flushed, one.heard_ms = ack.written, ack.flushed, now_ms
        effects: list[Effect] = []
        one.observe_lag(self._log.end, self._is_sync, now_ms)
        if one.sent < self._log.end and one.sent < one.credit:
            self._send_chunk(one, self._log.end, now_ms, effects)
        self._progress(effects)
        return effects if one.is_counted else effects + self._propose(now_ms)

    return [(master.MasterState, "_on_ack", mutant)]


@mutation("hellofl", "R8: an opening counts up to the truncation point under sync too, flushed or not")
def _() -> list[Patch]:
    opens = member.Member.open

    def mutant(self: member.Member, opening: Any, offset: int, **now: Any) -> None:
        opens(self, replace(opening, flushed=offset), offset, **now)

    return [(member.Member, "open", mutant)]


# ---- the slave's log


@mutation("guardmin", "R4: the guard is the confirm offset as it was heard, whatever the log holds")
def _() -> list[Patch]:
    return [(replica_log.ReplicaLog, "guard", property(lambda self: self.confirm)), *_confirm_as_heard()]


def _confirm_as_heard() -> list[Patch]:
    def hear_confirm(self: intake.Intake, heard: int) -> bool:
        moved = heard > self._log.confirm
        self._log.confirm = max(self._log.confirm, heard)
        return moved

    return [(intake.Intake, "hear_confirm", hear_confirm)]


@mutation("confirm-slave", "R6: a slave shows up to the confirm offset heard earlier, not in this session")
def _() -> list[Patch]:
    begin = intake.Intake.begin

    def mutant(self: intake.Intake) -> None:
        heard = self._heard_confirm
        begin(self)
        self._heard_confirm = heard

    return [(intake.Intake, "begin", mutant)]


@mutation("twoep", "R5: one epoch for sender and data")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        return on_chunk(self, chunk, data, now_ms) if chunk.data_epoch >= self.epoch else []

    return [(slave.SlaveState, "_on_chunk", mutant)]


@mutation("R5-epoch", "R5: a chunk is filed under the master's epoch")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        return on_chunk(self, replace(chunk, data_epoch=chunk.epoch), data, now_ms)

    return [(slave.SlaveState, "_on_chunk", mutant)]


@mutation("R5-end", "R5: a chunk is written where it says, over what is there")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        if chunk.begin >= self._intake.received or not self.is_quiet:
            return on_chunk(self, chunk, data, now_ms)
        self._log.on_cut(chunk.begin)
        return [CutLog(chunk.begin), *self._intake.take(chunk, data)]

    return [(slave.SlaveState, "_on_chunk", mutant)]


@mutation("R2-slave", "R2: a slave takes frames of any epoch")
def _() -> list[Patch]:
    on_frame = slave.SlaveState.on_frame

    def mutant(self: slave.SlaveState, frame: Any, now_ms: int, data: bytes = b"") -> list[Effect]:
        return on_frame(self, replace(frame, epoch=self.epoch), now_ms, data)

    return [(slave.SlaveState, "on_frame", mutant)]


@mutation("truncmin-r3", "R4: cut to the end of the epoch in the master's list alone")
def _() -> list[Patch]:
    def truncation_point(rows: EpochList, end: int, theirs: EpochList, their_end: int) -> int:
        for index in range(len(rows.rows) - 1, -1, -1):
            if rows.rows[index] in theirs.rows:
                return min(rows.end_of(index, end), their_end)
        return 0

    return [(master, "truncation_point", truncation_point)]


@mutation("R4-intent", "R4: the cut is not made durable, and nothing says that it was begun")
def _() -> list[Patch]:
    def cut(self: disk.Disk, offset: int) -> None:
        if offset < self.durable and not self.undead:
            self.undead = bytes(self.log[: self.durable])
        self.truncate(offset)

    return [(disk.Disk, "cut", cut), (disk.Disk, "persist_intent", lambda *_: None)]


@mutation("R4-rowsync", "R5: the row of an epoch is written, and not synced before its first byte")
def _() -> list[Patch]:
    def persist_row(self: disk.Disk, epochs: EpochList) -> None:
        self.epochs = epochs

    return [(disk.Disk, "persist_row", persist_row)]


# ---- roles


def _epoch_row_again() -> list[Patch]:
    """A row that is there already does no harm."""
    with_row = EpochList.with_row

    def mutant(self: EpochList, number: int, begin: int) -> EpochList:
        return self if self.newest == number else with_row(self, number, begin)

    return [(EpochList, "with_row", mutant)]


def _lead_if_named(is_accepted: Callable[[role.RoleState, GroupNode], bool]) -> list[Patch]:
    decide = role.RoleState._decide

    def mutant(self: role.RoleState) -> list[Effect]:
        assert self.known is not None
        node = self.known.node
        if node.master != self._name or not is_accepted(self, node):
            return decide(self)
        self._decided = node.epoch
        return self._await(CutTail())

    return [(role.RoleState, "_decide", mutant)]


@mutation("newepoch", "R1: a process resumes the epoch that an earlier life led")
def _() -> list[Patch]:
    return [*_epoch_row_again(), *_lead_if_named(lambda *_: True)]


@mutation("inccheck", "R1: an election is accepted by another life than the one it names")
def _() -> list[Patch]:
    return _lead_if_named(lambda self, node: self._elected == node.epoch)


@mutation("R2-reject", "R2: news of an epoch below the promise are obeyed")
def _() -> list[Patch]:
    def on_group(self: role.RoleState, known: KnownGroup) -> list[Effect]:
        if self.known is not None and known.version <= self.known.version:
            return []
        self.known = known
        return self._advance()

    return [(role.RoleState, "on_group", on_group)]


@mutation("sync-log", "R3: a new master under sync does not sync what it inherited")
def _() -> list[Patch]:
    return [(role.RoleState, "_is_sync", lambda _: False)]


class CutToConfirm(CutTail):
    """R13 read wrongly: cut to the confirm offset."""


@mutation("R13", "R13: a new master cuts its log at the confirm offset")
def _() -> list[Patch]:
    await_, apply = role.RoleState._await, disk.DiskShell._apply

    def mutant(self: role.RoleState, effect: Any) -> list[Effect]:
        if isinstance(effect, CutTail):
            self._log.epochs = self._log.epochs.recovered(self._log.guard)
            effect = CutToConfirm()
            object.__setattr__(effect, "offset", self._log.guard)
        return await_(self, effect)

    def cut(self: disk.DiskShell, effect: Any) -> None:
        if isinstance(effect, CutToConfirm):
            effect = CutLog(effect.offset)  # type: ignore[attr-defined]
        apply(self, effect)

    return [(role.RoleState, "_await", mutant), (disk.DiskShell, "_apply", cut)]


# ---- the disk's side


@mutation("restartfl", "R8: what recovery found counts as flushed")
def _() -> list[Patch]:
    return [(disk.Disk, "flushed_at_start", lambda self: len(self.log))]


@mutation("ffdrop", "R8: pages of a failed fsync are read back as if they were on the disk")
def _() -> list[Patch]:
    return [(disk.Disk, "forget_failed_pages", lambda _: None)]


@mutation("ffmark", "R9: who had a failed fsync under async passes for clean, since the kernel still runs")
def _() -> list[Patch]:
    def forget(self: disk.Disk) -> None:
        self.failed_pages = False
        self.truncate(self.durable)

    return [(disk.Disk, "forget_failed_pages", forget)]


@mutation("sticky", "R9: a clean stop vouches for a life that nobody has heard of")
def _() -> list[Patch]:
    def mark_clean(self: disk.Disk) -> None:
        self.durable = self.clean_end = len(self.log)

    return [(disk.Disk, "mark_clean", mark_clean)]


# ---- the controller


@mutation("eligclear", "R9: the write that reaches the minimum does not empty the eligible set")
def _() -> list[Patch]:
    with_in_sync = group_state.with_in_sync

    def mutant(node: GroupNode, members: Any, *, forgetful: frozenset[str] = frozenset()) -> GroupNode:
        after = with_in_sync(node, members, forgetful=forgetful)
        kept = {*after.eligible, *node.eligible} - set(after.in_sync) - forgetful
        return replace(after, eligible=tuple(sorted(kept)))

    return _everywhere("with_in_sync", mutant)


@mutation("R9-elig", "R9: there is no eligible set")
def _() -> list[Patch]:
    with_in_sync = group_state.with_in_sync

    def mutant(node: GroupNode, members: Any, *, forgetful: frozenset[str] = frozenset()) -> GroupNode:
        return replace(with_in_sync(node, members, forgetful=forgetful), eligible=())

    return _everywhere("with_in_sync", mutant)


@mutation("propver", "R7: the controller applies a proposal to a node newer than the one it was built on")
def _() -> list[Patch]:
    on_alter = reign.Reign.on_alter_in_sync

    def mutant(self: reign.Reign, call: Any) -> None:
        call.request = replace(call.request, version=self._detection.known(call.request.broker_name).version)
        on_alter(self, call)

    return [(group_state, "check_version", lambda known, _: known.node), (reign.Reign, "on_alter_in_sync", mutant)]


@mutation("wipeid", "R9: a store of another identity stays in the sets")
def _() -> list[Patch]:
    why = registration._why_unclean

    def mutant(request: Any, present: Any, flush_mode: Any) -> str | None:
        return why(replace(request, store_id=present.store_id), present, flush_mode)

    return [(registration, "_why_unclean", mutant)]


@mutation("R9-unclean", "R9: a replica that may have forgotten stays in the sets")
def _() -> list[Patch]:
    return [(registration, "_why_unclean", lambda *_: None)]


@mutation("R10", "R10: anybody may be elected")
def _() -> list[Patch]:
    every = lambda node: frozenset(replica.name for replica in node.replicas)  # noqa: E731
    best = detection.Detection._best

    def mutant(self: detection.Detection, group: Any, now_ms: int, *, but: str | None = None) -> str | None:
        found = best(self, group, now_ms, but=but)
        names = [name for name in sorted(every(group.known.node)) if name != but and self._alive(group, name, now_ms)]
        return found or (names[0] if names else None)

    return [(group_state, "electable", every), (detection.Detection, "_best", mutant)]


@mutation("R1", "R1: an election does not give a new epoch")
def _() -> list[Patch]:
    def crowned(node: GroupNode, replica: Any) -> GroupNode:
        return replace(node, epoch=max(1, node.epoch), master=replica.name, master_incarnation=replica.incarnation)

    return [(group_state, "_crowned", crowned)]
