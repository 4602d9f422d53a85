"""Decides which dead letters a redrive sends again, and what it records. Pure.

    minimum <= start <= begin <= end <= maximum      queue offsets of one queue of dead letters

What was redriven is remembered as the committed offset of one group, REDRIVER, in the topic of the dead letters: all below
it was sent again, or passed over by `since`. It never goes back; `again` starts at the first letter without regard to it.
A redrive of some letters only has a group of its own (letter_selection), and goes on behind whichever came further.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from ...model.properties import SHARDING_KEY
from ...model.queue import MessageQueue
from ...record.kernel import StoredMessage

REDRIVER: Final = "ZENIT_REDRIVE"
RUN_LETTERS: Final = 64
RUN_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class QueueState:
    """What a queue of dead letters holds. `done`: the offset remembered, -1 = none. `since`, `until`: the offsets of the
    first letter that is wanted and of the first behind those, None = no such bound."""

    queue: MessageQueue
    minimum: int
    maximum: int
    done: int
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """To send again: [begin, end). `passed_over`: letters before it that were never redriven and now count as done."""

    queue: MessageQueue
    begin: int
    end: int
    done: int
    passed_over: int

    @property
    def count(self) -> int:
        """Letters to send again."""
        return self.end - self.begin

    def remembered(self, position: int) -> int | None:
        """What to commit once [begin, position) was sent; None where that is nothing new."""
        return position if position > max(self.begin, self.done) else None


def plan_redrive(states: Iterable[QueueState], *, again: bool, max_messages: int | None) -> list[QueuePlan]:
    """A plan for each queue that has letters to send, at most `max_messages` together."""
    left = max_messages
    plans = []
    for state in states:
        plan = _plan(state, again=again)
        if left is not None:
            plan = replace(plan, end=min(plan.end, plan.begin + left))
            left -= plan.count
        if plan.count:
            plans.append(plan)
    return plans


def _plan(state: QueueState, *, again: bool) -> QueuePlan:
    fresh = min(max(state.minimum, state.done), state.maximum)
    start = state.minimum if again else fresh
    begin = start if state.since is None else min(max(start, state.since), state.maximum)
    end = state.maximum if state.until is None else min(state.until, state.maximum)
    return QueuePlan(state.queue, begin, max(begin, end), state.done, passed_over=max(0, begin - fresh))


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter with where it goes, and the properties that it has there."""

    message: StoredMessage
    topic: str
    properties: dict[str, str]

    @property
    def sharding_key(self) -> str | None:
        """What names its queue there; None: any queue does."""
        return self.properties.get(SHARDING_KEY)


def run_letters_max(rate: float | None) -> int:
    """How many letters go in one request: at `rate` letters a second, those of a tenth of a second."""
    return RUN_LETTERS if rate is None else max(1, min(RUN_LETTERS, int(rate / 10)))


def pause_ms(sent: int, rate: float, elapsed_ms: int) -> int:
    """How long to wait before the next letter, where `sent` went within `elapsed_ms` and `rate` a second may."""
    return max(0, math.ceil(sent * 1000 / rate) - elapsed_ms)


def runs_of(letters: Iterable[Letter], letters_max: int = RUN_LETTERS) -> Iterator[list[Letter]]:
    """Neighbours that may go in one request: of one topic, to one queue, bounded in number and bytes."""
    for _, neighbours in groupby(letters, lambda letter: (letter.topic, letter.sharding_key)):
        run: list[Letter] = []
        size_bytes = 0
        for letter in neighbours:
            if run and (len(run) == letters_max or size_bytes + letter.message.size_bytes > RUN_BYTES):
                yield run
                run, size_bytes = [], 0
            run.append(letter)
            size_bytes += letter.message.size_bytes
        yield run
