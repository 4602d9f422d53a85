"""Finds the names in an SQL text, without parsing it, to know which tables to offer. Pure.

Spark parses the text and reports its errors. The search finds more names than are tables (columns and functions too), never
fewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter

SQL_CHARACTERS_MAX: Final = 1 << 20

_TOKEN: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |`(?P<quoted>(?:[^`]|``)*)`
    |(?P<number>[0-9][0-9A-Za-z_.]*)
    |(?P<word>\w+)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)

_PLACE: Final = re.compile(r"line (\d+),? pos (\d+)")

_READING: Final = frozenset({"select", "with", "from", "table", "values", "explain", "describe", "desc", "show"})
_WHOLE_ROWS: Final = frozenset(
    {"natural", "pivot", "unpivot", "table", "describe", "desc", "show", "except", "exclude"}
)


@dataclass(frozen=True, slots=True)
class SqlWords:
    """The names in a query: bare and back-quoted, as written; `wants_all_columns`: whether it may need columns that it does
    not name (a star, a natural join, ...).
    """

    names: frozenset[str]
    wants_all_columns: bool


def sql_words(query: str) -> SqlWords:
    """Reads a query. Raises InvalidParameter for anything else: `zenit sql` only reads."""
    if len(query) > SQL_CHARACTERS_MAX:
        raise InvalidParameter("query", f"{len(query)} characters", f"at most {SQL_CHARACTERS_MAX}")
    tokens = [match for match in _TOKEN.finditer(query) if match.lastgroup != "comment"]
    words = [match["word"].lower() for match in tokens if match.lastgroup == "word"]
    starts_well = bool(words) and words[0] in _READING and (tokens[0].lastgroup == "word" or tokens[0][0] == "(")
    if not starts_well or "insert" in words:
        raise InvalidParameter("query", query.strip()[:80], "a query that reads, such as SELECT ... or WITH ...")
    names = {match["word"] for match in tokens if match.lastgroup == "word"}
    names |= {match["quoted"].replace("``", "`") for match in tokens if match.lastgroup == "quoted"}
    plain = ["" if match.lastgroup in ("text", "quoted") else match[0].lower() for match in tokens]
    return SqlWords(frozenset(names), _has_star(plain) or not _WHOLE_ROWS.isdisjoint(words))


def _has_star(tokens: list[str]) -> bool:
    """Whether there is a star other than in count(*), which needs no column."""
    stars = [index for index, text in enumerate(tokens) if text == "*"]
    return any([*tokens[max(0, at - 2) : at], *tokens[at + 1 : at + 2]] != ["count", "(", ")"] for at in stars)


def tables_named(words: SqlWords, known: Iterable[str]) -> list[str]:
    """Those of the `known` tables that a query mentions, sorted; in their own case, or in another if that is unambiguous.

    Raises InvalidParameter if two that differ only in case are mentioned: Spark cannot distinguish them.
    """
    by_lower: dict[str, set[str]] = {}
    for name in known:
        by_lower.setdefault(name.lower(), set()).add(name)
    found = set()
    for name in words.names:
        same = by_lower.get(name.lower(), set())
        found |= {name} if name in same else same
    for lower in {name.lower() for name in found}:
        if len(both := sorted(by_lower[lower] & found)) > 1:
            raise InvalidParameter("query", ", ".join(both), "one of these only: names differ in more than their case")
    return sorted(found)


def columns_named(words: SqlWords, columns: Iterable[str]) -> tuple[str, ...]:
    """Those of a topic's columns that the query may need, in their order: all, or the named ones; at least one."""
    listed = tuple(columns)
    if words.wants_all_columns:
        return listed
    lower = {name.lower() for name in words.names}
    return tuple(name for name in listed if name.lower() in lower) or listed[:1]


def quoted(name: str) -> str:
    """A name in back-quotes, as SQL accepts any name."""
    return "`" + name.replace("`", "``") + "`"


def unique_names(columns: Iterable[str]) -> list[str]:
    """Unique names of a result's columns: repeated ones get a number."""
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def sql_reason(text: str) -> str:
    """Spark's error about a query in one line: its first line, and the place in the query."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    reason = lines[0] if lines else "failed"
    place = _PLACE.search(text)
    if place is None or _PLACE.search(reason):
        return reason.rstrip(";")
    return f"{reason.rstrip(';')} (line {place[1]}, pos {place[2]})"
