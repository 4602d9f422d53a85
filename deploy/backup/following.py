"""A backup that goes on for as long as its process runs: `zenit backup run --follow`.

It looks each second. A segment goes up once it is closed; the tail, which is not, every few minutes. What fails is told, and
tried again, at growing intervals; what can only be solved by an operator ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ...metrics.family import Labels, Reading
from ...metrics.readiness import Readiness
from ...metrics.table import (
    BACKUP_AGE,
    BACKUP_END,
    BACKUP_FAILURES,
    BACKUP_HELD,
    BACKUP_LAG,
    BACKUP_MISSED,
    BACKUP_UPLOADED,
)
from ...model.clock import monotonic_ms, now_ms, sleep_ms
from ...model.errors import BackupDamaged, BackupTargetFailed, StoreFormatError, ZenitError
from ...model.events.table import BACKUP_FAILED
from ...model.events.telling import tell
from .backup import Backup

log = logging.getLogger(__name__)

LOOK_MS: Final = 1_000
STEP_MS: Final = 100
RETRY_MS_MAX: Final = 60_000
NOTHING_YET: Final = "nothing is uploaded yet"


class Following:
    """A Subject of the metrics' port. `run` goes on until `stop`; one thread."""

    def __init__(self, backup: Backup, *, cluster: str, group: str, target: str, tail_ms: int) -> None:
        self.turned_ms = monotonic_ms()
        self._backup = backup
        self._cluster = cluster
        self._group = group
        self._target = target
        self._tail_ms = tail_ms
        self._began_ms = now_ms()
        self._failures = 0
        self._failed_in_a_row = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Makes `run` return once what is under way has ended. From any thread or a signal handler."""
        self._is_stopping = True

    def run(self) -> None:
        """Raises BackupRefused, BackupConflict: what only an operator can solve."""
        log.info("backup started group=%s target=%s", self._group, self._target)
        tail_due_ms = monotonic_ms()
        while not self._is_stopping:
            with_tail = monotonic_ms() >= tail_due_ms
            wait_ms = LOOK_MS
            if self._run_once(with_tail=with_tail):
                if with_tail:
                    tail_due_ms = monotonic_ms() + self._tail_ms
            else:
                wait_ms = min(LOOK_MS << min(self._failed_in_a_row, 10), RETRY_MS_MAX)
            self._wait(wait_ms)
        self._run_once(with_tail=True)

    def _run_once(self, *, with_tail: bool) -> bool:
        """False if it failed, and is to be tried again."""
        try:
            self._backup.run(with_tail=with_tail, report=self._on_progress)
        except (BackupTargetFailed, BackupDamaged, StoreFormatError, OSError) as error:
            self._failures += 1
            self._failed_in_a_row += 1
            code = error.code if isinstance(error, ZenitError) else 1
            tell(log, BACKUP_FAILED, group=self._group, target=self._target, why=str(error), code=code)
            return False
        self._failed_in_a_row = 0
        return True

    def _on_progress(self, _done: int, _total: int) -> None:
        self.turned_ms = monotonic_ms()

    def _wait(self, wait_ms: int) -> None:
        until_ms = monotonic_ms() + wait_ms
        while not self._is_stopping and (now := monotonic_ms()) < until_ms:
            self.turned_ms = now
            sleep_ms(min(STEP_MS, until_ms - now))

    # ---- for the metrics' port, in its thread

    @property
    def labels(self) -> Labels:
        """Of every series."""
        return ("cluster", self._cluster), ("node_type", "backup"), ("node_id", self._group)

    def readiness(self) -> Readiness:
        """It has uploaded all there was, once."""
        return Readiness("backup", () if self._backup.figures.ended_ms else (NOTHING_YET,))

    def readings(self) -> Iterator[Reading]:
        """How far it is."""
        figures, of = self._backup.figures, (self._group,)
        yield BACKUP_END, [(of, figures.end)]
        yield BACKUP_LAG, [(of, figures.lag_bytes)]
        yield BACKUP_AGE, [(of, max(0, now_ms() - (figures.ended_ms or self._began_ms)) / 1000)]
        yield BACKUP_UPLOADED, [(of, figures.uploaded_bytes)]
        yield BACKUP_MISSED, [(of, figures.missed_bytes)]
        yield BACKUP_HELD, [(of, int(figures.stopped_at is not None))]
        yield BACKUP_FAILURES, [(of, self._failures)]

    def detail(self, _: str) -> None:
        """It has no queues."""
