"""Decides what a scrub reads next, how fast and when: one round after another over the whole log. Pure.

    waiting --interval over, or requested--> a round: step, step, ... up to the end that was flushed at its begin --> result
                                             |- pauses while the broker is busy, unless the round was requested
                                             '- an unreadable place, tried again STEP_TRIES times --> an error

A step reads as many bytes as the rate has allowed since the last one; if it reads more, the next ones wait for that.
Progress and the last result are a document, so a round continues after a restart. Times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from ...model.plain_dataclass import dataclass

STEP_BYTES_MIN: Final = 64 * 1024
STEP_BYTES_MAX: Final = 4 * 1024 * 1024
STEP_SHARE: Final = 10  # share of a second's bytes: the least size of a step
STEP_TRIES: Final = 3  # at one place: retention may have just deleted it


@dataclass(frozen=True, slots=True)
class ScrubRound:
    """One reading of the log. [begin, end): its range; `position`: how far it came. `ended_ms` 0: it is in progress.

    `vouched_bytes`: the bytes read that a checksum covers; the others are checked by structure and body alone.
    `damaged_units`: units of queues that did not name their records and were rebuilt. `damaged_entries`: of checksum files;
    `mended_entries` of them were rewritten, and `damaged_entry` is the place of the first that was not. `error`: why the log
    was not read to its end; `position` is then how far; "" if it was.
    """

    begun_ms: int
    begin: int
    end: int
    position: int
    is_asked: bool = False
    read_bytes: int = 0
    vouched_bytes: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    damaged_units: int = 0
    ended_ms: int = 0
    error: str = ""
    damaged_entries: int = 0
    mended_entries: int = 0
    damaged_entry: str = ""


@dataclass(frozen=True, slots=True)
class ScrubStep:
    """Check about `bytes_max` bytes from `begin` on, none at or behind `limit`."""

    begin: int
    bytes_max: int
    limit: int


class ScrubPlan:
    """The plan of one store. `current`: the present round; `last`: the last one that ended; `since_ms`: when the first began
    to wait. `is_waiting_for_calm`: the broker was too busy at the last call."""

    def __init__(self, document: Mapping[str, Any], *, bytes_per_second: int, interval_ms: int, now_ms: int) -> None:
        """`document`: left by the last process, {} at first; an invalid one is ignored. `interval_ms` 0: only requested
        rounds."""
        self._default_rate = self._rate = bytes_per_second
        self._interval_ms = interval_ms
        self._allowed_bytes = 0
        self._counted_ms = now_ms
        self._is_reading = False
        self._failed_at, self._failures = -1, 0  # the last unreadable place, and how often in a row
        self.is_waiting_for_calm = False
        self.since_ms = self._waits_since_ms = now_ms
        self.current: ScrubRound | None = None
        self.last: ScrubRound | None = None
        try:
            since_ms = int(document["since_ms"])
            current, last = _parse_round(document["current"]), _parse_round(document["last"])
        except (KeyError, TypeError, ValueError):
            return
        self.since_ms, self.current, self.last = since_ms, current, last
        self._waits_since_ms = min(since_ms if last is None else last.ended_ms, now_ms)

    def document(self) -> dict[str, Any]:
        """The document to store for the next start."""
        return {
            "since_ms": self.since_ms,
            "current": None if self.current is None else asdict(self.current),
            "last": None if self.last is None else asdict(self.last),
        }

    def next_due_ms(self) -> int | None:
        """When the next round begins by itself; None if none does, or one is in progress."""
        if not self._interval_ms or self.current is not None:
            return None
        return self._waits_since_ms + self._interval_ms

    def ask(self, now_ms: int, *, bytes_per_second: int, begin: int, end: int) -> None:
        """Begins a round now, even during another one, at this rate (0: as configured), and however busy the broker is."""
        self._rate = bytes_per_second or self._default_rate
        self._begin(now_ms, begin, end, is_asked=True)

    def next_step(self, now_ms: int, *, begin: int, end: int, is_busy: bool) -> ScrubStep | None:
        """What to read now, if anything; `on_step` or `on_failed` answers it. [begin, end): the flushed log."""
        self._waits_since_ms = min(self._waits_since_ms, now_ms)  # a clock that was ahead must not delay a round
        due_ms = self.next_due_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._begin(now_ms, begin, end, is_asked=False)
        elapsed_ms, self._counted_ms = max(0, now_ms - self._counted_ms), now_ms
        self._allowed_bytes = min(self._allowed_bytes + self._rate * elapsed_ms // 1000, STEP_BYTES_MAX)
        current = self.current
        if current is None or self._is_reading:
            return None
        position, stop = max(current.position, begin), min(current.end, end)
        if position >= stop:
            self._finish(now_ms)
            return None
        self.is_waiting_for_calm = is_busy and not current.is_asked
        wanted = min(max(self._rate // STEP_SHARE, STEP_BYTES_MIN), STEP_BYTES_MAX)
        if self.is_waiting_for_calm or self._allowed_bytes < wanted:
            return None
        self._is_reading = True
        self.current = replace(current, position=position)
        return ScrubStep(position, self._allowed_bytes, stop)

    def on_step(
        self,
        step: ScrubStep,
        *,
        end: int,
        read_bytes: int,
        vouched_bytes: int,
        damaged: int,
        sizes: int,
        units: int = 0,
        mended_entries: int = 0,
        damaged_entries: Sequence[str] = (),
    ) -> None:
        """The step came to `end`. `damaged`: ranges found, of `sizes` bytes together; `units`: of queues. Of checksum entries:
        how many were rewritten, and the places of the others."""
        self._is_reading = False
        self._allowed_bytes -= read_bytes
        current = self.current
        if current is not None and current.position == step.begin:  # otherwise another round has begun meanwhile
            self.current = replace(
                current,
                position=end,
                read_bytes=current.read_bytes + read_bytes,
                vouched_bytes=current.vouched_bytes + vouched_bytes,
                damaged_ranges=current.damaged_ranges + damaged,
                damaged_bytes=current.damaged_bytes + sizes,
                damaged_units=current.damaged_units + units,
                damaged_entries=current.damaged_entries + mended_entries + len(damaged_entries),
                mended_entries=current.mended_entries + mended_entries,
                damaged_entry=current.damaged_entry or next(iter(damaged_entries), ""),
            )

    def on_failed(self, step: ScrubStep, now_ms: int, error: str) -> None:
        """The bytes of the step could not be read. Retention may have deleted them, so it is tried again; a round that
        cannot continue ends with the error."""
        self._is_reading = False
        self._allowed_bytes = 0
        current = self.current
        if current is None or current.position != step.begin:
            return
        self._failures = self._failures + 1 if self._failed_at == step.begin else 1
        self._failed_at = step.begin
        if self._failures >= STEP_TRIES:
            self.current = replace(current, error=error)
            self._finish(now_ms)

    def _begin(self, now_ms: int, begin: int, end: int, *, is_asked: bool) -> None:
        self._allowed_bytes = 0
        self._counted_ms = now_ms
        self._failed_at = -1
        self.current = ScrubRound(now_ms, begin, end, begin, is_asked)

    def _finish(self, now_ms: int) -> None:
        assert self.current is not None
        self.last, self.current = replace(self.current, ended_ms=now_ms), None
        self._waits_since_ms = now_ms
        self._rate = self._default_rate
        self.is_waiting_for_calm = False


def _parse_round(document: Mapping[str, Any] | None) -> ScrubRound | None:
    """Parses a round. Raises KeyError, TypeError, ValueError if it is invalid."""
    if document is None:
        return None
    values: dict[str, Any] = {name: str(document.get(name, "")) for name in ("error", "damaged_entry")}
    values["is_asked"] = bool(document["is_asked"])
    values |= {name: int(value) for name, value in document.items() if name not in values}
    return ScrubRound(**values)
