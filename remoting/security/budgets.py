"""What users may take of one server: a token bucket for requests, bytes in, bytes out and the loop's time, and connections.

Pure.

Each bucket holds a second's worth. A request is let in while its user owes nothing, and then takes what it needs, even more
than is there: so a request larger than a second's worth gets through, and those after it wait. What an answer costs is known
only afterwards, in bytes out and time (`spend`).
"""

from __future__ import annotations

import math
from typing import Final

from ...model.security.principals import NO_LIMITS, User, UserLimits

USERS_MAX: Final = 10_000
RETRY_MS_MAX: Final = 60_000
CONNECTION_MS: Final = 10_000


class UserBudgets:
    """The buckets of all users with limits. Owned by the loop thread; times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._users: dict[str, _Budget] = {}

    def __len__(self) -> int:
        return len(self._users)

    def take(self, user: User, now_ms: float, *, requests: int = 1, bytes_in: int = 0) -> int:
        """0: go on, the tokens are taken. Else in how many milliseconds to try again; nothing was taken."""
        if user.limits is NO_LIMITS or user.limits == NO_LIMITS:
            return 0
        budget = self._of(user, now_ms)
        budget.fill(now_ms)
        retry_after_ms = budget.owing_ms()
        if not retry_after_ms:
            budget.tokens[0] -= requests
            budget.tokens[1] -= bytes_in
        return retry_after_ms

    def connect(self, user: User, connection: bytes, now_ms: float) -> int:
        """0: this connection of the user is one of as many as it may use. Else in how many milliseconds to try again.

        ZeroMQ does not tell when a connection ends, so one counts as long as it was used within CONNECTION_MS.
        """
        if not user.limits.connections:
            return 0
        used = self._of(user, now_ms).used
        if connection not in used and len(used) >= user.limits.connections:
            for each in [each for each, at_ms in used.items() if now_ms - at_ms >= CONNECTION_MS]:
                del used[each]
            if len(used) >= user.limits.connections:
                return max(1, math.ceil(CONNECTION_MS - (now_ms - min(used.values()))))
        used[connection] = now_ms
        return 0

    def spend(self, user: User, now_ms: float, *, bytes_out: int = 0, busy_ms: float = 0.0) -> None:
        """Takes what an answer has cost; the next requests wait for it."""
        if user.limits is NO_LIMITS or user.limits == NO_LIMITS:
            return
        budget = self._of(user, now_ms)
        budget.fill(now_ms)
        budget.tokens[2] -= bytes_out
        budget.tokens[3] -= busy_ms

    def _of(self, user: User, now_ms: float) -> _Budget:
        budget = self._users.get(user.name)
        if budget is None or budget.limits != user.limits:
            if budget is None and len(self._users) >= USERS_MAX:
                self._forget(now_ms)
            budget = self._users[user.name] = _Budget(user.limits, now_ms)
        return budget

    def _forget(self, now_ms: float) -> None:
        """Those who owe nothing; the oldest if all do."""
        for name, budget in list(self._users.items()):
            budget.fill(now_ms)
            if not budget.owing_ms():
                del self._users[name]
        if len(self._users) >= USERS_MAX:
            del self._users[next(iter(self._users))]


class _Budget:
    """Tokens of requests, bytes in, bytes out and busy milliseconds. A rate of 0 has no limit."""

    __slots__ = ("filled_at_ms", "limits", "rates", "tokens", "used")

    def __init__(self, limits: UserLimits, now_ms: float) -> None:
        self.limits = limits
        self.rates = (limits.requests, limits.bytes_in, limits.bytes_out, limits.busy_ratio * 1000)  # a second
        self.tokens = [float(rate) for rate in self.rates]
        self.filled_at_ms = now_ms
        self.used: dict[bytes, float] = {}  # connection: when it was used last

    def fill(self, now_ms: float) -> None:
        passed_s = max(0.0, now_ms - self.filled_at_ms) / 1000
        self.filled_at_ms = max(now_ms, self.filled_at_ms)
        for index, rate in enumerate(self.rates):
            self.tokens[index] = min(float(rate), self.tokens[index] + rate * passed_s)

    def owing_ms(self) -> int:
        """Until the user owes nothing; 0 = now. Of requests a whole one must be there, so that one a second means that."""
        longest = 0.0
        for index, rate in enumerate(self.rates):
            least = 1.0 if index == 0 else 0.0
            if rate and self.tokens[index] < least:
                longest = max(longest, (least - self.tokens[index]) / rate * 1000)
        return min(RETRY_MS_MAX, math.ceil(longest - 1e-6))
