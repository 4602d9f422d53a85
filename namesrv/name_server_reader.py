"""What a name server says at a scrape. Any thread: it copies plain numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..metrics import table
from ..metrics.family import Labels, Reading
from ..metrics.readiness import Readiness
from ..model.plain_dataclass import dataclass
from ..remoting.loop_reader import loop_readings
from ..remoting.server import RequestLoop
from .route_table import RouteTable


@dataclass(slots=True)
class RouteCounts:
    """Since the start: brokers struck off because they were silent, changes of routes that clients were told."""

    lost: int = 0
    published: int = 0


class NameServerReader:
    """A Subject of the metrics' port."""

    def __init__(self, loop: RequestLoop, routes: RouteTable, counts: RouteCounts, address: str) -> None:
        self._loop = loop
        self._routes = routes
        self._counts = counts
        self.labels: Labels = (("node_type", "nameserver"), ("node_id", address))

    @property
    def turned_ms(self) -> int:
        """When the loop turned last."""
        return self._loop.turned_ms

    def readiness(self) -> Readiness:
        """A name server that serves is ready: brokers register within seconds."""
        return Readiness("name server")

    def readings(self) -> Iterator[Reading]:
        """Every family of a name server."""
        yield from loop_readings(self._loop)
        yield table.NAMESRV_BROKERS, [((), self._routes.broker_count)]
        yield table.NAMESRV_TOPICS, [((), self._routes.topic_count)]
        yield table.NAMESRV_STRUCK, [((), self._counts.lost)]
        yield table.NAMESRV_PUBLISHED, [((), self._counts.published)]

    def detail(self, _: str) -> None:
        """Queues are at their brokers."""
