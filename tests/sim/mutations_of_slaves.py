"""What a slave's log becomes without a rule: where it is cut, what it takes (R2, R4, R5, R6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zenitmq.broker.group import epoch_file
from zenitmq.broker.replication import disk as on_disk
from zenitmq.broker.replication import epochs, intake, master, replica_files, replica_log, slave
from zenitmq.broker.replication.effects import CutLog, Effect
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frames import Chunk
from zenitmq.broker.replication.replica_files import ReplicaFiles

from . import disk
from .mutation_table import Patch, cut_open_log, mutation


@mutation("guardmin", "R4: the guard is the confirm offset as heard, even above the log's end")
def _() -> list[Patch]:
    return [(replica_log.ReplicaLog, "guard", property(lambda self: self.confirm)), *_confirm_as_heard()]


def _confirm_as_heard() -> list[Patch]:
    def hear_confirm(self: intake.Intake, heard: int) -> bool:
        moved = heard > self._log.confirm
        self._log.confirm = max(self._log.confirm, heard)
        return moved

    return [(intake.Intake, "hear_confirm", hear_confirm)]


@mutation("confirm-slave", "R6: a slave shows up to a confirm offset heard in an earlier session")
def _() -> list[Patch]:
    begin = intake.Intake.begin

    def mutant(self: intake.Intake) -> None:
        heard = self._heard_confirm
        begin(self)
        self._heard_confirm = heard

    return [(intake.Intake, "begin", mutant)]


@mutation("twoep", "R5: a chunk has one epoch for sender and data")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        return on_chunk(self, chunk, data, now_ms) if chunk.data_epoch >= self.epoch else []

    return [(slave.SlaveState, "_on_chunk", mutant)]


@mutation("R5-epoch", "R5: a slave files a chunk under the master's epoch")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        return on_chunk(self, replace(chunk, data_epoch=chunk.epoch), data, now_ms)

    return [(slave.SlaveState, "_on_chunk", mutant)]


@mutation("R5-end", "R5: a slave writes a chunk at its offset, over existing bytes")
def _() -> list[Patch]:
    on_chunk = slave.SlaveState._on_chunk

    def mutant(self: slave.SlaveState, chunk: Chunk, data: bytes, now_ms: int) -> list[Effect]:
        if chunk.begin >= self._intake.received or not self.is_quiet:
            return on_chunk(self, chunk, data, now_ms)
        self._log.on_cut(chunk.begin)
        self._intake.take(chunk, data)
        return [CutLog(chunk.begin), *self._intake.next_step()]

    def cut_log(self: on_disk.StoreDisk, effect: CutLog, on_done: Any) -> None:
        cut_open_log(self, effect.offset)
        on_done()

    return [(slave.SlaveState, "_on_chunk", mutant), (on_disk.StoreDisk, "_cut_log", cut_log)]


@mutation("R2-slave", "R2: a slave takes frames of any epoch")
def _() -> list[Patch]:
    on_frame = slave.SlaveState.on_frame

    def mutant(self: slave.SlaveState, frame: Any, now_ms: int, data: bytes = b"") -> list[Effect]:
        return on_frame(self, replace(frame, epoch=self.epoch), now_ms, data)

    return [(slave.SlaveState, "on_frame", mutant)]


@mutation("truncmin-r3", "R4: a slave cuts to the end of the epoch in the master's list alone")
def _() -> list[Patch]:
    def truncation_point(rows: EpochList, end: int, theirs: EpochList, their_end: int) -> int:
        for index in range(len(rows.rows) - 1, -1, -1):
            if rows.rows[index] in theirs.rows:
                return min(rows.end_of(index, end), their_end)
        return 0

    return [(master, "truncation_point", truncation_point)]


@mutation("R4-rowlife", "R4: with too many rows the oldest is dropped, although its bytes are kept")
def _() -> list[Patch]:
    return [(epochs, "_trimmed", lambda rows, _: rows[-epochs.ROWS_KEPT :])]


@mutation("R4-intent", "R4: the cut is not made durable, and no intent is written")
def _() -> list[Patch]:
    def intend(self: ReplicaFiles, epoch: int, offset: int) -> None:
        self._facts = replace(self._facts, intent_epoch=epoch, intent_offset=offset)
        disk_of(self).files[self._path] = replica_files._encode(self._facts).encode()

    return [(ReplicaFiles, "intend", intend), (disk.Disk, "sync_cut", lambda _: None)]


@mutation("R4-rowsync", "R5: the row of an epoch is not synced before its first byte")
def _() -> list[Patch]:
    def write_epochs(directory: str, rows: Any, small_files: Any) -> None:
        small_files._disk.files[disk.EPOCH_FILE] = epoch_file.render_epochs(rows).encode()
        small_files._disk.unsynced.add(disk.EPOCH_FILE)

    return [(on_disk, "write_epochs", write_epochs)]


def disk_of(files: ReplicaFiles) -> disk.Disk:
    """Under the simulated small files."""
    found: disk.Disk = files.small_files._disk  # type: ignore[attr-defined]
    return found
