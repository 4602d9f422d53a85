"""The shipped link of a broker to its controllers, with a watcher: who proposes an in-sync set may walk into an ambush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from zenitmq.broker.group.controller_link import ControllerLink
from zenitmq.broker.group.held_news import HeldNews

from .broker import GROUP, Broker


class WatchedLink(ControllerLink):
    """`ControllerLink` of one life; `on_proposal` is told before a proposal leaves."""

    def __init__(
        self,
        broker: Broker,
        addresses: tuple[str, ...],
        *,
        on_proposal: Callable[[str, tuple[str, ...]], None],
    ) -> None:
        super().__init__(
            cast(Any, broker.client),
            cast(Any, broker.loop),
            broker,
            addresses=addresses,
            broker_name=GROUP,
            replica_name=broker.name,
            on_group=HeldNews(broker.loop, broker.on_group).on_group,
            heartbeat_facts=broker.heartbeat_facts,
            on_start_counter_behind=broker.on_start_counter_behind,
        )
        self._token = broker.token  # of no chance but the seed's
        self._name = broker.name
        self._on_proposal = on_proposal

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Asks for another in-sync set."""
        self._on_proposal(self._name, names)
        super().propose_in_sync(version, names)
