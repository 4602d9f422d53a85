"""What a receive of an ordered group brought, for a client that asks again since the answer did not reach it. Pure.

A client names each receive, and gives the same name again where it tries again. What the first try was given is taken back
then, and comes with the second. Who receives in order would else wait until the leases are over, with all behind it. A name is
remembered by the process that answered: a client tries again over the same connection.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Final

KNOWN_MAX: Final = 4_096
KNOWN_MS: Final = 120_000


class RecentAttempts:
    """Of one process. Times are monotonic."""

    def __init__(self) -> None:
        self._handles: dict[
            Hashable, tuple[int, Sequence[str]]
        ] = {}  # by attempt: (when, receipt handles), the oldest first

    def __len__(self) -> int:
        """The attempts that are remembered."""
        return len(self._handles)

    def on_answered(self, attempt: Hashable, handles: Sequence[str], now_ms: int) -> None:
        """These went out."""
        self._handles.pop(attempt, None)
        self._handles[attempt] = now_ms, handles
        for oldest, (at_ms, _) in list(islice(self._handles.items(), 2)):  # one more came: at most two go
            if at_ms + KNOWN_MS <= now_ms or len(self._handles) > KNOWN_MAX:
                del self._handles[oldest]

    def take(self, attempt: Hashable, now_ms: int) -> Sequence[str]:
        """What went out for the attempt; none where it is not remembered. It is forgotten."""
        at_ms, handles = self._handles.pop(attempt, (now_ms - KNOWN_MS, ()))
        return handles if now_ms < at_ms + KNOWN_MS else ()
