"""The lines of a server's log, as text or as JSON with the names of the events.

    2026-11-26 20:00:39,123 INFO zenitmq.controller.leadership_term elected group=broker-a epoch=7 master=b
    {"ts": "2026-11-26T20:00:39.123Z", "level": "info", "role": "controller", "node": "...", "event": "elected", "group": ...}

A line that is no event has its text as `message`, and each `name=%s` of it as a field.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from .event import HEAD, Fact, event_line, level_name, line_of, plain_fact, time_text
from .telling import ATTRIBUTE

TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

_PLACE: Final = re.compile(r"(?:\b(\w+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_TAKEN: Final = frozenset({*HEAD, "logger", "message", "trace"})


class JsonLines(logging.Formatter):
    """One JSON document a line."""

    def __init__(self, *, role: str, node: str, group: str = "") -> None:
        super().__init__()
        self._name: dict[str, Fact] = {"role": role, "node": node}
        self._group = group

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        event = getattr(record, ATTRIBUTE, None)
        if event is not None:
            return event_line(event, role=str(self._name["role"]), node=str(self._name["node"]), group=self._group)
        head: dict[str, Fact] = {"ts": time_text(round(record.created * 1000)), "level": level_name(record.levelno)}
        facts = [
            ("group", self._group),
            *named_facts(record),
            ("message", record.getMessage()),
            ("logger", record.name),
        ]
        if record.exc_info:
            facts.append(("trace", self.formatException(record.exc_info)))
        return line_of(head | self._name, facts)


def named_facts(record: logging.LogRecord) -> list[tuple[str, Fact]]:
    """Each `name=%s` of a record's constant text, with its value."""
    values = record.args if isinstance(record.args, tuple) else ()
    found: list[tuple[str, Fact]] = []
    for at, place in enumerate(place for place in _PLACE.finditer(str(record.msg)) if place[0] != "%%"):
        if place[1] and at < len(values) and place[1] not in _TAKEN:
            found.append((place[1], plain_fact(values[at])))
    return found


def formatter_of(kind: str, *, role: str, node: str, group: str) -> logging.Formatter:
    """`kind`: the setting `log.format`. `group`: the process's own; "" if it is in none."""
    return JsonLines(role=role, node=node, group=group) if kind == "json" else logging.Formatter(TEXT_FORMAT)
