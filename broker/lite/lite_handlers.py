"""All handlers of lite topics at one broker, and which events of the loop they get. Loop thread."""

from __future__ import annotations

from ...remoting.commands import CancelPop, Done
from ...remoting.server import Call
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..pop.leases import Leases
from ..pop.pop_handler import PopHandler
from .lite_expiry import LiteCollector
from .lite_pops import LitePops
from .lite_query_handler import LiteQueryHandler
from .lite_sends import LiteWriters
from .subscription_handler import LiteSubscriptionHandler
from .subscriptions import LiteSubscriptions


class LiteHandlers:
    """See the module."""

    def __init__(self, parts: Parts, conditions: ConditionCache, leases: Leases, plain_pops: PopHandler) -> None:
        subscriptions = LiteSubscriptions()
        self._plain_pops = plain_pops
        self.pops = LitePops(parts, conditions, leases, subscriptions, plain_pops.recent)
        self.subscribing = LiteSubscriptionHandler(parts, subscriptions, self.pops)
        self.queries = LiteQueryHandler(parts, subscriptions)
        writers = LiteWriters(
            parts.state.topic_table, parts.store.has_light_queue, topics_max=parts.config.lite_topics_max
        )
        parts.store.check_lights(writers.check)
        self.collector = LiteCollector(parts, subscriptions, writers)
        parts.state.pop_table.on_freed = self.pops.on_freed

    def on_cancel(self, call: Call[CancelPop]) -> Done:
        """Of a pop of lite topics, or of queues."""
        request = call.request
        if self.pops.cancel(request.group, request.client_id, request.pop_id):
            return Done()
        return self._plain_pops.on_cancel(call)

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues."""
        self.pops.on_arrivals(queues)

    def document(self) -> dict[str, int]:
        """For the statistics."""
        return {**self.pops.document(), "collected": self.collector.collected}

    def on_fast_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        self.pops.on_tick(now_ms)
        self.collector.on_tick(now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Each second. `now_ms`: monotonic."""
        self.subscribing.on_tick(now_ms)

    def on_topic_deleted(self, topic: str) -> None:
        """A parent is gone."""
        self.pops.on_topic_deleted(topic)
        self.subscribing.on_topic_deleted(topic)

    def on_deposed(self) -> None:
        """Another broker is master."""
        self.pops.on_deposed()
        self.subscribing.on_deposed()
