"""Reading the options of a reader or writer: each value checked, each name known. Pure.

Spark hands options over as text, names in lower case; users know them in camel case, and so do errors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter, OptionRefused, UnknownOption

BY_SPARK: Final = frozenset({"path", "checkpointlocation"})
"""What Spark itself adds: where a table lies, where a query keeps its state."""

NOT_BUILT: Final = {
    "auth.": "this version has no authentication",
    "tls.": "this version has no TLS",
    "kafka.": "settings of a Kafka client mean nothing here",
}

_BYTES: Final = re.compile(r"([0-9]{1,18}) *([kmg]?)b?", re.IGNORECASE)
_BYTES_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION: Final = re.compile(r"([0-9]{1,15}) *(ms|s|min|m|h|d)", re.IGNORECASE)
_DURATION_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default`: as text, "" = none. `used_by`: batch, stream, or both."""

    name: str
    default: str
    used_by: str
    meaning: str


class Given:
    """The options that were given. Raises UnknownOption and OptionRefused when made, InvalidParameter when read."""

    def __init__(self, options: Mapping[str, str], known: Iterable[Option]) -> None:
        names = {option.name.lower(): option.name for option in known}
        self._values: dict[str, str] = {}
        for key, value in options.items():
            lower = key.lower()
            if lower in names:
                self._values[names[lower]] = value.strip()
            elif lower not in BY_SPARK:
                raise _unknown(lower, names)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        """The value, None where it was not given. An empty one is refused."""
        value = self._values.get(name)
        if value == "":
            raise InvalidParameter(name, value, "not empty")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        return self.one_of(name, ("true", "false"), "true" if default else "false") == "true"

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of these words, in lower case."""
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise InvalidParameter(name, value, " or ".join(choices))
        return value

    def number(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        """A whole number."""
        value = self.text(name)
        return default if value is None else number_of(name, value, minimum=minimum, maximum=maximum)

    def size_bytes(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        """Bytes: a whole number, or one with k, m or g behind it (powers of 1024)."""
        value = self.text(name)
        if value is None:
            return default
        match = _BYTES.fullmatch(value)
        if match is None:
            raise InvalidParameter(name, value[:64], "bytes, such as 1048576, 512k or 16m")
        size = int(match[1]) * _BYTES_FACTORS[match[2].lower()]
        return _within(name, value, size, minimum, maximum)

    def duration_ms(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        """Milliseconds, from a text such as 15m."""
        value = self.text(name)
        if value is None:
            return default
        match = _DURATION.fullmatch(value)
        if match is None:
            raise InvalidParameter(name, value[:64], "a time such as 500ms, 30s, 15m, 2h or 1d")
        return _within(name, value, int(match[1]) * _DURATION_MS[match[2].lower()], minimum, maximum)

    def names(self, name: str) -> tuple[str, ...] | None:
        """A comma-separated list, each once, in the order given; None where it was not given."""
        value = self.text(name)
        if value is None:
            return None
        parts = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if not parts:
            raise InvalidParameter(name, value, "names, separated by commas")
        return parts


def number_of(name: str, text: str, *, minimum: int, maximum: int) -> int:
    """A whole number in decimal digits. Raises InvalidParameter."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
        raise InvalidParameter(name, text[:64], f"a whole number, {minimum} to {maximum}")
    return _within(name, text, int(text), minimum, maximum)


def _within(name: str, text: str, value: int, minimum: int, maximum: int) -> int:
    if not minimum <= value <= maximum:
        raise InvalidParameter(name, text[:64], f"{minimum} to {maximum}")
    return value


def _unknown(lower: str, names: Mapping[str, str]) -> UnknownOption | OptionRefused:
    for prefix, reason in NOT_BUILT.items():
        if lower.startswith(prefix):
            return OptionRefused(lower[:64], reason)
    nearest = difflib.get_close_matches(lower[:64], names, n=1)
    return UnknownOption(lower[:64], names[nearest[0]] if nearest else "")
