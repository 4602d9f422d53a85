"""Fetches damaged bytes of the log from another replica of the group, and writes them in place.

    damage below confirm --GetLogRange--> a replica: checks its own bytes, then sends them with a CRC
                         <---- bytes ---- '- or answers that it lacks them, or has them damaged
    whole records that match our own checksums? --> written in place, synced --> readers and slaves continue

Any replica asks any other, in any role: below the confirm offset all that have the bytes have the same (R6, R8).
Bytes that no replica has count as lost, and consumers are told (pull_handler). repair_plan decides whom to ask and when.
Loop thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

from ...model.clock import Clock
from ...model.errors import BrokerBusy, BufferFull, CorruptRecordError, InvalidParameter, OffsetOutOfRange, ZenitError
from ...model.events.table import DAMAGE_STAYS
from ...model.events.telling import tell
from ...model.repeated_news import RepeatedNews
from ...record.crc32 import crc32
from ...remoting.client import RemotingClient
from ...remoting.commands import GetLogRange, LogRangeReply, ReplicaQuestion, Request
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ..group.replica_question import QuestionStamp
from ..worker_pool import WorkerPool
from .repair_plan import RangeAsk, RepairOutcome, RepairPlan

log = logging.getLogger(__name__)

TICK_MS: Final = 100
TIMEOUT_MS: Final = 10_000
NOT_YET_MS: Final = 500
RANGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The limit of one request: more than the largest append; a reply's frame may be twice that."""


class RepairHost(Protocol):
    """The group member."""

    def others(self) -> dict[str, tuple[str, QuestionStamp]] | None:
        """{name: (address, how a request to it begins)} of the group's other replicas; None while they are unknown."""

    def check_asker(self, question: ReplicaQuestion) -> None:
        """Raises OtherReplicaMeant, StaleEpoch, UnknownReplica."""

    def on_damage(self) -> None:
        """The damaged ranges have changed."""


class Repairs:
    """The repairs of one replica: it asks others for what is damaged here, and answers them."""

    def __init__(
        self,
        store: MessageStore,
        loop: RequestLoop,
        clock: Clock,
        client: RemotingClient,
        workers: WorkerPool,
        host: RepairHost,
        *,
        wait_ms: int,
        look_again: Callable[[], None],
    ) -> None:
        """`store` is open. `look_again`: makes readers that wait before damage check whether they may go on."""
        self._store = store
        self._loop = loop
        self._clock = clock
        self._client = client
        self._workers = workers
        self._host = host
        self._look_again = look_again
        self._plan = RepairPlan(wait_ms=wait_ms)
        self._news = RepeatedNews()  # by replica: why it gave nothing
        self._dropped: deque[RangeAsk] = deque()  # results for which the loop had no room
        self._plan.on_damage(self._damaged(), clock.monotonic_ms())
        self._set_awaited()

    def start(self) -> None:
        """From here on, checks ten times a second."""
        self._loop.every(TICK_MS, self._on_tick)

    def document(self) -> dict[str, Any]:
        """For statistics."""
        plan = self._plan
        return {"mended_ranges": plan.mended, "awaited_ranges": len(plan.awaited), "lost_ranges": len(plan.lost)}

    def on_change(self) -> None:
        """The damaged ranges of the store have changed."""
        self._plan.on_damage(self._damaged(), self._clock.monotonic_ms())
        self._set_awaited()
        self._host.on_damage()

    def _damaged(self) -> list[tuple[int, int]]:
        """The ranges to fetch: damage with the appends that contain it. A session fetches what recovery found."""
        damage = self._store.damage
        return damage.extents(damage.quarantine.rotten)

    def _set_awaited(self) -> None:
        quarantine = self._store.damage.quarantine
        if quarantine.sought != self._plan.sought:
            quarantine.sought = self._plan.sought
        if quarantine.awaited != self._plan.awaited:
            quarantine.awaited = self._plan.awaited
            self._look_again()

    # ---- asking

    def _on_tick(self) -> None:
        while self._dropped:
            self._settle(self._dropped.popleft(), RepairOutcome.UNANSWERED)
        others = self._host.others()
        names = None if others is None else tuple(others)
        ask = self._plan.next_ask(self._clock.monotonic_ms(), names, self._store.confirm_offset)
        self._set_awaited()
        if ask is None or others is None:
            return
        address, stamp = others[ask.replica]
        try:
            self._client.send_nowait(
                address,
                GetLogRange(*stamp, ask.begin, ask.end),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post_reply, ask),
            )
        except ZenitError as error:
            self._on_reply(ask, None, b"", error)

    def _post_reply(self, ask: RangeAsk, reply: LogRangeReply | None, data: bytes, error: ZenitError | None) -> None:
        """A thread of the client's."""
        self._post(ask, partial(self._on_reply, ask, reply, data, error))

    def _post(self, ask: RangeAsk, callback: Callable[[], None]) -> None:
        """Any thread. If the loop has no room for a result, the range is asked for again."""
        try:
            self._loop.post(callback)
        except BufferFull:
            log.warning("a repair was dropped, the loop is behind begin=%s end=%s", ask.begin, ask.end)
            self._dropped.append(ask)

    def _on_reply(self, ask: RangeAsk, reply: LogRangeReply | None, data: bytes, error: ZenitError | None) -> None:
        if error is not None:
            count = self._news.count_to_tell(ask.replica, type(error).__name__, self._clock.monotonic_ms())
            if count:
                log.warning(
                    "no repair begin=%s end=%s replica=%s error=%s times=%d",
                    *(ask.begin, ask.end, ask.replica, error, count),
                )
            self._settle(ask, _outcome_of(error))
        elif reply is None or len(data) != ask.end - ask.begin or crc32(data) != reply.crc:
            log.warning("damaged on the way begin=%s end=%s replica=%s", ask.begin, ask.end, ask.replica)
            self._settle(ask, RepairOutcome.UNANSWERED)
        else:
            self._news.is_over(ask.replica)
            self._write(ask, bytes(data), is_whole=reply.is_whole)

    def _write(self, ask: RangeAsk, data: bytes, *, is_whole: bool) -> None:
        damage = self._store.damage
        try:
            mended = damage.made_whole(ask.begin, data)
            if mended is None and is_whole and damage.fits(ask.begin, data):
                mended = data
            if mended is None:
                what = "not what our checksums say" if is_whole else "damaged there too, and not made whole by our copy"
                tell(log, DAMAGE_STAYS, begin=ask.begin, end=ask.end, peer=ask.replica, why=what)
                self._settle(ask, RepairOutcome.REFUSED)
                return
            written = damage.write(ask.begin, mended)
        except (OSError, OffsetOutOfRange) as error:
            log.warning("cannot be written in place begin=%s end=%s error=%s", ask.begin, ask.end, error)
            self._settle(ask, RepairOutcome.UNANSWERED)
            return

        def on_written(future: Future[None]) -> None:
            """In the store's worker; a failed sync has poisoned the store."""
            if not future.cancelled():
                self._post(ask, partial(self._on_written, ask))

        written.add_done_callback(on_written)

    def _on_written(self, ask: RangeAsk) -> None:
        if self._store.is_poisoned:
            return
        self._plan.on_outcome(ask, RepairOutcome.MENDED, self._clock.monotonic_ms())
        self._store.damage.on_whole(ask.begin, ask.end)
        self._look_again()

    def _settle(self, ask: RangeAsk, outcome: RepairOutcome) -> None:
        self._plan.on_outcome(ask, outcome, self._clock.monotonic_ms())

    # ---- answering

    def on_get_log_range(self, call: Call[GetLogRange]) -> None:
        """GetLogRange, in any role. Raises OtherReplicaMeant, StaleEpoch, UnknownReplica, InvalidParameter, BrokerBusy, and
        OffsetOutOfRange if the log ends before `end`."""
        request = call.request
        self._host.check_asker(request)
        begin, end, store = request.begin, request.end, self._store
        if not 0 <= begin < end <= begin + RANGE_BYTES_MAX:
            raise InvalidParameter("begin, end", (begin, end), f"a range of up to {RANGE_BYTES_MAX} bytes")
        if end > store.written:
            raise OffsetOutOfRange("commit log", end, store.begin, store.written)
        if end > store.confirm_offset:
            raise BrokerBusy(NOT_YET_MS, f"{end} is not confirmed here yet")
        self._workers.run(call, partial(store.copy_of_range, begin, end), partial(self._reply, call))

    def _reply(self, call: Call[Request], copy: tuple[bytes, bool]) -> None:
        data, is_whole = copy
        self._loop.reply(call, LogRangeReply(crc32(data), is_whole), (data,))


def _outcome_of(error: ZenitError) -> RepairOutcome:
    """The outcome of a request that got this error, or no answer."""
    if isinstance(error, OffsetOutOfRange) and error.offset > error.maximum:
        return RepairOutcome.NOT_THERE_YET
    is_refusal = isinstance(error, CorruptRecordError | OffsetOutOfRange | InvalidParameter)
    return RepairOutcome.REFUSED if is_refusal else RepairOutcome.UNANSWERED
