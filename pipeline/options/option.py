"""Options of the format "zenit", each declared once: as a field of a frozen dataclass. Pure.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReadOptions:
        fetch_max_bytes: int = option("fetchMaxBytes", size_bytes(1024, 256 << 20), "bytes of one request", default="4m")

The table in docs/pipeline.md, the check of given options and their values all follow from that. Spark passes options as
text, with names in lower case; users and errors write them in camel case.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, overload

from ...model.errors import InvalidParameter, OptionRefused, UnknownOption

BY_SPARK: Final = frozenset({"path", "checkpointlocation"})
"""Options that Spark itself adds: the path of a table, the place of a query's state."""

NOT_BUILT: Final = {
    "auth.": "this version has no authentication",
    "tls.": "this version has no TLS",
    "kafka.": "settings of a Kafka client mean nothing here",
}

_METADATA: Final = "zenit.option"

_T = TypeVar("_T")
Kind = Callable[[str, str], _T]
"""Converts a text to a value. The option's name is for the error. Raises InvalidParameter, or an error about the value."""
UsedBy = Literal["batch", "stream", "both"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default`: the text that applies without it, "" = none."""

    name: str
    default: str
    used_by: UsedBy
    meaning: str
    kind: Kind[Any]


@overload
def option(name: str, kind: Kind[_T], meaning: str, *, default: str, used_by: UsedBy = "both") -> _T: ...
@overload
def option(name: str, kind: Kind[_T], meaning: str, *, absent: _T, used_by: UsedBy = "both") -> _T: ...
@overload
def option(name: str, kind: Kind[_T], meaning: str, *, used_by: UsedBy = "both") -> _T | None: ...
def option(
    name: str,
    kind: Kind[Any],
    meaning: str,
    *,
    default: str = "",
    absent: Any = None,
    used_by: UsedBy = "both",
) -> Any:
    """A field of a class of options. Without the option its value is that of the text `default`, or `absent`."""
    declared = Option(name, default, used_by, meaning, kind)
    value = kind(name, default) if default else absent
    return dataclasses.field(default=value, metadata={_METADATA: declared})


def options_of(cls: type[Any]) -> dict[str, Option]:
    """Every option of a class by the name of its field, in the order of declaration."""
    return {field.name: field.metadata[_METADATA] for field in dataclasses.fields(cls) if _METADATA in field.metadata}


class Given:
    """The given options of a class. The constructor raises UnknownOption and OptionRefused."""

    def __init__(self, options: Mapping[str, str], cls: type[Any]) -> None:
        self._options = options_of(cls)
        fields = {known.name.lower(): field for field, known in self._options.items()}
        self._texts: dict[str, str] = {}
        for key, text in options.items():
            lower = key.lower()
            if lower in fields:
                self._texts[fields[lower]] = text.strip()
            elif lower not in BY_SPARK:
                raise _unknown(lower, {each.name.lower(): each.name for each in self._options.values()})

    def names(self, *fields: str) -> tuple[str, ...]:
        """The names of the given options among these fields; of all fields if there are no arguments."""
        return tuple(self._options[field].name for field in fields or self._options if field in self._texts)

    def value(self, field: str) -> Any:
        """The value of an option; None if it was not given and has no default.

        Raises what its kind raises; refuses an empty text.
        """
        known = self._options[field]
        text = self._texts.get(field, known.default or None)
        if text is None:
            return None
        if not text:
            raise InvalidParameter(known.name, text, "not empty")
        return known.kind(known.name, text)

    def values(self) -> dict[str, Any]:
        """{field: value} of all given options. Raises as `value` does."""
        return {field: self.value(field) for field in self._options if field in self._texts}


def _unknown(lower: str, names: Mapping[str, str]) -> UnknownOption | OptionRefused:
    for prefix, reason in NOT_BUILT.items():
        if lower.startswith(prefix):
            return OptionRefused(lower[:64], reason)
    nearest = difflib.get_close_matches(lower[:64], names, n=1)
    return UnknownOption(lower[:64], names[nearest[0]] if nearest else "")
