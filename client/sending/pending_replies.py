"""The requests of one producer that wait for their replies, by correlation id. Pure; its owner holds a lock.

A reply without a request here (answered before by a second responder, or given up) is late: counted and dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ...model.errors import TooManyRequests

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """Requests since the start.

    `pending`: waiting now; `unanswered`: given up, timed out or failed; `late`: replies too late.
    """

    pending: int
    answered: int
    unanswered: int
    late: int


class PendingReplies(Generic[T]):
    """The waiting requests; T is the callback of a waiter."""

    __slots__ = ("_answered", "_late", "_limit", "_unanswered", "_waiting")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[str, T] = {}
        self._answered = self._unanswered = self._late = 0

    def add(self, correlation_id: str, waiter: T) -> None:
        """Adds a request that is about to be sent. Raises TooManyRequests."""
        if len(self._waiting) >= self._limit:
            raise TooManyRequests(self._limit)
        self._waiting[correlation_id] = waiter

    def on_reply(self, correlation_id: str) -> T | None:
        """Removes the request of a reply and returns its waiter; None if nobody waits any more."""
        waiter = self._waiting.pop(correlation_id, None)
        if waiter is None:
            self._late += 1
        else:
            self._answered += 1
        return waiter

    def give_up(self, correlation_id: str) -> T | None:
        """Gives one request up and returns its waiter; None if it was answered or given up before."""
        waiter = self._waiting.pop(correlation_id, None)
        if waiter is not None:
            self._unanswered += 1
        return waiter

    def give_all_up(self) -> list[T]:
        """Gives all requests up and returns their waiters."""
        waiters = list(self._waiting.values())
        self._waiting.clear()
        self._unanswered += len(waiters)
        return waiters

    def statistics(self) -> RequestStatistics:
        """The counters."""
        return RequestStatistics(len(self._waiting), self._answered, self._unanswered, self._late)
