"""What clients subscribe to, as they say it: SubscribeLite. Loop thread.

Subscriptions are in memory, at the master: the next one asks the clients anew. A client that sends no heartbeats any more is
forgotten.
"""

from __future__ import annotations

from typing import Final

from ...model.clock import Clock
from ...model.errors import BrokerBusy, InvalidParameter, LiteQuotaExceeded
from ...model.topics.light_queues import check_lite_topic, lite_queue
from ...model.topics.lite_settings import CLIENT_QUOTA
from ...remoting.commands import LiteSubscribedReply, SubscribeLite
from ...remoting.server import Call
from ..handlers.parts import Parts
from .lite_admission import lite_parent
from .lite_pops import LitePops
from .subscriptions import LiteMember, LiteSubscriptions, MemberName

ACTIONS: Final = ("add", "remove", "all")
NAMES_MAX: Final = 4096
UNKNOWN_MS_MAX: Final = 30_000
"""So long a member stays whose client sends no heartbeats."""
RETRY_MS: Final = 500


class LiteSubscriptionHandler:
    """SubscribeLite, and the members that are gone."""

    def __init__(self, parts: Parts, subscriptions: LiteSubscriptions, pops: LitePops) -> None:
        self._config, self._state, self._registry = parts.config, parts.state, parts.registry
        self._clock: Clock = parts.clock
        self._leads = parts.leads
        self._subscriptions = subscriptions
        self._pops = pops

    def on_subscribe(self, call: Call[SubscribeLite]) -> LiteSubscribedReply:
        """Raises what is wrong with it; then nothing changes."""
        request = call.request
        settings = lite_parent(
            self._state.topic_table,
            self._state.group_table,
            request.group,
            request.topic,
            auto_create_groups=self._config.auto_create_groups,
        )
        if request.action not in ACTIONS:
            raise InvalidParameter("action", request.action[:64], ", ".join(ACTIONS))
        if len(request.names) > NAMES_MAX:
            raise InvalidParameter("names", f"{len(request.names)} names", f"at most {NAMES_MAX}")
        if not request.client_id:
            raise InvalidParameter("client_id", "", "the client that subscribes")
        if not self._leads():
            raise BrokerBusy(RETRY_MS, "this broker is not its group's master yet, or no longer")
        queues = [lite_queue(request.topic, check_lite_topic(name)) for name in request.names]
        name = MemberName(request.group, request.client_id, request.topic)
        member = self._subscriptions.find(name)
        is_all = request.action == "all"
        if not is_all and (member is None or member.version not in (request.before, request.version)):
            return LiteSubscribedReply(False)
        if request.action != "remove":
            kept = set() if member is None or is_all else member.names
            self._check_quotas(kept, queues, settings.client_quota, 0 if member is None else len(member.names))
        member = self._subscriptions.begin(name)
        member.seen_ms = self._clock.monotonic_ms()
        member.version = request.version
        if request.action == "remove":
            self._subscriptions.remove(member, queues)
            return LiteSubscribedReply(True)
        if is_all:
            self._subscriptions.keep_only(member, set(queues))
        rivals = self._rivals(member, queues) if settings.is_exclusive else set()
        if self._subscriptions.add(member, queues, is_exclusive=settings.is_exclusive):
            self._pops.on_ready((member,))
        for rival in rivals:
            self._pops.on_evicted(rival)
        return LiteSubscribedReply(True)

    def _check_quotas(self, kept: set[str], queues: list[str], client_quota: int, present: int) -> None:
        wanted = len(kept.union(queues))
        if wanted > client_quota:
            raise LiteQuotaExceeded(f"{wanted} lite topics of one client", client_quota, f"{CLIENT_QUOTA} of its group")
        limit = self._config.lite_subscriptions_max
        if self._subscriptions.count - present + wanted > limit:
            raise LiteQuotaExceeded("subscriptions to lite topics at this broker", limit, "lite_subscriptions_max")

    def _rivals(self, member: LiteMember, queues: list[str]) -> set[LiteMember]:
        return {
            other
            for queue in queues
            if queue not in member.names
            for other in self._subscriptions.subscribers(queue)
            if other is not member and other.name.group == member.name.group
        }

    def on_tick(self, now_ms: int) -> None:
        """Each second. `now_ms`: monotonic."""
        gone = [
            member
            for member in self._subscriptions.members()
            if now_ms - member.seen_ms > UNKNOWN_MS_MAX and self._registry.identity_of(member.name.client_id) is None
        ]
        for member in gone:
            self._subscriptions.forget(member)

    def on_client_left(self, client_id: str) -> None:
        """A consumer was closed."""
        for member in [member for member in self._subscriptions.members() if member.name.client_id == client_id]:
            self._subscriptions.forget(member)

    def on_topic_deleted(self, topic: str) -> None:
        """Nobody subscribes to a deleted parent's lite topics any more."""
        for member in [member for member in self._subscriptions.members() if member.name.parent == topic]:
            self._subscriptions.forget(member)

    def on_deposed(self) -> None:
        """Clients tell the next master."""
        self._subscriptions.forget_all()
