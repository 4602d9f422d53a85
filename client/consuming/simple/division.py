"""Which brokers one `receive` asks, and for how many messages. Pure.

Where brokers are taken to have enough, so many of them are asked as are needed: what they give is not too much, and need not
be given back. Else all are asked for all that is wanted, and wait for it; the first that has messages ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

POP_MAX: Final = 32
"""Messages of one request."""
EXPECTED_MAX: Final = 1024


class PopTarget(NamedTuple):
    """A topic at one broker."""

    topic: str
    broker_name: str


class Demand(NamedTuple):
    """One request. `waits`: at the broker, until there is a message."""

    target: PopTarget
    max_messages: int
    waits: bool


class Division:
    """One consumer's. Guarded by the lock of its owner."""

    def __init__(self, pop_max: int = POP_MAX) -> None:
        """`pop_max`: messages of one request."""
        self._pop_max = pop_max
        self._expected: dict[PopTarget, int] = {}
        self._turns = count()

    def note(self, target: PopTarget, *, asked: int, got: int) -> None:
        """A broker answered. One that had all that it was asked for is taken to have twice that, at least."""
        if got < asked:
            self._expected.pop(target, None)
        else:
            self._expected[target] = min(
                max(EXPECTED_MAX, self._pop_max), 2 * max(self._pop_max, self._expected.get(target, 0))
            )

    def keep(self, targets: Sequence[PopTarget]) -> None:
        """Only these are there now."""
        for gone in self._expected.keys() - set(targets):
            del self._expected[gone]

    def begin(self, targets: Sequence[PopTarget], wanted: int) -> list[Demand]:
        """The first requests of a `receive`."""
        in_turn = self._in_turn(targets)
        known = self._expected_of(in_turn, wanted)
        if sum(demand.max_messages for demand in known) == wanted:
            return known
        return self._waiting(in_turn, wanted)

    def waiting(self, targets: Sequence[PopTarget], wanted: int) -> list[Demand]:
        """Everybody is asked, and waits."""
        return self._waiting(self._in_turn(targets), wanted)

    def at_once(self, targets: Sequence[PopTarget], wanted: int) -> list[Demand]:
        """Requests for messages that are taken to be there, at most `wanted`."""
        return self._expected_of(self._in_turn(targets), wanted)

    def _expected_of(self, targets: Sequence[PopTarget], wanted: int) -> list[Demand]:
        demands: list[Demand] = []
        for target in targets:
            there = min(wanted, self._expected.get(target, 0))
            wanted -= there
            while there > 0:
                demands.append(Demand(target, min(self._pop_max, there), waits=False))
                there -= self._pop_max
        return demands

    def _in_turn(self, targets: Sequence[PopTarget]) -> list[PopTarget]:
        if not targets:
            return []
        first = next(self._turns) % len(targets)
        return [*targets[first:], *targets[:first]]

    def _waiting(self, targets: Sequence[PopTarget], wanted: int) -> list[Demand]:
        return [Demand(target, min(self._pop_max, wanted), waits=True) for target in targets]
