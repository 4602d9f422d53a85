"""All handlers of one broker: which handler answers which request, and which events of the loop it gets.

Those that need no more of a store than queues and state are apart: the embedded engine, whose store is another, has them too.
"""

from __future__ import annotations

from ...model.security.access_table import AccessTable
from ...remoting import commands
from ...remoting.commands import CancelPop, CreateTopic, Done
from ...remoting.request_rows import Row, row
from ...remoting.server import Call
from ..delay.delay_handler import DelayHandler
from ..filter.condition_cache import ConditionCache
from ..lite.lite_handlers import LiteHandlers
from ..metrics.handler_counts import HandlerCounts
from ..pop.leases import Leases
from ..pop.pop_handler import PopHandler
from ..pop.receipt_handler import ReceiptHandler
from ..security.security_handler import SecurityHandler
from ..statistics import BrokerStatistics
from ..transaction.transaction_handler import TransactionHandler
from ..watching.watch_handler import WatchHandler
from .group_handler import GroupHandler
from .heartbeat_handler import HeartbeatHandler
from .hold_handler import HoldHandler
from .lock_handler import LockHandler
from .offset_handler import OffsetHandler
from .parts import Parts
from .pull_handler import PullHandler
from .query_handler import QueryHandler
from .query_offset_handler import QueryOffsetHandler
from .reply_handler import ReplyHandler
from .reset_handler import ResetHandler
from .send_back_handler import SendBackHandler
from .send_handler import SendHandler
from .sequenced_send_handler import SequencedSendHandler
from .start_handler import StartHandler
from .topic_handler import TopicHandler


class PlainHandlers:
    """Of any store. Owned by the loop thread. `sends` and `pulls` count requests."""

    def __init__(self, parts: Parts) -> None:
        config, store, state, loop, clock = parts.config, parts.store, parts.state, parts.loop, parts.clock
        acknowledgements, registry, workers = parts.acknowledgements, parts.registry, parts.workers
        self._auto_create_queues = config.default_topic_queues if config.auto_create_topics else 0
        self._conditions = conditions = ConditionCache()
        self.sends = SendHandler(
            store,
            state,
            acknowledgements,
            parts.stages,
            store_host=parts.store_host,
            auto_create_queues=self._auto_create_queues,
        )
        self.pulls = PullHandler(store, state, loop, clock, workers, config, conditions, parts.read_from)
        self._locks = LockHandler(
            store, state, acknowledgements, clock, parts.leads, may_be_deposed=bool(config.controllers)
        )
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
        self._queries = QueryHandler(store, state, loop, clock, workers, config)
        self._topics = TopicHandler(store, state, acknowledgements, loop, queues_max=config.topic_queues_max)
        self._groups = GroupHandler(store, state, acknowledgements, loop, clock, registry)
        self._offsets = OffsetHandler(store, state, acknowledgements, auto_create_groups=config.auto_create_groups)
        self._resets = ResetHandler(parts)
        self._send_backs = SendBackHandler(parts)
        self._starts = StartHandler(parts)
        self._leases = Leases(parts)
        self.pops = PopHandler(parts, conditions, self._leases)
        self._acks = ReceiptHandler(parts, self._leases)
        self._leases.on_available = self.pops.on_available
        self._flows = self.sends.flows = self.pulls.flows = parts.flows
        self._resets.on_moved = self.pops.on_moved
        self._topics.on_deleted = self._groups.on_deleted = self.pops.on_deleted

    def rows(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            row(commands.SendMessages, self.sends.on_send),
            row(commands.SendBack, self._send_backs.on_send_back),
            row(commands.SendReplyMessage, self._replies.on_send_reply),
            row(commands.PullMessages, self.pulls.on_pull),
            row(commands.PopMessages, self.pops.on_pop),
            row(commands.CancelPop, self.on_cancel_pop),
            row(commands.AckMessages, self._acks.on_ack),
            row(commands.ReleaseMessages, self._acks.on_release),
            row(commands.ChangeInvisible, self._acks.on_change),
            row(commands.ForwardDeadLetter, self._acks.on_forward),
            row(commands.GetLeases, self._acks.on_list),
            row(commands.ViewMessage, self._queries.on_view),
            row(commands.Heartbeat, self._heartbeats.on_heartbeat),
            row(commands.KeepClients, self._heartbeats.on_keep),
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
            row(commands.CreateTopic, self.on_create_topic),
            row(commands.DeleteTopic, self._topics.on_delete),
            row(commands.GetTopics, self._topics.on_list),
            row(commands.GetTopicStatistics, self._topics.on_statistics),
            row(commands.GetMaxOffset, self._offsets.on_max_offset),
            row(commands.GetMinOffset, self._offsets.on_min_offset),
            row(commands.SearchOffset, self._queries.on_search),
        ]

    def on_create_topic(self, call: Call[CreateTopic]) -> None:
        """Raises the reason why the topic is refused."""
        self._topics.on_create(call)

    def on_cancel_pop(self, call: Call[CancelPop]) -> Done:
        """A consumer waits no more."""
        return self.pops.on_cancel(call)

    # ---- the loop's events

    def on_access(self, before: AccessTable) -> None:
        """Others have rights now than those `before`."""
        self._heartbeats.on_access(before)

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues than before."""
        self.pulls.on_arrivals(queues)
        self.pops.on_arrivals(queues)

    def on_topic_deleted(self, topic: str) -> None:
        """The topic's queues are deleted."""
        self.pulls.on_topic_deleted(topic)
        self.pops.on_topic_deleted(topic)
        if self._flows is not None:
            self._flows.forget_topic(topic)

    def on_fast_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        self.pulls.on_tick(now_ms)
        self.pops.on_tick(now_ms)
        self._leases.on_tick(now_ms)
        self._replies.on_tick(now_ms)

    def on_slow_tick(self, now_ms: int) -> None:
        """Each second. `now_ms`: monotonic."""
        self._heartbeats.on_tick(now_ms)
        self._locks.on_tick(now_ms)
        if self._flows is not None:
            self._flows.forget_unknown()

    def answer_waiting(self) -> None:
        """Whoever waits for messages here asks another replica from now on."""
        self.pulls.answer_waiting()

    def on_deposed(self) -> None:
        """This broker was its group's master, and no longer is."""
        self._heartbeats.on_deposed()
        self._locks.on_deposed()
        self.pops.on_deposed()
        self._leases.on_deposed()


class Handlers(PlainHandlers):
    """Of a broker, whose store is a MessageStore."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        config, store, auto_create_queues = parts.config, parts.store, self._auto_create_queues
        self._delays = DelayHandler(
            store,
            parts.state,
            parts.acknowledgements,
            parts.delays,
            parts.workers,
            parts.loop,
            parts.clock,
            config.store,
            broker_name=config.name,
            store_host=parts.store_host,
            auto_create_queues=auto_create_queues,
        )
        self._delays.flows = parts.flows
        self._transactions = TransactionHandler(parts, parts.transactions, auto_create_queues=auto_create_queues)
        self._sequenced = SequencedSendHandler(
            parts, self.sends, self._delays, self._transactions, auto_create_queues=auto_create_queues
        )
        self.watches = WatchHandler(parts)
        self._query_offsets = QueryOffsetHandler(parts)
        self._holds = HoldHandler(parts)
        self.security = SecurityHandler(parts)
        store.hold(self._holds.holds)
        self._lite = LiteHandlers(parts, self._conditions, self._leases, self.pops)
        self._heartbeats.on_left = self._lite.subscribing.on_client_left
        self.statistics = BrokerStatistics(
            store,
            parts.loop,
            parts.clock,
            parts.registry,
            self.sends,
            self.pulls,
            self.watches,
            parts.stages,
            parts.delays,
            parts.transactions,
            self._send_backs,
            self._replies,
            self._holds.holds,
            self._sequenced,
            self.pops,
            self._acks,
            self._lite,
        )

    def rows(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            *super().rows(),
            row(commands.SendSequenced, self._sequenced.on_send),
            row(commands.SendDelayed, self._delays.on_send),
            row(commands.SendDelayedSequenced, self._sequenced.on_send_delayed),
            row(commands.SendHalves, self._sequenced.on_send_halves),
            row(commands.EndTransactions, self._transactions.on_end),
            row(commands.DecideTransactions, self._transactions.on_decide),
            row(commands.GetTransactions, self._transactions.on_list),
            row(commands.RecallMessage, self._delays.on_recall),
            row(commands.AwaitArrivals, self.watches.on_await),
            row(commands.PopLite, self._lite.pops.on_pop),
            row(commands.GetLiteTopics, self._lite.queries.on_topics),
            row(commands.GetLightQueues, self._lite.queries.on_queues),
            row(commands.GetLiteGroup, self._lite.queries.on_group),
            row(commands.SubscribeLite, self._lite.subscribing.on_subscribe),
            row(commands.SuspendLite, self._acks.on_suspend),
            row(commands.QueryMessages, self._queries.on_query),
            row(commands.CompactTopic, self._topics.on_compact),
            row(commands.KeepQueryOffsets, self._query_offsets.on_keep),
            row(commands.GetQueryOffsets, self._query_offsets.on_get),
            row(commands.DropQueryOffsets, self._query_offsets.on_drop),
            row(commands.GetQueries, self._query_offsets.on_list),
            row(commands.HoldMessages, self._holds.on_hold),
            row(commands.RenewHold, self._holds.on_renew),
            row(commands.ReleaseHold, self._holds.on_release),
            *self.security.served(),
        ]

    def counts(self) -> HandlerCounts:
        """For metrics. Any thread: plain numbers."""
        acks, pops = self._acks.document(), self.pops.document()
        return HandlerCounts(
            send_batches=self.sends.batches,
            retried=self._send_backs.retried,
            dead_letters=self._send_backs.given_up + acks["buried"],
            pulls_waiting=self.pulls.hold.count,
            pops_waiting=pops["waiting"],
            pops_open=pops["open"],
            pops_returned=acks["returned"],
            pops_acked=acks["acked"],
            lite_collected=self._lite.collector.collected,
        )

    def on_cancel_pop(self, call: Call[CancelPop]) -> Done:
        """A consumer waits no more, perhaps for lite topics."""
        return self._lite.on_cancel(call)

    # ---- the loop's events

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues than before."""
        super().on_arrivals(queues)
        self.watches.on_arrivals(queues)
        self._lite.on_arrivals(queues)

    def on_topic_deleted(self, topic: str) -> None:
        """The topic's queues are deleted."""
        super().on_topic_deleted(topic)
        self.watches.on_topic_deleted(topic)
        self._lite.on_topic_deleted(topic)

    def on_fast_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        super().on_fast_tick(now_ms)
        self.watches.on_tick(now_ms)
        self._lite.on_fast_tick(now_ms)

    def on_slow_tick(self, now_ms: int) -> None:
        """Each second. `now_ms`: monotonic."""
        super().on_slow_tick(now_ms)
        self._holds.on_tick(now_ms)
        self._lite.on_tick(now_ms)

    def answer_waiting(self) -> None:
        """Whoever waits for messages here asks another replica from now on."""
        super().answer_waiting()
        self.watches.answer_waiting()

    def on_deposed(self) -> None:
        """This broker was its group's master, and no longer is."""
        super().on_deposed()
        self._holds.on_deposed()
        self._lite.on_deposed()
