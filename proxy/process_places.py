"""Which processes of a proxy run, and when one that ended is replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model.plain_dataclass import dataclass

PAUSE_MS: Final = 500
PAUSE_MS_MAX: Final = 30_000
SOUND_MS: Final = 10_000
"""A process that served so long is replaced after the shortest pause."""


@dataclass(slots=True)
class ProcessPlace:
    """One process and those that replace it. `pid`: 0 = none runs now."""

    number: int
    pid: int = 0
    begun_ms: int = 0
    due_ms: int = 0
    pause_ms: int = 0
    starts: int = 0


class ProcessPlaces:
    """The places of one proxy. Times are monotonic."""

    def __init__(self, count: int) -> None:
        self._places = [ProcessPlace(number) for number in range(count)]

    def due(self, now_ms: int) -> list[int]:
        """The numbers of those to be started now."""
        return [place.number for place in self._places if not place.pid and place.due_ms <= now_ms]

    def on_begun(self, number: int, pid: int, now_ms: int) -> None:
        """It runs."""
        place = self._places[number]
        place.pid, place.begun_ms, place.starts = pid, now_ms, place.starts + 1

    def on_ended(self, pid: int, now_ms: int, *, is_killed: bool = False) -> bool:
        """A process has ended by itself, or a signal ended it. False if a first one gave up soon: another would as well,
        because something is wrong with its settings."""
        place = next((place for place in self._places if place.pid == pid), None)
        if place is None:
            return True
        is_sound = now_ms - place.begun_ms >= SOUND_MS
        place.pause_ms = PAUSE_MS if is_sound else min(max(PAUSE_MS, 2 * place.pause_ms), PAUSE_MS_MAX)
        place.pid, place.due_ms = 0, now_ms + place.pause_ms
        return is_sound or is_killed or place.starts > 1

    def wait_ms(self, now_ms: int, longest_ms: int) -> int:
        """How long there is nothing to start, at most `longest_ms`."""
        waits = [place.due_ms - now_ms for place in self._places if not place.pid]
        return max(0, min([longest_ms, *waits]))

    def running(self) -> Iterator[int]:
        """The pids."""
        return (place.pid for place in self._places if place.pid)
