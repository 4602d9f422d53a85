"""One session's stream at the slave: chunks between network and disk, credit, and the heard confirm offset (R5, R6).

    chunk -> waits here, in order -> if it begins an epoch, its row becomes durable -> appended at the log's end

Only one step is on the disk at a time; the granted credit limits what waits. A new session discards the waiting chunks and
the former session's confirm offset; the step on the disk is still completed. If the disk has no room for a step, nothing
has changed: the chunk waits here again, and following may end meanwhile. Pure.
"""

from __future__ import annotations

from collections import deque

from .effects import Append, DiskEffect, PersistEpochs
from .frames import Chunk
from .replica_log import ReplicaLog


class Intake:
    """Moves `log` as steps complete. `received`: everything below is appended, or waits here. `granted`: the credit.
    `lacks_room`: the disk had no room for the next step, which waits for `retry`."""

    def __init__(self, log: ReplicaLog, credit_bytes: int) -> None:
        self.received = log.end
        self.granted = 0
        self._log = log
        self._credit_bytes = credit_bytes
        self._waiting: deque[tuple[Chunk, bytes | memoryview]] = deque()
        self._awaiting: DiskEffect | None = None
        self._is_awaited = False  # of the present session: a step of an earlier one is not given to the disk again
        self.lacks_room = False
        self._heard_confirm = 0

    @property
    def is_quiet(self) -> bool:
        """True if no step is on the disk."""
        return self._awaiting is None

    def begin(self) -> None:
        """A session begins to stream, from the end of the log on."""
        self.received = self._log.end
        self.granted = self._heard_confirm = 0

    def forget(self) -> None:
        """The session has ended."""
        self._waiting.clear()
        self._is_awaited = self.lacks_room = False

    def grant(self) -> bool:
        """Raises the credit once half of it is used; True if it was raised."""
        limit = self._log.end + self._credit_bytes
        if limit - self.granted < self._credit_bytes // 2:
            return False
        self.granted = limit
        return True

    def is_next(self, chunk: Chunk) -> bool:
        """Takes in a chunk. False after a lost frame, or if the master breaks a rule: then the session must end."""
        newest = self._waiting[-1][0].data_epoch if self._waiting else self._log.epochs.newest
        return chunk.begin == self.received and chunk.begin < self.granted and chunk.data_epoch >= newest

    def take(self, chunk: Chunk, data: bytes | memoryview) -> None:
        """Adds the next chunk to the waiting ones."""
        self.received = chunk.end
        self._waiting.append((chunk, data))

    def next_step(self) -> list[DiskEffect]:
        """Gives the disk the next chunk, or first the row of its epoch; nothing while a step is on the disk. Raises
        TooManyEpochs."""
        if self._awaiting is not None or not self._waiting or self.lacks_room:
            return []
        self._is_awaited = True
        chunk, data = self._waiting[0]
        if chunk.data_epoch != self._log.epochs.newest:
            self._awaiting = PersistEpochs(self._log.with_epoch(chunk.data_epoch, chunk.begin))
        else:
            self._waiting.popleft()
            self._awaiting = Append(chunk, data)
        return [self._awaiting]

    def on_no_room(self, effect: DiskEffect) -> bool:
        """The disk had no room for a step and did nothing; False if it was no step of a stream."""
        if effect is not self._awaiting:
            return False
        self._awaiting = None
        if self._is_awaited:
            self.lacks_room = True
            if isinstance(effect, Append):
                self._waiting.appendleft((effect.chunk, effect.data))
        return True

    def retry(self) -> None:
        """Tries the step again for which the disk had no room."""
        self.lacks_room = False

    def on_done(self, effect: DiskEffect) -> Chunk | None:
        """The disk has completed a step; returns the appended chunk, if it was an append."""
        if effect is not self._awaiting:
            return None
        self._awaiting = None
        if isinstance(effect, PersistEpochs):
            self._log.epochs = effect.epochs
        elif isinstance(effect, Append):
            self._log.end = effect.chunk.end
            return effect.chunk
        return None

    def hear_confirm(self, heard: int) -> bool:
        """The lower of the heard confirm offset and the own end, never decreasing (R6); True if it moved."""
        self._heard_confirm = max(self._heard_confirm, heard)
        confirm = min(self._heard_confirm, self._log.end)
        if confirm <= self._log.confirm:
            return False
        self._log.confirm = confirm
        return True
