"""The values of options' texts: words, numbers, bytes, times, lists. Pure.

Each function takes the option's name and its text, which is not empty, and raises InvalidParameter.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from ...model.errors import InvalidParameter
from .option import Kind

_BYTES: Final = re.compile(r"([0-9]{1,18}) *([kmg]?)b?", re.IGNORECASE)
_BYTES_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION: Final = re.compile(r"([0-9]{1,15}) *(ms|s|min|m|h|d)", re.IGNORECASE)
_DURATION_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_KEY_CHARACTERS: Final = 40
_KEY: Final = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]+")
_NO_PATH: Final = re.compile(r"[:=^!*?&<>()\[\]{}@%$#]")  # a key nearly always has one of these

_W = TypeVar("_W", bound=str)


def text(name: str, given: str) -> str:
    """The text itself."""
    del name
    return given


def key_file(name: str, given: str) -> str:
    """The path of a key file. A key itself is refused, and not shown: options are seen in plans and logs."""
    is_key = len(given) == _KEY_CHARACTERS and _KEY.fullmatch(given) is not None and _NO_PATH.search(given) is not None
    if is_key or not given.isprintable():
        raise InvalidParameter(name, "(hidden)", "the path of a key file, which each executor has too; not a key")
    return given


def flag(name: str, given: str) -> bool:
    """True or false, in any case."""
    return words("true", "false")(name, given) == "true"


def names(name: str, given: str) -> tuple[str, ...]:
    """A comma-separated list without repetitions, in the given order."""
    parts = tuple(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))
    if not parts:
        raise InvalidParameter(name, given, "names, separated by commas")
    return parts


def words(*choices: _W) -> Kind[_W]:
    """One of these words, in any case."""

    def read(name: str, given: str) -> _W:
        word = given.lower()
        if word not in choices:
            raise InvalidParameter(name, word, " or ".join(choices))
        return word

    return read


def number(minimum: int, maximum: int) -> Kind[int]:
    """An integer in decimal digits."""

    def read(name: str, given: str) -> int:
        digits = given.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
            raise InvalidParameter(name, given[:64], f"a whole number, {minimum} to {maximum}")
        return _within(name, given, int(given), minimum, maximum)

    return read


def size_bytes(minimum: int, maximum: int) -> Kind[int]:
    """Bytes: an integer, or one followed by k, m or g (powers of 1024)."""

    def read(name: str, given: str) -> int:
        match = _BYTES.fullmatch(given)
        if match is None:
            raise InvalidParameter(name, given[:64], "bytes, such as 1048576, 512k or 16m")
        return _within(name, given, int(match[1]) * _BYTES_FACTORS[match[2].lower()], minimum, maximum)

    return read


def duration_ms(minimum: int, maximum: int) -> Kind[int]:
    """Milliseconds, from a text such as 15m."""

    def read(name: str, given: str) -> int:
        match = _DURATION.fullmatch(given)
        if match is None:
            raise InvalidParameter(name, given[:64], "a time such as 500ms, 30s, 15m, 2h or 1d")
        return _within(name, given, int(match[1]) * _DURATION_MS[match[2].lower()], minimum, maximum)

    return read


def _within(name: str, given: str, value: int, minimum: int, maximum: int) -> int:
    if not minimum <= value <= maximum:
        raise InvalidParameter(name, given[:64], f"{minimum} to {maximum}")
    return value
