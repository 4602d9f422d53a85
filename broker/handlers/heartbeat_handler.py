"""Heartbeats of clients, group membership, and notices to members when it changes.

Owned by the loop thread. A consumer's first heartbeat creates its group in the log if the configuration allows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...model.clock import Clock
from ...model.errors import GroupNotFound, InvalidParameter
from ...model.names import check_group, check_topic, retry_topic
from ...model.route import TopicConfig
from ...model.security.access_table import AccessTable
from ...model.subscription import ExpressionKind, Subscription
from ...remoting.commands import (
    ConsumerListReply,
    ConsumersChanged,
    Done,
    GetConsumerList,
    GetGroupClients,
    Heartbeat,
    HeartbeatReply,
    KeepClients,
    KeepClientsReply,
    UnregisterClient,
)
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..filter.condition_cache import ConditionCache
from ..json_reply import reply_json
from ..state.client_registry import Client, ClientInfo, ClientOwner, ClientRegistry
from ..state.redelivery_topics import wanted_retry_topic
from ..state.state_log import GROUPS, TOPICS, StateLog
from .lock_handler import CLIENT_ID_LENGTH_MAX, LockHandler

log = logging.getLogger(__name__)

INFO_LENGTH_MAX: Final = 255
NUMBER_MAX: Final = 1 << 62
KEPT_MAX: Final = 1_000
CONFLICTS_MAX: Final = 100
"""Of one answer for many clients; the others are told when those are mended."""
SETTLED_AFTER: Final = 2
"""The number of heartbeat intervals after which all clients of the former master have sent one to this broker."""


class HeartbeatHandler:
    """Heartbeat, KeepClients, UnregisterClient, GetConsumerList, GetGroupClients; removes silent clients."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        loop: RequestLoop,
        clock: Clock,
        registry: ClientRegistry,
        locks: LockHandler,
        conditions: ConditionCache,
        leads: Callable[[], bool],
        *,
        auto_create_groups: bool,
        on_client: Callable[[str], None],
    ) -> None:
        """`on_client`: called with the id of each client that sends a heartbeat."""
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self._loop = loop
        self._clock = clock
        self._registry = registry
        self._locks = locks
        self._conditions = conditions
        self._warned: dict[str, tuple[str, ...]] = {}  # group -> topics
        self._leads = leads
        self._auto_create_groups = auto_create_groups
        self._on_client = on_client
        self.on_left: Callable[[str], None] = _tell_nobody
        """Called with the id of each client that leaves."""
        self._led_since_ms: int | None = None

    def on_heartbeat(self, call: Call[Heartbeat]) -> HeartbeatReply | None:
        """Adds or renews a client. Raises what is wrong with the heartbeat; then nothing changes."""
        request = call.request
        _check(request, self._conditions)
        fresh = [group for group, _, _ in request.consumers if group not in self._state.group_table.documents]
        if fresh and not self._auto_create_groups:
            raise GroupNotFound(fresh[0])
        changed = self._registry.on_heartbeat(
            self._clock.monotonic_ms(),
            client_id=request.client_id,
            identity=call.identity,
            producers=request.producers,
            consumers=request.consumers,
            info=ClientInfo(
                request.language,
                request.version,
                request.host,
                request.pid,
                request.started_at_ms,
                request.allocation,
            ),
            owner=ClientOwner(call.user, call.key, call.address),
        )
        self._tell(changed)
        self._on_client(request.client_id)
        reply = HeartbeatReply(self._registry.heartbeat_ms, self._registry.others(request.client_id))
        retry_topics = self._missing_retry_topics(request)
        if not fresh and not retry_topics:
            return reply
        end = 0
        for group in fresh:
            end = self._state.stage(self._store, GROUPS, self._state.group_table.event_set(group))
        for config in retry_topics:
            end = self._state.stage(self._store, TOPICS, self._state.topic_table.event_set(config))
        self._acknowledgements.staged.append((call, reply, end, ()))
        return None

    def on_keep(self, call: Call[KeepClients]) -> KeepClientsReply:
        """Renews clients that this connection has told of. Those whose retry topic is gone send a heartbeat of their own,
        which makes it. Raises InvalidParameter."""
        client_ids = call.request.client_ids
        if len(client_ids) > KEPT_MAX:
            raise InvalidParameter("client_ids", len(client_ids), f"at most {KEPT_MAX}")
        now_ms = self._clock.monotonic_ms()
        owner = ClientOwner(call.user, call.key, call.address)
        unknown: list[str] = []
        conflicts: list[tuple[str, str, str]] = []
        for client_id in client_ids:
            client = self._registry.kept(client_id, call.identity, owner)
            if client is None or self._missing_retry_topics(client):
                unknown.append(client_id)
                continue
            self._registry.keep(client, now_ms, owner)
            self._on_client(client_id)
            if client.consumers and len(conflicts) < CONFLICTS_MAX:
                conflicts += self._registry.others(client_id)
        return KeepClientsReply(self._registry.heartbeat_ms, tuple(unknown), tuple(conflicts[:CONFLICTS_MAX]))

    def on_unregister(self, call: Call[UnregisterClient]) -> Done | None:
        """A client leaves all its groups, and all queues that it had locked."""
        request = call.request
        if not self._registry.is_of(
            request.client_id, ClientInfo(pid=request.pid, started_at_ms=request.started_at_ms), call.user
        ):
            return Done()
        self._end(request.client_id)
        end = self._locks.on_client_left(request.client_id)
        if not end:
            return Done()
        self._acknowledgements.staged.append((call, Done(), end, ()))
        return None

    def on_consumer_list(self, call: Call[GetConsumerList]) -> ConsumerListReply:
        """The members of a group, or those that share a topic's queues."""
        request = call.request
        if not request.topic:
            return ConsumerListReply(self._registry.members(request.group))
        sharers = self._registry.sharers(request.group, request.topic)
        return ConsumerListReply(tuple(member.client_id for member in sharers), self._is_settled())

    def on_group_clients(self, call: Call[GetGroupClients]) -> None:
        """The members of a group and what they say about themselves."""
        request = call.request
        if request.group not in self._state.group_table.documents:
            raise GroupNotFound(check_group(request.group))
        clients = self._registry.describe(request.group, self._clock.monotonic_ms())
        reply_json(self._loop, call, {"group": request.group, "clients": clients})

    def on_tick(self, now_ms: int) -> None:
        """Removes clients that missed their heartbeats. `now_ms`: monotonic."""
        self._note_lead(now_ms)
        self._tell(self._registry.on_tick(now_ms))

    def on_access(self, before: AccessTable) -> None:
        """Others have rights now than those `before`: clients end that may not send such a heartbeat any more. Until then
        replies, questions about transactions and notices are pushed to them."""
        guard = self._loop.guard
        if guard is None:
            return
        changed: dict[str, bool] = {}
        for client in self._registry.clients():
            owner = client.owner
            if owner.user not in changed:
                changed[owner.user] = not guard.table.gives_the_same(before, owner.user)
            if not changed[owner.user]:
                continue
            request = Heartbeat(client.client_id, client.producers, client.consumers)
            refusal = guard.check(owner.key, owner.address, request)
            if refusal is not None and not guard.knows_too_little(refusal):
                log.info(
                    "a client ends, its user's rights have changed client=%s user=%s", client.client_id, owner.user
                )
                self._end(client.client_id)  # its locks lapse: it may not renew them

    def _end(self, client_id: str) -> None:
        self._tell(self._registry.on_unregister(client_id))
        self.on_left(client_id)

    def on_deposed(self) -> None:
        """This broker is no longer master: clients send heartbeats to the next one."""
        self._led_since_ms = None
        self._registry.forget_all()

    def _is_settled(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        since_ms = self._note_lead(now_ms)
        return since_ms is not None and now_ms - since_ms >= SETTLED_AFTER * self._registry.heartbeat_ms

    def _note_lead(self, now_ms: int) -> int | None:
        """Since when this broker is master; None if it is not."""
        if self._led_since_ms is None and self._leads():
            self._led_since_ms = now_ms
        return self._led_since_ms

    def _missing_retry_topics(self, request: Heartbeat | Client) -> list[TopicConfig]:
        """Creates the group's retry topic before the first failure, so that its members can subscribe to it."""
        state = self._state
        wanted = [
            wanted_retry_topic(state.topic_table.configs, group, state.group_table.documents.get(group, {}))
            for group, _, subscriptions in request.consumers
            if any(topic == retry_topic(group) for topic, *_ in subscriptions)
        ]
        return [config for config in wanted if config is not None]

    def _tell(self, groups: list[str]) -> None:
        for group in groups:
            self._warn_of_disagreement(group)
            for identity in self._registry.identities(group):
                self._loop.send_to(identity, ConsumersChanged(group))

    def _warn_of_disagreement(self, group: str) -> None:
        """Logs each kind of conflict once: it stays the same while members join one by one."""
        found = self._registry.disagreements(group)
        topics = tuple(disagreement.topic for disagreement in found)
        if topics != self._warned.get(group, ()):
            for disagreement in found:
                log.warning(
                    "members of a group subscribe differently group=%s topic=%s subscriptions=%s",
                    group,
                    disagreement.topic,
                    disagreement.wants,
                )
        if topics:
            self._warned[group] = topics
        else:
            self._warned.pop(group, None)


def _check(request: Heartbeat, conditions: ConditionCache) -> None:
    if not 1 <= len(request.client_id) <= CLIENT_ID_LENGTH_MAX:
        raise InvalidParameter("client_id", request.client_id[:64], f"1 to {CLIENT_ID_LENGTH_MAX} characters")
    for name in ("language", "version", "host", "allocation"):
        if len(text := getattr(request, name)) > INFO_LENGTH_MAX:
            raise InvalidParameter(name, text[:64], f"at most {INFO_LENGTH_MAX} characters")
    for name in ("pid", "started_at_ms"):
        if not 0 <= (number := getattr(request, name)) <= NUMBER_MAX:
            raise InvalidParameter(name, number, f"0 to {NUMBER_MAX}")
    for group in request.producers:
        check_group(group)
    for group, _, subscriptions in request.consumers:
        check_group(group)
        for topic, kind, expression in subscriptions:
            check_topic(topic)
            if kind == ExpressionKind.SQL92.value:
                conditions.condition(expression)
            elif kind == ExpressionKind.TAG.value:
                Subscription.parse(topic, expression)
            else:
                raise InvalidParameter("subscription", kind[:64], "TAG or SQL92")


def _tell_nobody(client_id: str) -> None:
    """Until the handlers are wired."""
