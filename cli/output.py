"""Prints results: JSON on one line, or aligned columns. No other part of the command line prints to stdout."""

from __future__ import annotations

import json
import select
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..model.times import iso_text

CELL_CHARACTERS: Final = 60
CELL_CHARACTERS_MIN: Final = 8
STDOUT: Final = 1


def print_json(document: Any) -> None:
    """Prints one document on one line, with readable non-ASCII text."""
    sys.stdout.write(json_line(document) + "\n")


def json_line(document: Any) -> str:
    """A document as one line of JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(", ", ": "))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints columns under their names, two blanks apart; numbers aligned right. Only the names if there are no rows."""
    sys.stdout.write(table(columns, rows))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The text of `print_table`."""
    listed = [list(row) for row in rows]
    cells = [list(columns), *([_cell(value) for value in row] for row in listed)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    numeric = [bool(listed) and all(_is_number(row[k]) for row in listed) for k in range(len(columns))]
    lines = []
    for row in cells:
        padded = (
            text.rjust(w) if right else text.ljust(w) for text, w, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def print_rows(rows: Sequence[Mapping[str, object]]) -> None:
    """Prints objects of one kind, at least one, as a table: times readable, texts cut so that a line fits the terminal.

    A field named `at_ms` or `..._at_ms` is a time; its column has the name without the unit. In a file or a pipe lines may
    be long: texts are then cut to CELL_CHARACTERS.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.write(fitted_table(rows, width))


def fitted_table(rows: Sequence[Mapping[str, object]], width: int | None) -> str:
    """The text of `print_rows` for a terminal of `width` characters; None = no terminal."""
    columns = [name.removesuffix("_ms") if _is_moment(name) else name for name in rows[0]]
    cells = [[_readable_cell(name, value) for name, value in row.items()] for row in rows]
    widths = [max(len(name), *(len(_cell(row[k])) for row in cells)) for k, name in enumerate(columns)]
    cut = [not _is_moment(name) and any(isinstance(row[k], str) for row in cells) for k, name in enumerate(rows[0])]
    while width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        widest = max((k for k in range(len(widths)) if cut[k]), key=lambda k: widths[k], default=None)
        if widest is None or widths[widest] <= CELL_CHARACTERS_MIN:
            break  # a narrow terminal breaks the line
        widths[widest] -= 1
    return table(
        [shortened(name, most) for name, most in zip(columns, widths, strict=True)],
        [
            [
                shortened(value, most) if isinstance(value, str) else value
                for value, most in zip(row, widths, strict=True)
            ]
            for row in cells
        ],
    )


def _is_moment(name: str) -> bool:
    return name == "at_ms" or name.endswith("_at_ms")


def _readable_cell(name: str, value: object) -> object:
    if _is_moment(name):
        return readable_time(value if isinstance(value, int) else None)
    if isinstance(value, dict | list):
        value = json_line(value)
    return short_text(value) if isinstance(value, str) else value


def print_facts(facts: Mapping[str, object]) -> None:
    """Prints one fact per line: its name, then its value; nested facts with dotted names."""
    facts = dict(_flat(facts, ""))
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        sys.stdout.write(f"{name.ljust(width)}  {_cell(value)}\n")


def note(text: str) -> None:
    """Prints a line for the person at the terminal to stderr: stdout is for results."""
    sys.stderr.write(text + "\n")


def reader_is_gone() -> bool:
    """Whether the reader of our output has closed it, as `head` does."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def show(document: Any, as_json: bool, otherwise: Callable[[], None]) -> None:
    """Prints the document as JSON, or calls `otherwise`."""
    if as_json:
        print_json(document)
    else:
        otherwise()


def readable_time(timestamp_ms: int | None) -> str:
    """Milliseconds since the epoch as 2026-11-21T09:50:00.123Z; "-" for None. A number out of range stays a number."""
    if timestamp_ms is None or timestamp_ms <= 0:
        return "-"
    return iso_text(timestamp_ms).replace("+00:00", "Z")


def counted(count: int, one: str, many: str = "") -> str:
    """The count with its noun: "1 range", "2 ranges". `many`: if it is not `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def short_text(text: str) -> str:
    """A text for one cell of a table: unprintable characters become blanks, and a long text is cut."""
    return "".join(c if c.isprintable() else " " for c in shortened(text, CELL_CHARACTERS))


def shortened(text: str, characters_max: int) -> str:
    """The text, cut to so many characters with a … if something is missing."""
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def readable_bytes(count: float) -> str:
    """A size such as 12.3 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _flat(facts: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Nested facts with dotted names: latency_us.p99."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value) or "-"
    return str(value)
