"""What was told lately, so that the same event is told once and then counted. Pure."""

from __future__ import annotations

from typing import Final

from .event import EventKind, Fact

KNOWN_MAX: Final = 512
"""Beyond it the oldest is forgotten, with its count told."""

Facts = tuple[tuple[str, Fact], ...]
Told = tuple[EventKind, Facts, int]
"""`int`: how often the same was told since it was last let through."""


class Repeats:
    """Any thread; a race of two miscounts at worst."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Facts], list[int]] = {}  # -> [let through at, repeated since]; oldest first
        self._kinds: dict[str, EventKind] = {}

    def on_told(self, kind: EventKind, facts: Facts, now_ms: int) -> list[Told]:
        """What is to be told now: counts of others whose second is over, and this one unless it was told just now."""
        key = (kind.name, facts)
        self._kinds[kind.name] = kind
        known = self._known.get(key)
        if known is not None and now_ms - known[0] < kind.every_ms:
            known[1] += 1
            return self._expire(now_ms)
        repeated = 0 if known is None else known[1]
        self._known.pop(key, None)
        told = self._expire(now_ms)
        self._known[key] = [now_ms, 0]
        return [*told, (kind, facts, repeated)]

    def _expire(self, now_ms: int) -> list[Told]:
        told: list[Told] = []
        for (name, facts), (at_ms, count) in list(self._known.items()):
            if now_ms - at_ms < self._kinds[name].every_ms and len(self._known) < KNOWN_MAX:
                continue
            if self._known.pop((name, facts), None) is not None and count:
                told.append((self._kinds[name], facts, count))
        return told
