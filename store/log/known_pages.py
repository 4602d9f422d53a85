"""The parts of the log that this process has already read from the disk: a pull may touch them directly.

Bytes that this process wrote are known. All others may lie on a sector that the disk cannot read, and
touching such a page is SIGBUS, which ends the process. So a worker reads them first, in steps, and
a reader that goes on pays once for each step. A step that the disk cannot read completely stays unknown.

Whether the kernel has dropped a page since is unknown. A sector that fails later is found as late as by any reader.
The loop asks, a worker adds; each is one operation on a set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...model.errors import OffsetOutOfRange
from .commit_log import CommitLog
from .segment import page_in

STEP_BYTES: Final = 1 << 20
STEPS_MAX: Final = 1 << 16
LOOKED_AHEAD: Final = 64  # steps

Place = tuple[int, int]


class KnownPages:
    """The known pages of one log."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._step = min(STEP_BYTES, log.segment_bytes)
        self._known: set[int] = set()

    def hold(self, places: Iterable[Place]) -> bool:
        """True if all of these places, [begin, end) each, may be touched."""
        step, known, fresh_from = self._step, self._known, self._log.fresh_from
        return all(
            number in known
            for begin, end in places
            for number in range(begin // step, (min(end, fresh_from) - 1) // step + 1)
        )

    def end_from(self, begin: int) -> int:
        """Up to where the log may be touched from `begin` on; `begin` or less if that is unknown."""
        step, number = self._step, begin // self._step
        for at in range(number, number + LOOKED_AHEAD):
            if at * step >= self._log.fresh_from:
                return self._log.written
            if at not in self._known:
                return at * step
        return (number + LOOKED_AHEAD) * step

    def learn(self, places: Iterable[Place]) -> None:
        """Brings these places, which the disk has just read, into memory with their surroundings. A worker's."""
        step = self._step
        for begin, end in places:
            for number in range(begin // step, (end - 1) // step + 1):
                if number in self._known or not self._is_given(number * step, number * step + step):
                    continue
                if (
                    len(self._known) >= STEPS_MAX
                ):  # of a log that has gone on since: what is still read becomes known again
                    self._known = set()
                self._known.add(number)

    def _is_given(self, begin: int, end: int) -> bool:
        at, limit = max(begin, self._log.begin), min(end, self._log.written)
        try:
            while at < limit:
                view = self._log.view_onwards(at, limit)
                if not page_in(view):
                    return False
                at += len(view)
        except OffsetOutOfRange:  # retention was faster
            return False
        return True
