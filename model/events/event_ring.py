"""The newest events of a process, in memory: what name servers and controllers keep, and what a broker answers from. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from .event import Event, decode_line, event_line, time_of_text

EVENTS_MAX: Final = 1000


class EventRing:
    """A keeper of events. `keep` may be called by any thread."""

    def __init__(
        self, *, role: str, node: str, group: str = "", lines: Iterable[bytes] = (), events_max: int = EVENTS_MAX
    ) -> None:
        """`lines`: from earlier processes, oldest first."""
        self._name = {"role": role, "node": node, "group": group}
        self._lines: deque[bytes] = deque(lines, events_max)

    def keep(self, event: Event) -> bytes:
        """Takes an event; the oldest goes if there are too many. Returns its line."""
        line = event_line(event, **self._name).encode()
        self._lines.append(line)
        return line

    def document(self, since_ms: int) -> dict[str, Any]:
        """{"events": [...]} of the events from that time on, oldest first."""
        return events_document(tuple(self._lines), since_ms)


def events_document(lines: Iterable[bytes], since_ms: int) -> dict[str, Any]:
    """The answer to a request for events; lines that are none are left out."""
    decoded = (decode_line(line) for line in lines)
    events = [one for one in decoded if one is not None and time_of_text(str(one["ts"])) >= since_ms]
    return {"events": events[-EVENTS_MAX:]}
