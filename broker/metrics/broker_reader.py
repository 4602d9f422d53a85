"""What a broker says at a scrape, and whether it is ready. Called by the metrics' thread: it copies what the loop owns, and
never waits for it. A directory that hangs, or a page that must come from the disk, keeps that thread alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, Protocol

from ...metrics import table
from ...metrics.family import Labels, Reading, Sample
from ...metrics.readiness import Readiness
from ...model.clock import Clock
from ...model.plain_dataclass import dataclass
from ...remoting.loop_reader import loop_readings
from ...remoting.server import RequestLoop
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..config import BrokerConfig
from ..delay.delays import Delays
from ..state.client_registry import ClientRegistry
from ..state.state_log import StateLog
from ..transaction.transactions import Transactions
from .flows import Flows
from .handler_counts import HandlerCounts
from .lag_survey import LagSurvey
from .replica_status import ReplicaStatus

READ_WRITE: Final = 6
READ_ONLY: Final = 4
DISK_FULL: Final = "disk full: {}"


class CountingHandlers(Protocol):
    """The handlers, as far as they count."""

    def counts(self) -> HandlerCounts:
        """Any thread."""


class StatusPart(Protocol):
    """The broker's part in its group, as far as it is asked here."""

    def status(self) -> ReplicaStatus:
        """Any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """What is read."""

    config: BrokerConfig
    loop: RequestLoop
    clock: Clock
    store: MessageStore
    state: StateLog
    registry: ClientRegistry
    acknowledgements: Acknowledgements
    handlers: CountingHandlers
    delays: Delays
    transactions: Transactions
    part: StatusPart
    flows: Flows
    survey: LagSurvey


class BrokerReader:
    """A Subject of the metrics' port."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        config = parts.config
        self.labels: Labels = (
            ("cluster", config.cluster),
            ("node_type", "broker"),
            ("node_id", config.replica_name),
            ("group", config.name),
        )
        self._stored: dict[tuple[str, str], tuple[int, int]] = {}  # {(topic, group): (oldest, when it was stored)}

    @property
    def turned_ms(self) -> int:
        """When the loop turned last."""
        return self._parts.loop.turned_ms

    def readiness(self) -> Readiness:
        """Ready is a master that takes messages, and a slave in sync."""
        status, refusal = self._parts.part.status(), self._parts.store.refusal
        reasons = status.reasons if refusal is None else (*status.reasons, DISK_FULL.format(refusal))
        return Readiness(status.role, reasons)

    def readings(self) -> Iterator[Reading]:
        """Every family of a broker; what there may be much of comes last."""
        status = self._parts.part.status()
        yield from loop_readings(self._parts.loop)
        yield from self._of_group(status)
        yield from self._of_store()
        yield from self._of_handlers()
        yield from self._of_waiting()
        yield from self._of_flows()
        if status.is_master:
            yield from self._of_consumers()

    def detail(self, topic: str) -> Iterator[Reading] | None:
        """The queues of a topic, as the last look at them found them."""
        if topic not in self._parts.state.topic_table.configs:
            return None
        return self._of_queues(topic)

    # ---- parts

    def _of_group(self, status: ReplicaStatus) -> Iterator[Reading]:
        yield table.IS_MASTER, [((), int(status.is_master))]
        yield table.EPOCH, [((), status.epoch)]
        for family, count in (
            (table.IN_SYNC, status.in_sync),
            (table.MIN_IN_SYNC, status.min_in_sync),
            (table.REPLICAS, status.replicas),
        ):
            if count is not None:
                yield family, [((), count)]
        yield table.REPLICA_LAG, [((one.name,), one.lag_bytes) for one in status.others]
        yield table.CAUGHT_UP, [((one.name,), one.caught_up_ms / 1000) for one in status.others]

    def _of_store(self) -> Iterator[Reading]:
        store, now_ms = self._parts.store, self._parts.clock.now_ms()
        figures = store.statistics()
        written, begin = figures.written_offset, figures.begin_offset
        is_writable = figures.refuses_writes is None
        yield table.WRITABLE, [((), int(is_writable))]
        yield table.PERMISSION, [((), READ_WRITE if is_writable else READ_ONLY)]
        yield table.STORE_SIZE, [((), written - begin)]
        yield table.STORE_WRITTEN, [((), written)]
        yield table.FLUSH_BEHIND, [((), max(0, written - figures.flushed_offset))]
        yield table.DISPATCH_BEHIND, [((), max(0, written - figures.dispatched_offset))]
        first_ms = store.stored_ms(begin) if written > begin else None
        yield table.RESERVE, [((), 0 if first_ms is None else max(0, now_ms - first_ms) / 1000)]
        yield table.FLUSH, [((), store.flush_times.reading())]
        try:
            disk = os.statvfs(self._parts.config.store_dir)
        except OSError:
            pass
        else:
            yield table.DISK_FREE, [((), disk.f_bavail * disk.f_frsize)]
            yield table.DISK_SIZE, [((), disk.f_blocks * disk.f_frsize)]
        yield table.DAMAGED, [((), store.damage.found)]
        yield table.QUARANTINED, [((), figures.quarantined_bytes)]
        yield table.UNREAD_DELETED, [((), store.unread_deleted)]
        yield table.QUEUES, [((), figures.queues)]
        yield table.LITE_QUEUES, [((), figures.light_queues)]
        yield table.INDEX_ENTRIES, [((), figures.index_entries)]
        yield table.SENDS_WAITING, [((), self._parts.acknowledgements.waiting_count)]

    def _of_handlers(self) -> Iterator[Reading]:
        counts, state = self._parts.handlers.counts(), self._parts.state
        yield table.SEND_BATCHES, [((), counts.send_batches)]
        yield table.RETRIED, [((), counts.retried)]
        yield table.DEAD_LETTERS, [((), counts.dead_letters)]
        yield table.PULLS_WAITING, [((), counts.pulls_waiting)]
        yield table.POPS_WAITING, [((), counts.pops_waiting)]
        yield table.POP_CHECKPOINTS, [((), counts.pops_open)]
        yield table.POP_RETURNED, [((), counts.pops_returned)]
        yield table.POP_ACKED, [((), counts.pops_acked)]
        yield table.LITE_COLLECTED, [((), counts.lite_collected)]
        yield table.TOPICS, [((), len(state.topic_table.configs))]
        yield table.GROUPS, [((), len(state.group_table.documents))]
        registry = self._parts.registry
        yield table.PRODUCER_CONNECTIONS, [((), registry.producer_count())]
        yield table.CONSUMER_CONNECTIONS, [((group,), count) for group, count in registry.member_counts().items()]

    def _of_waiting(self) -> Iterator[Reading]:
        parts = self._parts
        delays, transactions, now_ms = parts.delays, parts.transactions, parts.clock.now_ms()
        yield table.TIMERS, [((), delays.waiting_count)]
        yield table.TIMER_LAG, [((), _late(parts.survey.timer_due_ms, now_ms))]
        yield table.TIMER_DELIVERED, [((), delays.delivered)]
        yield table.TIMER_DISCARDED, [((), delays.discarded)]
        yield table.TIMER_DAMAGED, [((), delays.damaged_count)]
        yield table.HALVES, [((), transactions.waiting_count)]
        yield table.HALF_OLDEST, [((), _late(parts.survey.half_due_ms, now_ms))]
        yield table.COMMITTED, [((), transactions.committed)]
        yield table.ROLLED_BACK, [((), transactions.rolled_back)]
        yield table.HALVES_ASKED, [((), transactions.asked)]
        yield table.HALVES_PARKED, [((), transactions.parked)]

    def _of_flows(self) -> Iterator[Reading]:
        flows = self._parts.flows
        yield table.MESSAGE_SIZE, [((), flows.sizes.reading())]
        incoming = list(flows.incoming.items())
        yield table.MESSAGES_IN, [((topic,), flow[0]) for topic, flow in incoming]
        yield table.BYTES_IN, [((topic,), flow[1]) for topic, flow in incoming]
        outgoing = list(flows.outgoing.items())
        yield table.MESSAGES_OUT, [(pair, flow[0]) for pair, flow in outgoing]
        yield table.BYTES_OUT, [(pair, flow[1]) for pair, flow in outgoing]

    def _of_consumers(self) -> Iterator[Reading]:
        now_ms, offsets = self._parts.clock.now_ms(), self._parts.state.offset_table
        found = [
            (pair, lag) for pair, lag in self._parts.survey.found.copy().items() if offsets.in_topic(*pair) is not None
        ]
        yield table.LAG, [(pair, lag.messages) for pair, lag in found]
        late: list[Sample] = []
        stored: dict[tuple[str, str], tuple[int, int]] = {}
        for pair, lag in found:
            if lag.oldest is None:
                late.append((pair, 0))
                continue
            known = self._stored.get(pair)
            if known is None or known[0] != lag.oldest:
                at_ms = self._parts.store.stored_ms(lag.oldest)
                if at_ms is None:
                    continue
                known = lag.oldest, at_ms
            stored[pair] = known
            late.append((pair, max(0, now_ms - known[1]) / 1000))
        self._stored = stored
        yield table.LAG_SECONDS, late
        popping = [(pair, lag) for pair, lag in found if lag.ready is not None]
        yield table.IN_FLIGHT, [(pair, lag.leased) for pair, lag in popping]
        yield table.READY_MESSAGES, [(pair, lag.ready) for pair, lag in popping if lag.ready is not None]

    def _of_queues(self, topic: str) -> Iterator[Reading]:
        found = [(group, lag) for (name, group), lag in self._parts.survey.found.copy().items() if name == topic]
        ends = {queue[0]: queue for _, lag in found for queue in lag.queues}
        yield table.QUEUE_BEGIN, [((topic, str(queue_id)), queue[1]) for queue_id, queue in sorted(ends.items())]
        yield table.QUEUE_END, [((topic, str(queue_id)), queue[2]) for queue_id, queue in sorted(ends.items())]
        rows = [(group, queue) for group, lag in found for queue in lag.queues]
        known = [(group, queue) for group, queue in rows if queue[3] >= 0]
        yield table.QUEUE_COMMITTED, [((topic, group, str(queue[0])), queue[3]) for group, queue in known]
        yield table.QUEUE_LAG, [((topic, group, str(queue[0])), queue[4]) for group, queue in rows]


def _late(due_ms: int | None, now_ms: int) -> float:
    return 0 if due_ms is None else max(0, now_ms - due_ms) / 1000
