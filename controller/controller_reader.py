"""What a controller says at a scrape. Any thread: it copies plain numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..metrics import table
from ..metrics.family import Labels, Reading
from ..metrics.readiness import Readiness
from ..remoting.loop_reader import loop_readings
from ..remoting.server import RequestLoop
from .campaign import Campaign

NO_ZOOKEEPER = "no ZooKeeper: it has no session with it"
NO_LEADER = "no leader: it does not know which controller leads"
READING = "starting: as leader it reads the groups from ZooKeeper"


class ControllerReader:
    """A Subject of the metrics' port."""

    def __init__(self, loop: RequestLoop, campaign: Campaign, *, cluster: str) -> None:
        self._loop = loop
        self._campaign = campaign
        self.labels: Labels = (("cluster", cluster), ("node_type", "controller"), ("node_id", campaign.address))

    @property
    def turned_ms(self) -> int:
        """When the loop turned last."""
        return self._loop.turned_ms

    def readiness(self) -> Readiness:
        """Ready is one that leads, and one that knows who does."""
        campaign = self._campaign
        if not campaign.is_connected:
            return Readiness("", (NO_ZOOKEEPER,))
        if campaign.is_leading:
            return Readiness("leader") if campaign.is_serving else Readiness("", (READING,))
        return Readiness("follower") if campaign.leader else Readiness("", (NO_LEADER,))

    def readings(self) -> Iterator[Reading]:
        """Every family of a controller."""
        campaign = self._campaign
        yield from loop_readings(self._loop)
        yield table.LEADER, [((), int(campaign.is_serving))]
        yield table.GROUPS_WATCHED, [((), len(campaign.group_names))]
        elections = campaign.elections.copy()
        names = {*campaign.group_names, *(name for name, _ in elections)}
        kinds = [
            (name, forced) for name in sorted(names) for forced in (False, True)
        ]  # 0 too: an increase is seen then
        yield (
            table.ELECTIONS,
            [((name, str(forced).lower()), elections.get((name, forced), 0)) for name, forced in kinds],
        )

    def detail(self, _: str) -> None:
        """Queues are at their brokers."""
