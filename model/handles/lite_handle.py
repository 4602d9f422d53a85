"""Receipt handles of lite topics: by what name a broker knows messages that one receiver holds. Pure.

    lite <lite topic> <first offset> <count> <time of the pop>

One handle is of all messages of one lite topic in one reply. It is not signed: one reply may have thousands, and whoever may
send it (the right to receive for the group is asked for) could as well receive the messages. The time of the pop is needed to
make one, and a lease that is over has no use of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import HandleRefused
from ..topics.light_queues import check_lite_topic
from .receipt_handle import COUNT_MAX

_WORD: Final = "lite"
_NUMBER_LENGTH_MAX: Final = 19


@dataclass(frozen=True, slots=True)
class LiteHandle:
    """`begin`: the offset of the first message in its lite topic; `pop_ms`: when, by the broker's clock."""

    lite_topic: str
    begin: int
    count: int
    pop_ms: int

    @property
    def name(self) -> tuple[int, int]:
        """Of the check point: (first offset, time of the pop)."""
        return self.begin, self.pop_ms

    def text(self) -> str:
        """As it travels."""
        return f"{_WORD} {self.lite_topic} {self.begin} {self.count} {self.pop_ms}"

    @staticmethod
    def parse(text: str) -> LiteHandle | None:
        """The reverse; None for a handle of another kind. Raises HandleRefused (malformed), InvalidName."""
        words = text.split(" ", 5)
        if words[0] != _WORD:
            return None
        if len(words) != 5 or not all(
            word.isascii() and word.isdecimal() and len(word) <= _NUMBER_LENGTH_MAX for word in words[2:]
        ):
            raise HandleRefused("malformed")
        begin, count, pop_ms = map(int, words[2:])
        if not 1 <= count <= COUNT_MAX:
            raise HandleRefused("malformed")
        return LiteHandle(check_lite_topic(words[1]), begin, count, pop_ms)
