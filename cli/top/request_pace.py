"""How many requests may go out in any second. Pure.

A cluster has thousands of topics, and who looks at it must not be a load: what is asked takes longer, then.
"""

from __future__ import annotations

from collections import deque


class RequestPace:
    """At most `most` requests in any `within_ms`."""

    def __init__(self, most: int, within_ms: int) -> None:
        self._within_ms = within_ms
        self._sent_ms: deque[int] = deque(maxlen=most)

    def wait_ms(self, now_ms: int) -> int:
        """How long the next request must wait; 0 = it may go now. `now_ms`: monotonic."""
        if len(self._sent_ms) < (self._sent_ms.maxlen or 0):
            return 0
        return max(0, self._sent_ms[0] + self._within_ms - now_ms)

    def on_sent(self, now_ms: int) -> None:
        """A request goes now."""
        self._sent_ms.append(now_ms)
