"""Decides which dead letters a redrive sends again, and what it records. Pure.

    minimum <= start <= begin <= end <= maximum      queue offsets of one queue of dead letters

The progress is stored as the committed offset of a group, REDRIVER, in the dead letter topic: all letters below it were
sent again, or skipped because of `since`. It never goes back; `again` ignores it and starts at the first letter. A redrive
of a selection has a group of its own (letter_selection), and continues at the higher offset of the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from ...model.plain_dataclass import dataclass
from ...model.properties import PRIORITY, SHARDING_KEY
from ...model.queue import MessageQueue
from ...model.topics.light_queues import LITE_TOPIC
from ...record.kernel import StoredMessage
from ..sending.target import LiteTarget, Priority, Target

REDRIVER: Final = "ZENIT_REDRIVE"
RUN_LETTERS: Final = 64
RUN_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of a queue of dead letters.

    `done`: the stored progress, -1 = none. `since`, `until`: the offsets of the first wanted letter and of the first one
    behind the wanted ones, None = no such bound.
    """

    queue: MessageQueue
    minimum: int
    maximum: int
    done: int
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The letters to send again: [begin, end).

    `passed_over`: earlier letters that were never redriven and now count as done.
    """

    queue: MessageQueue
    begin: int
    end: int
    done: int
    passed_over: int

    @property
    def count(self) -> int:
        """The number of letters to send again."""
        return self.end - self.begin

    def remembered(self, position: int) -> int | None:
        """The offset to commit when [begin, position) was sent; None if it is not higher than before."""
        return position if position > max(self.begin, self.done) else None


def plan_redrive(states: Iterable[QueueState], *, again: bool, max_messages: int | None) -> list[QueuePlan]:
    """A plan for each queue that has letters to send, at most `max_messages` in total."""
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
    """A dead letter, its destination, and its properties there."""

    message: StoredMessage
    topic: str
    properties: dict[str, str]

    @property
    def target(self) -> Target | None:
        """Where it goes there: by its lite topic, its sharding key, or its priority; None: any queue."""
        if LITE_TOPIC in self.properties:
            return LiteTarget((self.properties[LITE_TOPIC],))
        key, priority = self.properties.get(SHARDING_KEY), self.properties.get(PRIORITY, "")
        if key is None and len(priority) == 1 and priority.isdecimal():
            return Priority(int(priority))
        return key


def run_letters_max(rate: float | None) -> int:
    """How many letters go in one request: at `rate` letters a second, those of a tenth of a second."""
    return RUN_LETTERS if rate is None else max(1, min(RUN_LETTERS, int(rate / 10)))


def pause_ms(sent: int, rate: float, elapsed_ms: int) -> int:
    """How long to wait before the next letter after `sent` letters in `elapsed_ms`, to keep to `rate` a second."""
    return max(0, math.ceil(sent * 1000 / rate) - elapsed_ms)


def runs_of(letters: Iterable[Letter], letters_max: int = RUN_LETTERS) -> Iterator[list[Letter]]:
    """Adjacent letters that may go in one request: of one topic, to one queue, limited in number and bytes."""
    for _, neighbours in groupby(letters, lambda letter: (letter.topic, letter.target)):
        run: list[Letter] = []
        size_bytes = 0
        for letter in neighbours:
            if run and (len(run) == letters_max or size_bytes + letter.message.size_bytes > RUN_BYTES):
                yield run
                run, size_bytes = [], 0
            run.append(letter)
            size_bytes += letter.message.size_bytes
        yield run
