"""Which brokers a producer avoids for a while because they answered late or not at all.

A table maps a latency to a penalty: the last row whose latency was reached counts. RocketMQ's own two tables are presets. A
failed send counts as a fixed, long latency. Pure: the caller passes the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """Row i: after an answer that took `latency_ms[i]` or more, the broker is avoided for `penalty_ms[i]`."""

    latency_ms: tuple[int, ...]
    penalty_ms: tuple[int, ...]
    failure_ms: int

    def penalty(self, latency_ms: int) -> int:
        """How long a broker that took this long is avoided, ms."""
        if not self.latency_ms or latency_ms < self.latency_ms[0]:  # almost always
            return 0
        for reached_ms, penalty_ms in zip(reversed(self.latency_ms), reversed(self.penalty_ms), strict=True):
            if latency_ms >= reached_ms:
                return penalty_ms
        return 0


ROCKETMQ_4: Final = LatencyTable(
    (50, 100, 550, 1000, 2000, 3000, 15000), (0, 0, 30000, 60000, 120000, 180000, 600000), failure_ms=30000
)
ROCKETMQ_5: Final = LatencyTable(
    (50, 100, 550, 1800, 3000, 5000, 15000), (0, 0, 2000, 5000, 6000, 10000, 30000), failure_ms=10000
)
LATENCY_TABLES: Final = {"rocketmq-4": ROCKETMQ_4, "rocketmq-5": ROCKETMQ_5}


def latency_table(choice: str | LatencyTable | None) -> LatencyTable | None:
    """A preset by its name, a custom table, or None: never avoid a broker. Raises InvalidParameter."""
    if choice is None or isinstance(choice, LatencyTable):
        return choice
    if choice not in LATENCY_TABLES:
        raise InvalidParameter("latency_fault", choice, f"None, a LatencyTable or one of {', '.join(LATENCY_TABLES)}")
    return LATENCY_TABLES[choice]


class LatencyFault:
    """A producer's recent experience with each broker. Single dictionary operations only: any thread may call."""

    __slots__ = ("_table", "_until_ms")

    def __init__(self, table: LatencyTable | None) -> None:
        self._table = table
        self._until_ms: dict[str, int] = {}

    def on_answered(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """A send to this broker was answered after `latency_ms`."""
        if self._table is None:
            return
        penalty_ms = self._table.penalty(latency_ms)
        if penalty_ms:
            self._until_ms[broker_name] = now_ms + penalty_ms
        elif broker_name in self._until_ms:
            self._until_ms.pop(broker_name, None)

    def on_failed(self, broker_name: str, now_ms: int) -> None:
        """A send to this broker was refused, got no answer, or could not leave."""
        if self._table is not None:
            self._until_ms[broker_name] = now_ms + self._table.penalty(self._table.failure_ms)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """False during the broker's penalty. Only a hint: if no other broker is left, it is used nevertheless."""
        until_ms = self._until_ms.get(broker_name)
        return until_ms is None or now_ms >= until_ms

    @property
    def is_quiet(self) -> bool:
        """True while no broker has a penalty: then `is_available` need not be called for each queue."""
        return not self._until_ms
