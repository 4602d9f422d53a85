"""Decides which controller to ask next, and after which pause, until the leading one has answered. Pure.

A controller that does not lead names the leader, which is asked at once, but only once in a row: two controllers that name
each other would be asked in a circle. If one cannot be reached, the next of the list is asked, after a pause
that doubles while nobody answers.
"""

from __future__ import annotations

from typing import Final

PAUSE_MS: Final = 50
PAUSE_MS_MAX: Final = 1000


class LeaderSearch:
    """`address`: whom to ask. Each event returns the pause in milliseconds."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.address = addresses[0]
        self._addresses = addresses
        self._turn = 0
        self._pause_ms = PAUSE_MS
        self._was_sent_on = False

    def on_found(self) -> None:
        """It leads."""
        self._pause_ms = PAUSE_MS
        self._was_sent_on = False

    def on_sent_on(self, leader: str) -> int:
        """It does not lead; `leader` as it says ("" = it does not know)."""
        if not leader or leader == self.address or self._was_sent_on:
            return self.on_unreachable()
        self._was_sent_on = True
        self.address = leader
        return 0

    def on_unreachable(self) -> int:
        """It did not answer."""
        self._turn += 1
        self._was_sent_on = False
        self.address = self._addresses[self._turn % len(self._addresses)]
        return self.on_refused()

    def on_refused(self) -> int:
        """It leads, but could not do what we asked: ask it again later."""
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, PAUSE_MS_MAX)
        return pause_ms
