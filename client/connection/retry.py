"""Decides when a failed request is tried again, and how long each try may take. Pure.

The deadline over all tries is the caller's. One try gets a share of it, so that a silent broker leaves time for
another. A permanent error (a bad message) ends it at once. An error with `route_stale` that is not
retriable (no such topic here) gets one more try on a fresh route.
"""

from __future__ import annotations

from ...model.errors import BrokerBusy, ZenitError
from ...model.plain_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`tries_max` 0: as many as the deadline allows. `try_share`: the part of the total that one try may take, at most
    `try_ms_max`: a stopped master is replaced sooner than that, and does not say so.

    `backoff_ms` doubles from try to try up to `backoff_ms_max` where the same broker must be asked again; another
    broker is asked at once.
    """

    tries_max: int = 0
    try_share: float = 0.5
    try_ms_min: int = 1000
    try_ms_max: int = 3000
    backoff_ms: int = 10
    backoff_ms_max: int = 500

    def try_timeout_ms(self, total_ms: int, left_ms: int) -> int:
        """How long the next try may take, at least 1 ms."""
        share_ms = int(total_ms * self.try_share)
        if share_ms < self.try_ms_min:
            share_ms = self.try_ms_min
        if share_ms > self.try_ms_max:
            share_ms = self.try_ms_max
        return share_ms if left_ms >= share_ms else max(1, left_ms)

    def delay_ms(
        self, error: ZenitError, *, tries: int, left_ms: int, elsewhere: bool, before_route: int = 0
    ) -> int | None:
        """The pause before the next try after `tries` failed ones; None = give up.

        `left_ms`: until the deadline. `elsewhere`: the next try goes to another broker. `before_route`: how many of the tries
        went by an earlier route of the topic; pauses begin anew with a route, the limit of tries does not.
        """
        if not error.retriable and not (error.route_stale and tries <= 1):
            return None
        if left_ms <= 0 or (self.tries_max and tries >= self.tries_max):
            return None
        if elsewhere:
            return 0
        delay_ms = min(self.backoff_ms << max(0, min(tries - before_route - 1, 10)), self.backoff_ms_max)
        if isinstance(error, BrokerBusy):
            delay_ms = max(delay_ms, min(error.retry_after_ms, self.backoff_ms_max))
        return delay_ms if delay_ms < left_ms else None
