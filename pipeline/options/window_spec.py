"""What the job `window` counts, read from a small TOML file. Pure.

    topics = ["orders"]
    window = "1m"                   # length; with `slide`, a new one begins at this interval
    slide = "20s"
    watermark = "10s"               # how late a message may come; a window is written this long after its end
    time = "stored"                 # when the broker got it; "born": when its producer made it
    key = ["region", "user.id"]     # fields of the JSON body; @topic, @tags, @keys, @messageGroup of the message

    [aggregates]                    # name = what
    orders = "count"
    revenue = "sum(amount)"         # sum, min, max, avg, count of a field of the body

A missing field, or one that is not a number where one is needed, counts as NULL, as in SQL.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import ConfigError
from ...model.names import check_topic
from .durations import duration_ms

SPEC_CHARACTERS_MAX: Final = 64 * 1024
ITEMS_MAX: Final = 64  # topics, keys, aggregates
WINDOWS_A_ROW_MAX: Final = 1_000  # how many sliding windows one message may count in

WINDOW_COLUMNS: Final = ("window_start", "window_end")
MESSAGE_FIELDS: Final = ("topic", "tags", "keys", "messageGroup")

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,9}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_CALL: Final = re.compile(r"(count|sum|min|max|avg)(?:\(([^()]*)\))?", re.ASCII)
_KEYS: Final = ("topics", "window", "slide", "watermark", "time", "key", "aggregates")
_COLUMNS_OF_TIME: Final = {"stored": "storeTimestamp", "born": "bornTimestamp"}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: its name, and its expression in Spark SQL over the columns of a topic."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The whole specification. `slide_ms` equals `window_ms` if windows do not overlap."""

    topics: tuple[str, ...]
    window_ms: int
    slide_ms: int
    watermark_ms: int
    time_column: str
    keys: tuple[ResultColumn, ...]
    aggregates: tuple[ResultColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the result's columns, in order."""
        return (*WINDOW_COLUMNS, *(column.name for column in (*self.keys, *self.aggregates)))


def parse_window_spec(text: str) -> WindowSpec:
    """Parses the file's text. Raises ConfigError, which names the key."""
    if len(text) > SPEC_CHARACTERS_MAX:
        raise ConfigError("spec", f"{len(text)} characters", f"at most {SPEC_CHARACTERS_MAX}")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError("spec", text[:80], f"TOML ({error})") from None
    _refuse_unknown(table)
    window_ms = duration_ms("window", table.get("window"))
    slide_ms = duration_ms("slide", table["slide"]) if "slide" in table else window_ms
    if slide_ms > window_ms or window_ms > slide_ms * WINDOWS_A_ROW_MAX:
        expected = f"at most the window, at least the {WINDOWS_A_ROW_MAX}th part of it"
        raise ConfigError("slide", table.get("slide"), expected)
    time = table.get("time", "stored")
    if time not in _COLUMNS_OF_TIME:
        raise ConfigError("time", time, f"one of {', '.join(_COLUMNS_OF_TIME)}")
    spec = WindowSpec(
        topics=tuple(check_topic(topic) for topic in _texts(table, "topics", at_least=1)),
        window_ms=window_ms,
        slide_ms=slide_ms,
        watermark_ms=duration_ms("watermark", table.get("watermark")),
        time_column=_COLUMNS_OF_TIME[time],
        keys=tuple(_key(field) for field in _texts(table, "key", at_least=0)),
        aggregates=_aggregates(table.get("aggregates")),
    )
    seen = {"window", "batch"}  # Spark's name for a window, and the name of a batch's directory
    for name in spec.columns:
        if name.lower() in seen:
            raise ConfigError("aggregates", name, "a name for each column of the result that no other has")
        seen.add(name.lower())
    return spec


def _refuse_unknown(table: Mapping[str, Any]) -> None:
    for key in table:
        if key not in _KEYS:
            nearest = difflib.get_close_matches(key, _KEYS, 1, 0.5)
            raise ConfigError(key, table[key], f"{nearest[0]}?" if nearest else f"one of {', '.join(_KEYS)}")


def _texts(table: Mapping[str, Any], key: str, *, at_least: int) -> Iterable[str]:
    values = table.get(key, [])
    if (
        not isinstance(values, list)
        or not at_least <= len(values) <= ITEMS_MAX
        or not all(isinstance(value, str) for value in values)
    ):
        raise ConfigError(key, values, f"a list of {at_least} to {ITEMS_MAX} texts")
    return values


def _key(field: str) -> ResultColumn:
    if field.startswith("@"):
        name = field.removeprefix("@")
        if name not in MESSAGE_FIELDS:
            raise ConfigError("key", field, f"one of {', '.join('@' + each for each in MESSAGE_FIELDS)}")
        return ResultColumn(name, name)
    return ResultColumn(field.replace(".", "_"), _json_field("key", field))


def _aggregates(table: object) -> tuple[ResultColumn, ...]:
    if not isinstance(table, dict) or not 1 <= len(table) <= ITEMS_MAX:
        raise ConfigError("aggregates", table, f'a table of 1 to {ITEMS_MAX} such as orders = "count"')
    return tuple(_aggregate(name, what) for name, what in table.items())


def _aggregate(name: str, what: object) -> ResultColumn:
    key = f"aggregates.{name}"
    if _NAME.fullmatch(name) is None:
        raise ConfigError(key, name, "a name of letters, digits and _")
    match = _CALL.fullmatch(what) if isinstance(what, str) else None
    if match is None or (match[2] is None and match[1] != "count"):
        raise ConfigError(key, what, "count, or one of count, sum, min, max, avg of a field, such as sum(amount)")
    if match[2] is None:
        return ResultColumn(name, "count(1)")
    field = _json_field(key, match[2].strip())
    inside = field if match[1] == "count" else f"try_cast({field} AS double)"
    return ResultColumn(name, f"{match[1]}({inside})")


def _json_field(key: str, field: str) -> str:
    """The expression for a field of the body. The name is checked, so nothing else gets into the expression."""
    if _FIELD.fullmatch(field) is None:
        raise ConfigError(key, field, "a field of the JSON body, such as amount or user.id")
    return f"get_json_object(cast(body AS string), '$.{field}')"
