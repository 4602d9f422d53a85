"""Holds replies whose requester is not connected now, for a moment: a living one comes back. Pure.

After a restart or a failover a broker knows no client until the next heartbeats. A reply that came before them would
be lost to a living requester.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    until_ms: int
    item: T


class ReplyHold(Generic[T]):
    """The held replies, by client id. Owned by the loop thread; times are monotonic ms."""

    __slots__ = ("_held", "_held_max", "count")

    def __init__(self, *, held_max: int) -> None:
        """`held_max`: for all clients together."""
        self._held_max = held_max
        self._held: dict[str, list[_Held[T]]] = {}
        self.count = 0

    def add(self, client_id: str, item: T, *, until_ms: int) -> bool:
        """Holds an item until then; False if there is no room."""
        if self.count >= self._held_max:
            return False
        self._held.setdefault(client_id, []).append(_Held(until_ms, item))
        self.count += 1
        return True

    def take(self, client_id: str) -> list[T]:
        """Takes the items of a client that is connected again, in order of arrival."""
        held = self._held.pop(client_id, [])
        self.count -= len(held)
        return [each.item for each in held]

    def due(self, now_ms: int) -> list[T]:
        """Takes the items whose time is over."""
        ended: list[T] = []
        for client_id in list(self._held):
            held = self._held.pop(client_id)
            ended += [each.item for each in held if each.until_ms <= now_ms]
            left = [each for each in held if each.until_ms > now_ms]
            if left:
                self._held[client_id] = left
        self.count -= len(ended)
        return ended
