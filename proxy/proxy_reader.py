"""What a proxy says at a scrape. Any thread: it copies plain numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..metrics import table
from ..metrics.family import Labels, Reading
from ..metrics.readiness import Readiness
from ..model.clock import monotonic_ms
from .back.backs import Backs
from .config import ProxyConfig

STARTING: Final = "starting, or stopping"
SILENT_MS: Final = 10_000
"""So long the cluster may be silent: routes that are known serve on."""


class ProxyReader:
    """A Subject of the metrics' port. The loop writes its fields."""

    def __init__(self, config: ProxyConfig, backs: Backs) -> None:
        self._config = config
        self._backs = backs
        self.turned_ms = monotonic_ms()
        self.is_serving = False
        self._answered_ms = monotonic_ms() - SILENT_MS
        self._silence = "no name server was asked yet"
        self._cluster = ""

    @property
    def labels(self) -> Labels:
        """Of every series."""
        return (("cluster", self._cluster), ("node_type", "proxy"), ("node_id", self._config.node))

    def on_answered(self, cluster: str, now_ms: int) -> None:
        """The cluster of that name answers."""
        self._cluster, self._answered_ms = cluster, now_ms

    def on_silent(self, error: Exception) -> None:
        """It does not."""
        self._silence = str(error)

    def readiness(self) -> Readiness:
        """Ready is one that serves, while the cluster answers."""
        reasons = [] if self.is_serving else [STARTING]
        if monotonic_ms() - self._answered_ms >= SILENT_MS:
            reasons.append(f"no cluster: {self._silence}")
        return Readiness("proxy", tuple(reasons))

    def readings(self) -> Iterator[Reading]:
        """Every family of a proxy."""
        backs = self._backs.all()
        yield table.PROXY_CLIENTS, [((), sum(len(back.presence) for back in backs))]
        yield table.PROXY_USERS, [((), len(backs))]
        fronts = (self._backs.grpc_counts, self._backs.remoting_counts)
        yield table.PROXY_POLLS, [((front.protocol,), front.polls) for front in fronts]
        yield (
            table.PROXY_SECONDS,
            [((front.protocol, method), reading) for front in fronts for method, reading in front.times()],
        )
        yield (
            table.PROXY_ERRORS,
            [((front.protocol, method, code), number) for front in fronts for method, code, number in front.errors()],
        )

    def detail(self, _: str) -> None:
        """Queues are at their brokers."""
