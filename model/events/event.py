"""An event: its kind, when it happened, and its facts; and its line of JSON. Pure.

The line is the same in the JSON log, in ZooKeeper, in a broker's file and in `zenit events --json`:

    {"ts": "2026-11-26T20:00:39.123Z", "level": "info", "role": "controller", "node": "10.0.0.1:9878",
     "event": "elected", "group": "broker-a", "epoch": 7, ...}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from ..clock import datetime_of_ms, ms_of_datetime
from ..plain_dataclass import dataclass

Fact = str | int | float | bool | None

LINE_BYTES_MAX: Final = 32_768
"""A longer line is not ours, and is skipped: the longest that we write is a third of it."""
TEXT_MAX: Final = 300
HEAD: Final = ("ts", "level", "role", "node", "event")
"""The fields that every line begins with; then follow the facts, the common ones first."""
COMMON: Final = ("group", "epoch", "peer", "user", "code")
REPEATED: Final = "repeated"
"""Besides an event's own facts: how often the same was told since the line before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """A row of the table. `level`: as `logging` numbers them. `text`: how the line of a text log begins.

    `of_group`: about a replica group, told by a controller, and kept in ZooKeeper. `every_ms`: the same, with the same
    facts, is told once in this time, then counted.
    """

    name: str
    level: int
    text: str
    fields: tuple[str, ...]
    help: str
    of_group: bool = False
    every_ms: int = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """`facts`: by the names of the kind's `fields`."""

    kind: EventKind
    at_ms: int
    facts: tuple[tuple[str, Fact], ...]

    @property
    def group(self) -> str:
        """The replica group that it is about; "" if it is about none."""
        return str(dict(self.facts).get("group") or "")


_LEVELS: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}


def level_name(level: int) -> str:
    """The level as lines have it: "warning" for 30."""
    return _LEVELS.get(level, str(level))


def time_text(at_ms: int) -> str:
    """UTC with milliseconds: "2026-11-26T20:00:39.123Z"."""
    return datetime_of_ms(at_ms).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def time_of_text(text: str) -> int:
    """Milliseconds since the epoch of a `time_text`; raises ValueError."""
    moment = datetime.fromisoformat(text)
    return ms_of_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def plain_fact(value: object) -> Fact:
    """A value as a line can hold it: a long text is cut, and what is not printable is escaped."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = ",".join(map(str, value)) if isinstance(value, tuple | list | set | frozenset) else str(value)
    text = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."
    return text if text.isprintable() else ascii(text)[1:-1]


def line_of(head: Mapping[str, Fact], facts: Iterable[tuple[str, Fact]]) -> str:
    """One line of JSON, without its end; facts without a value are left out, the common ones come first."""
    given = {name: value for name, value in facts if value is not None and value != ""}
    ordered = {name: given.pop(name) for name in COMMON if name in given} | given
    return json.dumps({**head, **ordered}, ensure_ascii=True, separators=(", ", ": "))


def event_line(event: Event, *, role: str, node: str, group: str = "") -> str:
    """The event as its line. `group`: the process's own, which is that of each event that names none."""
    head = {"ts": time_text(event.at_ms), "level": level_name(event.kind.level), "role": role, "node": node}
    facts = event.facts if not group or event.group else (("group", group), *event.facts)
    return line_of({**head, "event": event.kind.name}, facts)


def decode_line(line: bytes) -> dict[str, Fact] | None:
    """The line as a dictionary; None if it is not one of an event: torn, damaged, or another's."""
    if len(line) > LINE_BYTES_MAX:
        return None
    try:
        document = json.loads(line)
        if not isinstance(document, dict) or not all(isinstance(document.get(name), str) for name in HEAD):
            return None
        time_of_text(document["ts"])
    except (ValueError, OverflowError, RecursionError):
        return None
    if not all(value is None or isinstance(value, str | int | float | bool) for value in document.values()):
        return None
    return document


def whole_lines(data: bytes) -> Iterator[bytes]:
    """The lines in some bytes that are events."""
    return (line for line in data.split(b"\n") if line and decode_line(line) is not None)


def with_lines(data: bytes, lines: Iterable[bytes], *, lines_max: int, bytes_max: int) -> bytes:
    """What was kept and some lines more, in the order of their times; the oldest go once there are too many.

    A line that is there already is not kept twice, nor a second election of one epoch: two controllers may tell it.
    """
    kept = list(whole_lines(data))
    there = {_identity(line) for line in kept}
    for line in lines:
        if (identity := _identity(line)) is not None and identity not in there:
            there.add(identity)
            kept.append(line)
    kept = sorted(kept, key=_time)[-lines_max:]
    size_bytes = sum(len(line) + 1 for line in kept)
    while kept and size_bytes > bytes_max:
        size_bytes -= len(kept.pop(0)) + 1
    return b"".join(line + b"\n" for line in kept)


def _identity(line: bytes) -> object:
    document = decode_line(line)
    if document is None:
        return None
    if document["event"] == "elected":
        return document["event"], document.get("group"), document.get("epoch")
    return line


def _time(line: bytes) -> int:
    document = decode_line(line)
    return time_of_text(str(document["ts"])) if document is not None else 0
