"""The begin or end of a read, as given by options. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from ...model.errors import InvalidParameter
from ...model.times import TIME_MS_MAX
from ..reading.offsets import Lives, Offsets, parse_lives, parse_offsets
from .option import Kind
from .option_values import number


@dataclass(frozen=True, slots=True)
class Boundary:
    """The begin or end of a read.

    `offsets`: an offset per queue, EARLIEST_MARK or LATEST_MARK; `times`: a time per queue; `time`: one for all; in
    milliseconds since the epoch. `lives`: the incarnation of the topic that the offsets belong to, if given.
    """

    kind: Literal["earliest", "latest", "offsets", "time", "times"]
    offsets: Offsets = field(default_factory=dict)
    time_ms: int = 0
    option: str = ""
    lives: Lives = field(default_factory=dict)


EARLIEST: Final = Boundary("earliest")
LATEST: Final = Boundary("latest")


def moment(name: str, text: str) -> Boundary:
    """One time for all queues. Raises InvalidParameter, as the two below do."""
    return Boundary("time", time_ms=number(0, TIME_MS_MAX)(name, text), option=name)


def moments(name: str, text: str) -> Boundary:
    """A time per queue."""
    return Boundary("times", parse_offsets(name, text), option=name)


def offsets(*words: Boundary, lowest: int) -> Kind[Boundary]:
    """One of these words, or an offset per queue, from `lowest` on."""
    by_word: dict[str, Boundary] = {word.kind: word for word in words}

    def read(name: str, text: str) -> Boundary:
        if text.lower() in by_word:
            return by_word[text.lower()]
        if not text.startswith("{"):
            raise InvalidParameter(name, text[:64], f"{', '.join(by_word)}, or JSON with an offset for each queue")
        return Boundary("offsets", parse_offsets(name, text, lowest=lowest), option=name, lives=parse_lives(name, text))

    return read
