"""The broker's handlers that the embedded engine has: all but those for delays, transactions, sequences, queries and Spark."""

from __future__ import annotations

from ...broker.filter.condition_cache import ConditionCache
from ...broker.handlers.group_handler import GroupHandler
from ...broker.handlers.heartbeat_handler import HeartbeatHandler
from ...broker.handlers.lock_handler import LockHandler
from ...broker.handlers.offset_handler import OffsetHandler
from ...broker.handlers.parts import Parts
from ...broker.handlers.pull_handler import PullHandler
from ...broker.handlers.query_handler import QueryHandler
from ...broker.handlers.reply_handler import ReplyHandler
from ...broker.handlers.reset_handler import ResetHandler
from ...broker.handlers.send_back_handler import SendBackHandler
from ...broker.handlers.send_handler import SendHandler
from ...broker.handlers.start_handler import StartHandler
from ...broker.handlers.topic_handler import TopicHandler
from ...broker.pop.leases import Leases
from ...broker.pop.pop_handler import PopHandler
from ...broker.pop.receipt_handler import ReceiptHandler
from ...remoting import commands
from ...remoting.commands import CreateTopic
from ...remoting.request_rows import Row, row
from ...remoting.server import Call
from .refusals import check_attributes


class EmbeddedHandlers:
    """Under the engine's lock."""

    def __init__(self, parts: Parts) -> None:
        config, store, state, loop, clock = parts.config, parts.store, parts.state, parts.loop, parts.clock
        acknowledgements, registry = parts.acknowledgements, parts.registry
        conditions = ConditionCache()
        self._sends = SendHandler(
            store, state, acknowledgements, parts.stages, store_host=parts.store_host, auto_create_queues=0
        )
        self._pulls = PullHandler(store, state, loop, clock, parts.workers, config, conditions, parts.read_from)
        self._locks = LockHandler(store, state, acknowledgements, clock, parts.leads, may_be_deposed=False)
        self._replies = ReplyHandler(
            store,
            state,
            acknowledgements,
            loop,
            clock,
            registry,
            cluster=config.cluster,
            broker_name=config.name,
            store_host=parts.store_host,
        )
        self._heartbeats = HeartbeatHandler(
            store,
            state,
            acknowledgements,
            loop,
            clock,
            registry,
            self._locks,
            conditions,
            parts.leads,
            auto_create_groups=config.auto_create_groups,
            on_client=self._replies.on_client,
        )
        self._queries = QueryHandler(store, state, loop, clock, parts.workers, config)
        self._topics = TopicHandler(store, state, acknowledgements, loop, queues_max=config.topic_queues_max)
        self._groups = GroupHandler(store, state, acknowledgements, loop, clock, registry)
        self._offsets = OffsetHandler(store, state, acknowledgements, auto_create_groups=config.auto_create_groups)
        self._resets = ResetHandler(parts)
        self._send_backs = SendBackHandler(parts)
        self._starts = StartHandler(parts)
        self._leases = Leases(parts)
        self._pops = PopHandler(parts, conditions, self._leases)
        self._acks = ReceiptHandler(parts, self._leases)
        self._leases.on_available = self._pops.on_available
        self._resets.on_moved = self._pops.on_moved
        self._topics.on_deleted = self._groups.on_deleted = self._pops.on_deleted

    def rows(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            row(commands.SendMessages, self._sends.on_send),
            row(commands.SendReplyMessage, self._replies.on_send_reply),
            row(commands.SendBack, self._send_backs.on_send_back),
            row(commands.PullMessages, self._pulls.on_pull),
            row(commands.PopMessages, self._pops.on_pop),
            row(commands.CancelPop, self._pops.on_cancel),
            row(commands.AckMessages, self._acks.on_ack),
            row(commands.ReleaseMessages, self._acks.on_release),
            row(commands.ChangeInvisible, self._acks.on_change),
            row(commands.ForwardDeadLetter, self._acks.on_forward),
            row(commands.GetLeases, self._acks.on_list),
            row(commands.ViewMessage, self._queries.on_view),
            row(commands.SearchOffset, self._queries.on_search),
            row(commands.Heartbeat, self._heartbeats.on_heartbeat),
            row(commands.UnregisterClient, self._heartbeats.on_unregister),
            row(commands.GetConsumerList, self._heartbeats.on_consumer_list),
            row(commands.GetGroupClients, self._heartbeats.on_group_clients),
            row(commands.CreateGroup, self._groups.on_create),
            row(commands.DeleteGroup, self._groups.on_delete),
            row(commands.GetGroups, self._groups.on_list),
            row(commands.GetConsumeStatistics, self._groups.on_statistics),
            row(commands.QueryConsumerOffset, self._offsets.on_query_offset),
            row(commands.GetBeginOffsets, self._offsets.on_begin_offsets),
            row(commands.UpdateConsumerOffsets, self._offsets.on_update_offsets),
            row(commands.ResetOffsets, self._resets.on_reset),
            row(commands.CloneOffsets, self._resets.on_clone),
            row(commands.StartConsuming, self._starts.on_start),
            row(commands.LockQueues, self._locks.on_lock),
            row(commands.UnlockQueues, self._locks.on_unlock),
            row(commands.CreateTopic, self._on_create_topic),
            row(commands.DeleteTopic, self._topics.on_delete),
            row(commands.GetTopics, self._topics.on_list),
            row(commands.GetTopicStatistics, self._topics.on_statistics),
            row(commands.GetMaxOffset, self._offsets.on_max_offset),
            row(commands.GetMinOffset, self._offsets.on_min_offset),
        ]

    def _on_create_topic(self, call: Call[CreateTopic]) -> None:
        check_attributes(call.request.attributes)
        self._topics.on_create(call)

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """There are new messages in these queues."""
        self._pulls.on_arrivals(queues)
        self._pops.on_arrivals(queues)

    def on_topic_deleted(self, topic: str) -> None:
        """The topic's queues are deleted."""
        self._pulls.on_topic_deleted(topic)
        self._pops.on_topic_deleted(topic)

    def on_fast_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        self._pulls.on_tick(now_ms)
        self._pops.on_tick(now_ms)
        self._leases.on_tick(now_ms)
        self._replies.on_tick(now_ms)

    def on_slow_tick(self, now_ms: int) -> None:
        """Each second. `now_ms`: monotonic."""
        self._heartbeats.on_tick(now_ms)
        self._locks.on_tick(now_ms)
