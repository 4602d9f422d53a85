"""Ends waits that last too long: one timer for all that end within the same few milliseconds, where each call would cost one.

A wait that is over in time leaves, and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...model.clock import monotonic_ms

STEP_MS: Final = 16
"""So much later than its deadline a wait may end."""

Waits = set[asyncio.Future[Any]]


class Overdue:
    """On the event loop."""

    def __init__(self) -> None:
        self._ending: dict[int, Waits] = {}

    @property
    def steps(self) -> int:
        """Timers that run."""
        return len(self._ending)

    async def wait(self, answered: asyncio.Future[Any], deadline_ms: int) -> Any:
        """What `answered` becomes; it becomes TimeoutError when its time is over. `deadline_ms`: monotonic. Nobody else waits
        for it."""
        if answered.done():
            return answered.result()
        step = deadline_ms // STEP_MS + 1
        ending = self._ending.get(step)
        if ending is None:
            ending = self._ending[step] = set()
            left_ms = max(0, step * STEP_MS - monotonic_ms())
            asyncio.get_running_loop().call_later(left_ms / 1000, self._end, step)
        ending.add(answered)
        try:
            return await answered
        finally:
            ending.discard(answered)

    def _end(self, step: int) -> None:
        for answered in self._ending.pop(step):
            if not answered.done():
                answered.set_exception(TimeoutError())
