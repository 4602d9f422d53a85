"""All handlers of lite topics at one broker, and which events of the loop they get. Loop thread."""

from __future__ import annotations

from ...remoting.commands import CancelPop, Done
from ...remoting.server import Call
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..pop.leases import Leases
from ..pop.pop_handler import PopHandler
from .lite_pops import LitePops
from .subscription_handler import LiteSubscriptionHandler
from .subscriptions import LiteSubscriptions


class LiteHandlers:
    """See the module."""

    def __init__(self, parts: Parts, conditions: ConditionCache, leases: Leases, plain_pops: PopHandler) -> None:
        subscriptions = LiteSubscriptions()
        self._plain_pops = plain_pops
        self.pops = LitePops(parts, conditions, leases, subscriptions, plain_pops.recent)
        self.subscribing = LiteSubscriptionHandler(parts, subscriptions, self.pops)
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
