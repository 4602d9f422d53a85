"""Who leads without a rule, and what a disk forgets unsaid (R1, R2, R3, R8, R9, R13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zenitmq.broker.replication import frame_codec, role
from zenitmq.broker.replication.beginning import carry_out_beginning
from zenitmq.broker.replication.disk import StoreDisk
from zenitmq.broker.replication.effects import CutTail, Effect
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.groups.group import GroupNode, KnownGroup

from . import broker, disk
from .mutation_table import Patch, cut_open_log, mutation


def _epoch_row_again() -> list[Patch]:
    """A row that is there already does no harm."""
    with_row = EpochList.with_row

    def mutant(self: EpochList, number: int, begin: int, **log: int) -> EpochList:
        return self if self.newest == number else with_row(self, number, begin, **log)

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


@mutation("newepoch", "R1: a process resumes the epoch that its earlier incarnation led")
def _() -> list[Patch]:
    return [*_epoch_row_again(), *_lead_if_named(lambda *_: True)]


@mutation("inccheck", "R1: a replica accepts an election that names another incarnation")
def _() -> list[Patch]:
    return _lead_if_named(lambda self, node: self._elected == node.epoch)


@mutation("R2-reject", "R2: a replica obeys news of an epoch below its promise")
def _() -> list[Patch]:
    def on_group(self: role.RoleState, known: KnownGroup) -> list[Effect]:
        if self.known is not None and known.version <= self.known.version:
            return []
        self.known = known
        return self._advance()

    def decode_rows(data: bytes, **_: int) -> EpochList:  # the codec refuses what such a slave would say
        return EpochList.of(frame_codec._ROW.iter_unpack(data))

    return [(role.RoleState, "on_group", on_group), (frame_codec, "_decode_rows", decode_rows)]


@mutation("sync-log", "R3: a new master under sync does not sync what it inherited")
def _() -> list[Patch]:
    return [(role.RoleState, "_is_sync", lambda _: False)]


class CutToConfirm(CutTail):
    """R13 read wrongly: cut to the confirm offset."""


@mutation("R13", "R13: a new master cuts its log at the confirm offset")
def _() -> list[Patch]:
    await_, cut_tail = role.RoleState._await, StoreDisk._cut_tail

    def mutant(self: role.RoleState, effect: Any) -> list[Effect]:
        if isinstance(effect, CutTail):
            self._log.epochs = self._log.epochs.recovered(self._log.guard)
            effect = CutToConfirm()
            object.__setattr__(effect, "offset", self._log.guard)
        return await_(self, effect)

    def perform(self: StoreDisk, effect: Any, on_done: Any) -> None:
        if isinstance(effect, CutToConfirm):
            cut_open_log(self, effect.offset)  # type: ignore[attr-defined]
            cut_tail(self, effect, on_done)
        else:
            self._performers[type(effect)](effect, on_done)

    return [(role.RoleState, "_await", mutant), (StoreDisk, "perform", perform)]


# ---- the disk's side


@mutation("restartfl", "R8: what recovery found counts as flushed")
def _() -> list[Patch]:
    opened, position = StoreDisk.__init__, StoreDisk.position

    def init(self: StoreDisk, store: Any, *facts: Any, **calls: Any) -> None:
        opened(self, store, *facts, **calls)
        self._found = store.written  # type: ignore[attr-defined]

    def mutant(self: StoreDisk) -> tuple[int, int]:
        end, flushed = position(self)
        return end, min(end, max(flushed, self._found))  # type: ignore[attr-defined]

    return [(StoreDisk, "__init__", init), (StoreDisk, "position", mutant)]


@mutation("ffdrop", "R8: pages of a failed fsync are read back as if they were on the disk")
def _() -> list[Patch]:
    return [(disk.Disk, "drop_cached_pages", lambda _: None)]


@mutation("holecut", "R9: a log with a hole counts to its end")
def _() -> list[Patch]:
    opened = StoreDisk.__init__

    def init(self: StoreDisk, *facts: Any, **calls: Any) -> None:
        opened(self, *facts, **calls)
        self._hole = None

    return [(StoreDisk, "__init__", init)]


@mutation("holekept", "R9: an elected replica continues behind the hole of its log, though others are in the sets")
def _() -> list[Patch]:
    return [(role.RoleState, "_is_hole_to_be_cut", lambda *_: False)]


@mutation("ffmark", "R9: a replica with a failed fsync under async counts as clean, since the kernel still runs")
def _() -> list[Patch]:
    return [(ReplicaFiles, "note_disk_failed", lambda _: None)]


@mutation("modecarry", "R9: a registration forgets that unflushed bytes were counted")
def _() -> list[Patch]:
    note = ReplicaFiles.note_registered

    def note_registered(self: ReplicaFiles, group_id: str) -> None:
        if not self._is_registered:
            self.note_all_flushed()
        note(self, group_id)

    return [(ReplicaFiles, "note_registered", note_registered)]


@mutation("sticky", "R9: a clean stop hides an incarnation that no controller has heard of")
def _() -> list[Patch]:
    return [(ReplicaFiles, "mark_clean", lambda self, log_end: self._change(clean_end=log_end))]


@mutation("cutmark", "R9: a process writes a clean marker with its old end although its log is about to be cut")
def _() -> list[Patch]:
    def mark_clean(self: ReplicaFiles, log_end: int) -> None:
        if self._is_registered:
            self._change(clean_end=log_end)

    return [(ReplicaFiles, "mark_clean", mark_clean)]


@mutation("cutforget", "R4: a restart forgets the cut that was under way")
def _() -> list[Patch]:
    def forget(files: ReplicaFiles, directory: Any) -> None:
        carry_out_beginning(directory)
        files.clear_intent()

    return [(broker, "carry_through_cut", forget)]
