"""A slave's side of replication: opens a session, cuts its log to the master's, appends chunks, acknowledges. Pure.

    idle --on_master--> opening --Accepted--> cutting (R4) --> streaming --lost frame, time-out, Goodbye--> pausing
                            ^---------------- a fresh socket, a higher session number ------------------------'
                            '--Refused: behind retention--> starting anew --------------------------------> pausing
    any --asked to cut below the guard, or below the log's begin; files of another size--> halted, until another epoch

Frames of another session, or of another epoch, are dropped (R2, R14). The promise of the
epoch is durable before `on_master` is called (role). This module begins and ends sessions; intake handles the chunks of a
streaming one, truncation cuts the log. Bytes arrive checked and unpacked (chunk_payload). All times are
monotonic milliseconds.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...model.errors import CutRefused, SegmentsDiffer, TooManyEpochs
from ...model.groups.group import Incarnation
from .effects import (
    AskController,
    CloseSession,
    ConfirmMoved,
    DiskEffect,
    Effect,
    Halt,
    OpenSession,
    PersistIntent,
    SendFrame,
    StartAnew,
    Stopped,
    TellMasterGone,
)
from .frames import Accepted, Ack, Chunk, Credit, Frame, Goodbye, Idle, Opening, RefusalReason, Refused
from .intake import Intake
from .replica_log import ReplicaLog
from .truncation import Truncation

CREDIT_BYTES: Final = 4 * 1024 * 1024
"""How far the master may send ahead of what is appended: covers a round trip at 2 GB/s, and limits what waits here."""
OPEN_TIMEOUT_MS: Final = 1000
SILENCE_MS: Final = 1500
"""If the master sends neither chunk nor idle frame for this long, a fresh socket is tried."""
PAUSE_MS: Final = 50
PAUSE_MS_MAX: Final = 1000
"""The time between two tries: doubles from the first value to the second while they fail."""
NO_ROOM_RETRY_MS: Final = 200
"""The time after which a disk without room for a chunk is tried again."""


class Phase(Enum):
    """The state of the session."""

    IDLE = "idle"
    OPENING = "opening"
    CUTTING = "cutting"
    STARTING_ANEW = "starting anew"
    STREAMING = "streaming"
    PAUSING = "pausing"
    HALTED = "halted"


class SlaveState:
    """`phase`, `session` (the last used number), `master` and `epoch`: whom it follows; `heard_ms`: when it was last heard."""

    def __init__(
        self,
        name: str,
        *,
        group: int,
        incarnation: Incarnation,
        log: ReplicaLog,
        session: int,
        segment_bytes: int,
        wants_lz4: bool = False,
        credit_bytes: int = CREDIT_BYTES,
    ) -> None:
        """`session`: at or above every number an earlier process of this replica has used: starts << 32, for one.
        `segment_bytes`: of the files of this log.
        """
        self.phase = Phase.IDLE
        self.session = session
        self.master: str | None = None
        self.epoch = 0
        self.heard_ms = 0
        self._name = name
        self._group = group
        self._incarnation = incarnation
        self._log = log
        self._segment_bytes = segment_bytes
        self._wants_lz4 = wants_lz4
        self._intake = Intake(log, credit_bytes)
        self._truncation: Truncation | None = None
        self._starting_anew: StartAnew | None = None
        self._deadline_ms = 0
        self._retry_ms = 0  # when a disk without room is tried again
        self._pause_ms = PAUSE_MS
        self._stopping = False

    @property
    def is_quiet(self) -> bool:
        """True if no effect is on the disk."""
        return self._intake.is_quiet and self._truncation is None and self._starting_anew is None

    def cut_off_ms(self, now_ms: int) -> int:
        """For how long nothing was heard of the followed master; 0 in phases that do not wait for it."""
        waits = self.phase in (Phase.OPENING, Phase.PAUSING, Phase.STREAMING)
        return now_ms - self.heard_ms if waits else 0

    # ---- whom to follow

    def on_master(self, master: str, epoch: int, now_ms: int) -> list[Effect]:
        """Follow this master. `epoch` is promised; the core was stopped before, or never followed anybody."""
        assert self.phase is Phase.IDLE
        assert self.is_quiet
        self.master, self.epoch, self.heard_ms = master, epoch, now_ms
        self._pause_ms = PAUSE_MS
        return self._open(now_ms)

    def on_stop(self) -> list[Effect]:
        """Follow nobody. `Stopped` comes once no effect is on the disk; a cut is completed first."""
        effects = self._close()
        self.phase = Phase.IDLE
        self._stopping = True
        return effects + self._settle()

    def on_goodbye(self) -> list[Effect]:
        """This process is about to stop: tells the master."""
        return [self._send(Goodbye(*self._stamp))] if self._is_open else []

    # ---- the network

    def on_frame(self, frame: Frame, now_ms: int, data: bytes | memoryview = b"") -> list[Effect]:
        """A frame of the master; `data`: a chunk's bytes, decoded."""
        if (frame.group, frame.session) != (self._group, self.session) or not self._is_open:
            return []
        self.heard_ms = now_ms
        if isinstance(frame, Refused):
            is_answer = self.phase is Phase.OPENING or frame.reason is RefusalReason.CLOSED
            return self._on_refused(frame, now_ms) if is_answer else []
        if frame.epoch != self.epoch:
            return []
        if isinstance(frame, Accepted):
            return self._on_accepted(frame, now_ms) if self.phase is Phase.OPENING else []
        if isinstance(frame, Goodbye):
            return self.on_socket_closed(frame.session, now_ms)
        if self.phase is not Phase.STREAMING:
            return []
        self._deadline_ms = now_ms + SILENCE_MS
        if isinstance(frame, Chunk):
            return self._on_chunk(frame, data, now_ms)
        if isinstance(frame, Idle):
            return self._on_idle(frame, now_ms)
        return []

    def on_bad_frame(self, session: int, now_ms: int) -> list[Effect]:
        """Bytes on this session's socket could not be decoded: the session ends."""
        return self._reopen_later(now_ms) if session == self.session and self._is_open else []

    def on_socket_closed(self, session: int, now_ms: int) -> list[Effect]:
        """The master's end closed the socket, or says that it stops."""
        if session != self.session or not self._is_open:
            return []
        assert self.master is not None
        return [TellMasterGone(self.master, self.epoch), *self._reopen_later(now_ms)]

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Time has passed; a call every 50 ms is enough."""
        if self._intake.lacks_room and now_ms >= self._retry_ms:
            self._intake.retry()
            return self._next_step()
        if now_ms < self._deadline_ms:
            return []
        if self.phase is Phase.PAUSING and self.is_quiet:
            return self._open(now_ms)
        if self.phase in (Phase.OPENING, Phase.STREAMING):
            return self._reopen_later(now_ms)
        return []

    # ---- the disk

    def on_flushed(self) -> list[Effect]:
        """`log.flushed` has grown."""
        return [self._ack()] if self.phase is Phase.STREAMING else []

    def on_done(self, effect: DiskEffect, now_ms: int) -> list[Effect]:
        """A disk effect of this core was carried out."""
        if self._truncation is not None:
            return self._on_cutting(effect, now_ms)
        if effect is self._starting_anew:
            return self._on_started_anew(now_ms)
        appended = self._intake.on_done(effect)
        effects = self._on_appended(appended) if appended is not None else []
        return effects + self._settle()

    def on_no_room(self, effect: DiskEffect, now_ms: int) -> list[Effect] | None:
        """The disk had no room for an effect of this core, and did nothing. None: the effect must be carried out all the same,
        for example a cut. A chunk waits here instead. Following may end meanwhile: the master, which gets no sign of
        life, stops waiting for this replica."""
        if not self._intake.on_no_room(effect):
            return None
        self._retry_ms = now_ms + NO_ROOM_RETRY_MS
        return self._settle()

    def on_withdrawn(self) -> None:
        """The log does not begin anew and is unchanged. `on_stop` follows."""
        self._starting_anew = None

    # ---- sessions

    @property
    def _is_open(self) -> bool:
        return self.phase in (Phase.OPENING, Phase.CUTTING, Phase.STREAMING)

    @property
    def _stamp(self) -> tuple[int, int, int]:
        return self._group, self.epoch, self.session

    def _send(self, frame: Frame) -> Effect:
        assert self.master is not None
        return SendFrame(self.master, frame)

    def _open(self, now_ms: int) -> list[Effect]:
        """Opens a fresh socket and sends the first frame; the log does not move until the answer."""
        assert self.master is not None
        self.session += 1
        self.phase, self._deadline_ms = Phase.OPENING, now_ms + OPEN_TIMEOUT_MS
        log = self._log
        opening = Opening(
            *self._stamp, self._name, self._incarnation, log.end, log.flushed, log.offered_epochs, self._wants_lz4
        )
        return [OpenSession(self.master, self.session), self._send(opening)]

    def _close(self) -> list[Effect]:
        """Ends the session; chunks that the disk did not get yet are dropped."""
        self._intake.forget()
        if not self._is_open:
            return []
        assert self.master is not None
        return [CloseSession(self.master, self.session)]

    def _reopen_later(self, now_ms: int) -> list[Effect]:
        effects = self._close()
        self.phase, self._deadline_ms = Phase.PAUSING, now_ms + self._pause_ms
        self._pause_ms = min(PAUSE_MS_MAX, 2 * self._pause_ms)
        return effects

    def _on_refused(self, frame: Refused, now_ms: int) -> list[Effect]:
        if frame.reason is RefusalReason.BEHIND_RETENTION and frame.epoch == self.epoch:
            return self._start_anew(frame)
        effects = self._reopen_later(now_ms)
        if frame.reason is RefusalReason.STALE_SESSION:
            self.session = max(self.session, frame.offset)
        elif frame.reason is not RefusalReason.CLOSED:
            effects.append(AskController())
        return effects

    def _start_anew(self, frame: Refused) -> list[Effect]:
        if frame.offset < self._log.guard:
            return self._refuse_cut(frame.offset)
        effects = self._close()
        self.phase = Phase.STARTING_ANEW
        self._starting_anew = StartAnew(frame.log_begin, frame.epochs)
        return [*effects, self._starting_anew]

    def _on_started_anew(self, now_ms: int) -> list[Effect]:
        """The log is empty and begins where the master's does."""
        assert self._starting_anew is not None
        log, begin = self._log, self._starting_anew.begin
        log.begin, log.epochs = begin, self._starting_anew.epochs
        log.on_position(begin, begin)
        log.has_hole = False
        self._starting_anew = None
        if self.phase is Phase.STARTING_ANEW:
            self.phase, self._deadline_ms = Phase.PAUSING, now_ms
        return self._settle()

    def _on_accepted(self, frame: Accepted, now_ms: int) -> list[Effect]:
        log, offset = self._log, frame.truncate_at
        if offset < log.shortest:
            return self._refuse_cut(offset)
        if offset > log.end:
            return self._reopen_later(now_ms)  # more than was offered: not an answer to this opening
        if offset == log.end and not log.has_hole and log.epochs.below(offset) is log.epochs:
            return self._stream(now_ms)
        self.phase = Phase.CUTTING
        self._truncation = Truncation(PersistIntent(self.epoch, offset), log)
        return self._truncation.begin()

    def _on_cutting(self, effect: DiskEffect, now_ms: int) -> list[Effect]:
        assert self._truncation is not None
        effects = self._truncation.on_done(effect)
        if not self._truncation.is_done:
            return effects
        self._truncation = None
        return self._stream(now_ms) if self.phase is Phase.CUTTING else self._settle()

    def _refuse_cut(self, truncate_at: int) -> list[Effect]:
        """Never in a legal run: the bytes to cut are confirmed, or expired here, which only confirmed bytes do."""
        assert self.master is not None
        log = self._log
        return self._halt(CutRefused(self._name, self.master, self.epoch, truncate_at, log.begin, log.end, log.guard))

    def _halt(self, reason: CutRefused | SegmentsDiffer | TooManyEpochs) -> list[Effect]:
        effects = self._close()
        self.phase = Phase.HALTED
        return [*effects, Halt(reason)]

    # ---- the stream

    def _stream(self, now_ms: int) -> list[Effect]:
        """The log is where the master wants it: grant credit."""
        self.phase, self._deadline_ms, self.heard_ms = Phase.STREAMING, now_ms + SILENCE_MS, now_ms
        self._intake.begin()
        self._intake.grant()
        return [self._ack(), self._credit()]

    def _ack(self) -> Effect:
        return self._send(Ack(*self._stamp, self._log.end, self._log.flushed))

    def _credit(self) -> Effect:
        return self._send(Credit(*self._stamp, self._intake.granted))

    def _on_chunk(self, chunk: Chunk, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        if chunk.begin < self._intake.received:
            return []  # a duplicate
        if not self._intake.is_next(chunk):
            return self._reopen_later(now_ms)
        if not self._fits_files(chunk, len(data)):
            assert self.master is not None
            return self._halt(SegmentsDiffer(self._name, self.master, self._segment_bytes, chunk.begin, chunk.end))
        self._intake.take(chunk, data)
        return self._next_step()

    def _fits_files(self, chunk: Chunk, size_bytes: int) -> bool:
        """True if the chunk is within one file of this log, and ends the file if it ends the master's: then it has fewer
        bytes than it stands for."""
        file_end = chunk.begin - chunk.begin % self._segment_bytes + self._segment_bytes
        return chunk.end <= file_end and (chunk.end == file_end or size_bytes == chunk.end - chunk.begin)

    def _on_appended(self, chunk: Chunk) -> list[Effect]:
        """The bytes are in the log, even if their session has ended."""
        if self.phase is not Phase.STREAMING:
            return []
        self._pause_ms = PAUSE_MS
        credit = [self._credit()] if self._intake.grant() else []
        return [self._ack(), *credit, *self._hear_confirm(chunk.confirm)]

    def _on_idle(self, frame: Idle, now_ms: int) -> list[Effect]:
        if frame.sent > self._intake.received:
            return self._reopen_later(now_ms)  # the last chunk was lost
        if self._intake.lacks_room:
            return []
        self._pause_ms = PAUSE_MS
        return [self._ack(), self._credit(), *self._hear_confirm(frame.confirm)]

    def _hear_confirm(self, heard: int) -> list[Effect]:
        return [ConfirmMoved(self._log.confirm)] if self._intake.hear_confirm(heard) else []

    def _settle(self) -> list[Effect]:
        """After a step on the disk: the next one, or `Stopped` when none is left."""
        if self._stopping:
            if not self.is_quiet:
                return []
            self._stopping = False
            return [Stopped()]
        return self._next_step() if self.phase is Phase.STREAMING else []

    def _next_step(self) -> list[Effect]:
        try:
            return [*self._intake.next_step()]
        except TooManyEpochs as full:
            return self._halt(full)
