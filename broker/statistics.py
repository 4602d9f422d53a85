"""The document of `zenit broker stats`: counters since the start, positions, memory, lanes, time by stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from ..model.clock import Clock, process_cpu_ns
from ..record.kernel import COMPILED
from ..remoting.server import LoopStatistics, RequestLoop
from ..store.message_store import MessageStore
from .delay.delays import Delays
from .handlers.pull_handler import PullHandler
from .handlers.reply_handler import ReplyHandler
from .handlers.send_back_handler import SendBackHandler
from .handlers.send_handler import SendHandler
from .handlers.sequenced_send_handler import SequencedSendHandler
from .lite.lite_handlers import LiteHandlers
from .pop.pop_handler import PopHandler
from .pop.receipt_handler import ReceiptHandler
from .registration import BrokerIdentity
from .stage_clock import StageClock
from .state.client_registry import ClientRegistry
from .state.retention_holds import RetentionHolds
from .transaction.transactions import Transactions
from .watching.watch_handler import WatchHandler

_STATUS_FILE: Final = "/proc/self/status"


def kernel_kind() -> str:
    """ "compiled" or "interpreted": which record kernel this process runs."""
    return "compiled" if COMPILED else "interpreted"


def anonymous_bytes(status: str) -> int | None:
    """Memory without file pages, from the text of /proc/self/status; None if the text has no such line."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            return int(value.split()[0]) * 1024
    return None


def read_anonymous_bytes() -> int | None:
    """The same of this process; None if there is no /proc."""
    try:
        with open(_STATUS_FILE, encoding="ascii") as file:
            return anonymous_bytes(file.read())
    except FileNotFoundError:
        return None


def loop_document(statistics: LoopStatistics) -> dict[str, Any]:
    """The loop's counters, with lanes by name."""
    document = {
        field.name: getattr(statistics, field.name) for field in dataclasses.fields(statistics) if field.name != "lanes"
    }
    document["lanes"] = {lane.value: dataclasses.asdict(counters) for lane, counters in statistics.lanes.items()}
    return document


class BrokerStatistics:
    """Collects the numbers of the parts. Loop thread."""

    def __init__(
        self,
        store: MessageStore,
        loop: RequestLoop,
        clock: Clock,
        registry: ClientRegistry,
        sends: SendHandler,
        pulls: PullHandler,
        watches: WatchHandler,
        stages: StageClock,
        delays: Delays,
        transactions: Transactions,
        send_backs: SendBackHandler,
        replies: ReplyHandler,
        holds: RetentionHolds,
        sequenced: SequencedSendHandler,
        pops: PopHandler,
        receipts: ReceiptHandler,
        lite: LiteHandlers,
    ) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._registry = registry
        self._sends = sends
        self._pulls = pulls
        self._watches = watches.watches
        self._stages = stages
        self._delays = delays
        self._transactions = transactions
        self._send_backs = send_backs
        self._replies = replies
        self._holds = holds
        self._sequenced = sequenced
        self._pops = pops
        self._receipts = receipts
        self._lite = lite
        self._started_at_ms = clock.now_ms()
        self._began_ms = clock.monotonic_ms()

    def document(self, identity: BrokerIdentity, waits: Mapping[str, int]) -> dict[str, Any]:
        """One JSON document; offsets in bytes. `waits`: how many wait for a flush or a worker."""
        clients, consumers = self._registry.counts()
        return {
            "cluster": identity.cluster,
            "cluster_id": identity.cluster_id,
            "broker_name": identity.broker_name,
            "address": identity.address,
            "role": "master",
            "epoch": identity.epoch,
            "kernel": kernel_kind(),
            "started_at_ms": self._started_at_ms,
            "uptime_seconds": (self._clock.monotonic_ms() - self._began_ms) / 1000,
            "cpu_seconds": process_cpu_ns() / 1e9,
            "memory_bytes": read_anonymous_bytes(),
            "positions": {
                "written_offset": self._store.written,
                "flushed_offset": self._store.flushed,
                "confirm_offset": self._store.confirm_offset,
            },
            "sends": {
                "batches": self._sends.batches,
                "messages": self._sends.messages,
                "bytes": self._sends.size_bytes,
            },
            "pulls": {
                "requests": self._pulls.pulls,
                "messages": self._pulls.messages,
                "bytes": self._pulls.size_bytes,
                "parked": self._pulls.hold.count,
                "parked_bytes": self._pulls.hold.size_bytes,
                "watched_queues": self._watches.count,
                "scanned": self._pulls.scanned,
                "scan_us_max": self._pulls.scan_ns_max // 1000,
            },
            "pops": {**self._pops.document(), **self._receipts.document()},
            "lite_pops": self._lite.document(),
            "delays": self._delays.document(),
            "transactions": self._transactions.document(),
            "send_backs": {"retried": self._send_backs.retried, "given_up": self._send_backs.given_up},
            "replies": self._replies.document(),
            "retention_holds": self._holds.document(self._clock.monotonic_ms()),
            "producers": self._sequenced.document(),
            "clients": {"connected": clients, "consumers": consumers},
            "waiting": dict(waits),
            "loop": loop_document(self._loop.statistics()),
            "stages": self._stages.document(),
            "store": dataclasses.asdict(self._store.statistics()),
        }
