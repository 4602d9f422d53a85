"""In which order queues have something to expire, so that an expiry looks at no others, however many there are. Pure.

    log        |---- step 0 ----|---- step 1 ----|---- step 2 ----|
    queues      a, c             b                                  noted where their first record is
    expiry              below here: a and c are looked at, then noted again where their first record is then

A queue may be noted twice, or for nothing: that costs one look, after which it is noted once.
"""

from __future__ import annotations

from typing import Final

from ..queue_engine import QueueKey

STEP_BYTES: Final = 32 << 20


class ExpiryOrder:
    """Which queue has to be looked at once the log begins where. The loop's."""

    def __init__(self) -> None:
        self._noted: dict[int, set[QueueKey]] = {}  # by step of the log
        self._steps: list[int] = []  # of this expiry, the first one last
        self._due: list[QueueKey] = []

    def note(self, key: QueueKey, physical: int) -> None:
        """The queue is due in the expiry that removes the log up to there."""
        self._noted.setdefault(physical // STEP_BYTES, set()).add(key)

    def begin(self, below: int) -> None:
        """Starts an expiry of what is below. What an earlier one has left is due still."""
        last = below // STEP_BYTES
        self._steps = sorted((step for step in self._noted if step <= last), reverse=True)

    @property
    def first(self) -> QueueKey | None:
        """The next queue of this expiry, until `done`; None if there is none."""
        while not self._due and self._steps:
            self._due = list(self._noted.pop(self._steps.pop(), ()))
        return self._due[-1] if self._due else None

    def done(self) -> None:
        """The queue was looked at, and noted again if it is due another time."""
        self._due.pop()
