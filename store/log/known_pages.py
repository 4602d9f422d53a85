"""Which parts of the log this process has had from its disk once: a pull may touch them as they are.

What this process wrote itself it has. All else, though it be little and near the end, may lie on a sector that the disk
cannot give, and to touch such a page is SIGBUS, the end of the process: a worker asks for it first, a step of the log at a
time, so that who reads on pays once for each step. A step that the disk does not give whole stays unknown.

Not known: whether the kernel has dropped a page since. A sector that fails behind that is met as late as by any reader.
The loop asks, a worker learns; each is one step on a set.
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
    """Of one log."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._step = min(STEP_BYTES, log.segment_bytes)
        self._known: set[int] = set()

    def hold(self, places: Iterable[Place]) -> bool:
        """Whether all of these places, [begin, end) each, may be touched."""
        step, known, fresh_from = self._step, self._known, self._log.fresh_from
        return all(
            number in known
            for begin, end in places
            for number in range(begin // step, (min(end, fresh_from) - 1) // step + 1)
        )

    def end_from(self, begin: int) -> int:
        """Up to where the log may be touched from `begin` on, at most; `begin` or less where that is not known."""
        step, number = self._step, begin // self._step
        for at in range(number, number + LOOKED_AHEAD):
            if at * step >= self._log.fresh_from:
                return self._log.written
            if at not in self._known:
                return at * step
        return (number + LOOKED_AHEAD) * step

    def learn(self, places: Iterable[Place]) -> None:
        """Brings these places, whose bytes the disk gave just now, into memory with what lies around them. A worker's."""
        step = self._step
        for begin, end in places:
            for number in range(begin // step, (end - 1) // step + 1):
                if number in self._known or not self._is_given(number * step, number * step + step):
                    continue
                if len(self._known) >= STEPS_MAX:  # of a log that has gone on since: what is read still is learnt anew
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
