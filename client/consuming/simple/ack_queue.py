"""The acknowledgements for one topic at one broker: gathered, sent in batches, tried again. Pure.

Rows of one handle are merged. What fails in a way that may pass is sent again until the row's time is over. A row of several
messages that is refused is asked again message by message: one that came too late does not decide over the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from ....model.errors import ZenitError
from ...connection.retry import RetryPolicy

ROWS_MAX: Final = 1024
"""Rows of one request."""
UNDER_WAY_MAX: Final = 2
LOST_MS: Final = 10_000
"""After this time a request that was neither answered nor timed out never will be: a signal's handler raised there."""


class AckWaiter(Protocol):
    """Waits for the answer about messages."""

    def on_settled(self, handle: str, bits: int, error: ZenitError | None) -> None:
        """The broker has taken these messages, or has refused them: its own, and perhaps others of the handle."""


class AckRow:
    """Messages of one handle: bit n is its n-th. `until_ms`: it is not tried again later (monotonic)."""

    __slots__ = ("bits", "handle", "until_ms", "waiters")

    def __init__(self, handle: str, bits: int, until_ms: int, waiters: list[AckWaiter]) -> None:
        self.handle = handle
        self.bits = bits
        self.until_ms = until_ms
        self.waiters = waiters


Settled = tuple[AckRow, ZenitError | None]
"""A row that is not sent again: taken, or why not."""


class AckQueue:
    """Guarded by the lock of its owner."""

    def __init__(self, retry: RetryPolicy) -> None:
        self._retry = retry
        self._rows: dict[str, AckRow] = {}
        self._again: deque[AckRow] = deque()  # sent before; merged with nothing
        self._under_way: dict[int, tuple[list[AckRow], int]] = {}  # the batches, and when each counts as lost
        self._tries = 0
        self._not_before_ms = 0
        self._is_urgent = False
        self._last_error: ZenitError | None = (
            None  # of the last request that failed; what waits in _again is tried for it
        )

    @property
    def waiting(self) -> int:
        """Rows that are not sent."""
        return len(self._rows) + len(self._again)

    @property
    def is_idle(self) -> bool:
        """Nothing is to be sent, nor answered."""
        return not (self._rows or self._again or self._under_way)

    def add(self, handle: str, bits: int, *, until_ms: int, waiter: AckWaiter | None = None) -> None:
        """Somebody wants this. With a waiter it is sent as soon as possible."""
        row = self._rows.get(handle)
        if row is None:
            row = self._rows[handle] = AckRow(handle, bits, until_ms, [])
        else:
            row.bits |= bits
            row.until_ms = max(row.until_ms, until_ms)
        if waiter is not None:
            row.waiters.append(waiter)
            self._is_urgent = True

    def take(self, now_ms: int, *, is_due: bool) -> list[AckRow]:
        """The rows to send now, perhaps none. `is_due`: they were gathered for long enough."""
        if not self.waiting or now_ms < self._not_before_ms:
            return []
        if not (is_due or self._is_urgent or self.waiting >= ROWS_MAX):
            return []
        if len(self._under_way) >= UNDER_WAY_MAX:
            self._is_urgent = True  # once one is answered
            return []
        batch = list(islice(self._again, ROWS_MAX))
        again, handles = len(batch), list(islice(self._rows, ROWS_MAX - len(batch)))
        batch += [self._rows[handle] for handle in handles]
        # First it is under way, then it waits no more: who is interrupted in between sends some twice.
        self._under_way[id(batch)] = batch, now_ms + LOST_MS
        for _ in range(again):
            self._again.popleft()
        for handle in handles:
            del self._rows[handle]
        self._is_urgent = bool(self.waiting)
        return batch

    def lost(self, now_ms: int) -> list[list[AckRow]]:
        """Batches that will never be answered."""
        return [batch for batch, lost_ms in self._under_way.values() if lost_ms <= now_ms]

    def pause_ms(self, now_ms: int) -> int:
        """How long until rows may be sent again; 0 where nothing holds them up."""
        return max(0, self._not_before_ms - now_ms) if self.waiting else 0

    def on_reply(self, batch: Sequence[AckRow], errors: Sequence[ZenitError | None], now_ms: int) -> list[Settled]:
        """The broker answered for each row of what was taken. Returns those that are settled."""
        if id(batch) not in self._under_way:
            return []  # it counted as lost
        self._tries = 0
        if not self._again:
            self._last_error = None
        settled: list[Settled] = []
        for row, error in zip(batch, errors, strict=True):
            if error is None:
                settled.append((row, None))
            elif error.retriable:
                settled += self._try_again([row], error, now_ms)
            elif row.bits & (row.bits - 1):
                self._split(row)
            else:
                settled.append((row, error))
        del self._under_way[id(batch)]
        return settled

    def on_error(self, batch: Sequence[AckRow], error: ZenitError, now_ms: int) -> list[Settled]:
        """The request failed. Returns the rows that are not tried again."""
        if id(batch) not in self._under_way:
            return []
        settled: list[Settled] = [(row, error) for row in batch]
        if error.retriable or error.route_stale:
            settled = self._try_again(batch, error, now_ms)
        del self._under_way[id(batch)]
        return settled

    def drop(self, error: ZenitError) -> list[Settled]:
        """Nothing is sent any more: for what never was, the reason is `error`."""
        dropped: list[Settled] = [(row, self._last_error or error) for row in self._again]
        dropped += [(row, error) for row in self._rows.values()]
        self._again.clear()
        self._rows.clear()
        return dropped

    def _try_again(self, rows: Sequence[AckRow], error: ZenitError, now_ms: int) -> list[Settled]:
        self._tries += 1
        self._last_error = error
        left_ms = max(row.until_ms for row in rows) - now_ms
        delay_ms = self._retry.delay_ms(error, tries=self._tries, left_ms=max(1, left_ms), elsewhere=False)
        late_ms = now_ms + (self._retry.backoff_ms_max if delay_ms is None else delay_ms)
        self._not_before_ms = max(self._not_before_ms, late_ms)
        self._is_urgent = True
        self._again.extend(row for row in rows if row.until_ms > late_ms)
        return [(row, error) for row in rows if row.until_ms <= late_ms]

    def _split(self, row: AckRow) -> None:
        """Each of its messages becomes a row. Whoever waits is told of each."""
        bits = row.bits
        while bits:
            lowest = bits & -bits
            self._again.append(AckRow(row.handle, lowest, row.until_ms, row.waiters))
            bits ^= lowest
        self._is_urgent = True
