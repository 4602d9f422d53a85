"""The unique parts of a message id: 10 bytes for its maker, and the milliseconds since the month began.

Each accumulator counts for itself, so each gets its own random salt: two of them, or a parent and its forked
child, never make the same id in the same millisecond.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime

from ...model.clock import now_ms
from ...model.ids import unique_id_prefix


def new_id_prefix(ip: bytes) -> bytes:
    """Ten bytes: the address, this process's id, and 32 random bits."""
    return unique_id_prefix(ip, os.getpid(), secrets.randbits(32))


def month_bounds_ms(timestamp_ms: int) -> tuple[int, int]:
    """[begin, end) of the month (UTC) that a time lies in, ms since the epoch."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    begin = datetime(moment.year, moment.month, 1, tzinfo=UTC)
    end = datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=UTC)
    return int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000


class BornTime:
    """The two times of a new batch. They never decrease, so a clock that is set back makes no id twice.

    Used by the owner of one accumulator.
    """

    __slots__ = ("_begin_ms", "_end_ms", "_last_ms")

    def __init__(self) -> None:
        self._begin_ms = self._end_ms = self._last_ms = 0

    def read(self) -> tuple[int, int]:
        """(ms since the epoch, ms since the first of the month), as `Accumulator.begin` takes them."""
        born_ms = max(now_ms(), self._last_ms)
        self._last_ms = born_ms
        if not self._begin_ms <= born_ms < self._end_ms:
            self._begin_ms, self._end_ms = month_bounds_ms(born_ms)
        return born_ms, born_ms - self._begin_ms
