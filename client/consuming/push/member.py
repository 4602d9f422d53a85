"""A running push consumer: its membership in the group, its timers, and its parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import InvalidParameter, QueueNotOwned, ZenitError
from ....model.names import check_group, retry_topic
from ....model.queue import MessageQueue
from ....model.subscription import MessageModel, Subscription
from ....remoting.commands import OffsetsReset
from ...client_counts import ClientCounts
from ...connection import program_end
from ...connection.argument_checks import check_count, milliseconds
from ...connection.connection import Connection, connect, release
from ...connection.membership import Member
from ...connection.program_end import Unsent
from ...connection.waiting import Waits, run_blocking
from ...tracing.client_telemetry import current
from ...tracing.trace import TraceRecorder, traced_handle
from ...tracing.trace_backlog import TraceStatistics
from ..allocation import Allocation, name_of
from ..assignment import Assignment
from ..losses import OnLost
from ..offset_commits import commit_nowait, moved_queues
from ..start_from import LAST, StartFrom, check_start_from
from .broadcast_offsets import BroadcastOffsets
from .counted_handle import counted_handle
from .handler_pool import Handle
from .positions import GroupPositions, LocalPositions, Positions
from .process_queue import DEFAULT_LIMITS, FlowLimits
from .queue_locks import QueueLocks
from .queues import PREFETCH_BYTES, PushRules
from .rebalance import Rebalance
from .work import PushWork

log = logging.getLogger(__name__)

LOCK_LOOK_MS: Final = 100  # how often it checks whether locks must be renewed
BEAT_MS: Final = 1_000
BEAT_MS_MIN: Final = 20
CONCURRENCY_MAX: Final = 1024
BATCH_SIZE_MAX: Final = 1024
HANDLERS_MS: Final = 5_000  # how long handlers may take at the end of the program


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """The arguments of PushConsumer, described there; times in seconds. Raises InvalidName, InvalidParameter."""

    group: str
    model: MessageModel = MessageModel.CLUSTERING
    start_from: StartFrom | datetime = LAST
    ordered: bool = False
    concurrency: int = 16
    batch_size: int = 1
    consume_timeout: float = 900.0
    max_attempts: int | None = None
    suspend: float = 1.0
    flow: FlowLimits = DEFAULT_LIMITS
    prefetch_bytes: int = PREFETCH_BYTES
    commit_interval: float = 5.0
    timeout: float = 3.0

    def __post_init__(self) -> None:
        check_group(self.group)
        check_start_from(self.start_from)
        if not isinstance(self.model, MessageModel):
            raise InvalidParameter("model", self.model, "CLUSTERING or BROADCASTING")
        if self.ordered and self.is_broadcasting:
            raise InvalidParameter(
                "ordered", self.ordered, "False when broadcasting: nobody else reads a member's queues"
            )
        if not isinstance(self.flow, FlowLimits):
            raise InvalidParameter("flow", self.flow, "a FlowLimits")
        check_count("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        check_count("batch_size", self.batch_size, 1, BATCH_SIZE_MAX)
        check_count("prefetch_bytes", self.prefetch_bytes, 1, 1 << 40)
        if self.max_attempts is not None:
            check_count("max_attempts", self.max_attempts, 1, 1 << 30)
        for name in ("consume_timeout", "suspend", "commit_interval", "timeout"):
            milliseconds(name, getattr(self, name))

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.model is MessageModel.BROADCASTING

    @property
    def timeout_ms(self) -> int:
        """The timeout of each request to a broker."""
        return milliseconds("timeout", self.timeout)

    @property
    def commit_ms(self) -> int:
        """The time between commits."""
        return milliseconds("commit_interval", self.commit_interval)

    def rules(self) -> PushRules:
        """The settings for the queues."""
        return PushRules(
            limits=self.flow,
            batch_size=self.batch_size,
            is_ordered=self.ordered,
            is_broadcasting=self.is_broadcasting,
            max_attempts=self.max_attempts or 0,
            suspend_ms=milliseconds("suspend", self.suspend),
            consume_timeout_ms=milliseconds("consume_timeout", self.consume_timeout),
        )


class PushMember:
    """The running part of a push consumer, created by its start. Timers run in the I/O thread and do not wait."""

    def __init__(
        self,
        settings: PushSettings,
        handle: Handle,
        counts: ClientCounts,
        *,
        new_waits: Callable[[Connection], Waits],
        namesrv: str | None,
        key: str | None,
        allocation: Allocation,
        room: str | None,
        offsets_path: tuple[str, str],
        traced_in: str | None,
        on_lost: OnLost | None,
        opened: AsyncExitStack,
    ) -> None:
        """`handle`: runs the user's handler. `counts`: what it is counted in.

        `offsets_path`: directory and instance of a broadcasting member's file. `traced_in`: the topic of its traces, None =
        no tracing. `on_lost`: called with lost messages. `opened`: undoes this if the start fails.

        Raises OffsetFileInUse, OffsetFileFailed, StoreFormatError.
        """
        self._settings = settings
        self._is_closing = False
        self._opened = AsyncExitStack()
        opened.push_async_callback(self._opened.aclose)
        self._connection = connect(namesrv, key=key)
        self._waits = new_waits(self._connection)
        self._opened.push_async_callback(release, self._connection, self._waits)
        self._recorder: TraceRecorder | None = None
        if traced_in is not None:
            self._recorder = TraceRecorder(self._connection, settings.group, traced_in)
            self._opened.push_async_callback(self._recorder.close, self._waits)
            handle = traced_handle(self._recorder, handle)
        if (telemetry := current()) is not None:
            model = "broadcasting" if settings.is_broadcasting else "clustering"
            handle = telemetry.handled(settings.group, model, handle)
        handle = counted_handle(counts, settings.group, handle)
        self._client_id = self._connection.new_client_id(room)
        self._retry_topic = None if settings.is_broadcasting or settings.ordered else retry_topic(settings.group)
        self._subscriptions: Mapping[str, Subscription] = {}
        shares = _everything if settings.is_broadcasting else allocation
        self._allocation_name = "" if settings.is_broadcasting else name_of(allocation)
        assignment = Assignment(self._connection, self._waits, settings.group, self._client_id, shares)
        self._locks = (
            QueueLocks(self._connection, self._waits, settings.group, self._client_id) if settings.ordered else None
        )
        self.work = PushWork(
            self._connection,
            self._waits,
            settings.group,
            settings.rules(),
            handle,
            concurrency=settings.concurrency,
            prefetch_bytes=settings.prefetch_bytes,
            timeout_ms=settings.timeout_ms,
            on_queues_lost=self._look_now,
            on_lost=on_lost,
        )
        self._rebalance = Rebalance(
            self._waits,
            self.work,
            assignment,
            self._positions(assignment, *offsets_path),
            self._locks,
            group=settings.group,
            member=self._member,
            subscriptions=lambda: self._subscriptions,
            timeout_ms=settings.timeout_ms,
            save_ms=settings.commit_ms if settings.is_broadcasting else None,
        )

    def _positions(self, assignment: Assignment, directory: str, instance: str) -> Positions:
        settings, start_from = self._settings, self._settings.start_from
        if settings.is_broadcasting:
            file = BroadcastOffsets(directory, settings.group, self._connection.addresses, instance)
            return LocalPositions(
                self._connection, self._waits, assignment, start_from, self._opened.enter_context(file)
            )
        who = self._client_id if settings.ordered else ""
        return GroupPositions(
            self._connection,
            self._waits,
            settings.group,
            assignment,
            start_from,
            self._retry_topic,
            who,
            self.work.on_moved,
        )

    async def begin_topic(self, topic: str, check_usable: Callable[[], None]) -> None:
        """Makes sure that nothing sent to the topic from now on is skipped.

        Raises why not; between tries, what `check_usable` raises.
        """
        await self._rebalance.begin_topic(topic, check_usable)

    def start(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Joins the group and begins."""
        settings, remoting = self._settings, self._connection.remoting
        self._opened.callback(self._connection.routes.watch(self._on_route_changed))
        self._opened.push_async_callback(self._connection.members.leave, self._client_id, self._waits)
        key = program_end.add(self)
        self._opened.callback(program_end.remove, key)
        self._opened.callback(self._begin_nothing)
        self.subscribe(subscriptions)
        self.work.start()
        self._rebalance.start()
        beat_ms = max(BEAT_MS_MIN, min(BEAT_MS, settings.rules().consume_timeout_ms // 2))
        timers = [remoting.every(beat_ms, self.work.on_beat)]
        if not settings.is_broadcasting:
            timers.append(remoting.every(settings.commit_ms, self._commit))
        if self._locks is not None:
            timers.append(remoting.every(LOCK_LOOK_MS, self._renew))
        for timer in timers:
            self._opened.callback(timer.cancel)

    def subscribe(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Consumes these topics from now on."""
        # The retry topic comes last: the broker creates it when it first hears of this member, in a request about another
        # topic.
        retries = {} if self._retry_topic is None else {self._retry_topic: Subscription.parse(self._retry_topic)}
        self._subscriptions = {**subscriptions, **retries}
        self._connection.members.join(self._member(), self._on_members_changed, self._on_offsets_reset)
        self._look_now()

    async def close(self, deadline_ms: int) -> None:
        """Ends everything; what handlers finish before the deadline is committed."""
        self._is_closing = True
        work, settings = self.work, self._settings
        async with self._opened:
            try:
                is_calm = await work.stop(deadline_ms)
            finally:  # also if cancelled or interrupted
                if self._locks is not None and work.is_busy():
                    # A handler is still running: its queues become free when their leases end, not by leaving the group.
                    self._connection.members.forget(self._client_id)
            await self._rebalance.stop(max(deadline_ms, monotonic_ms() + settings.timeout_ms))
            if not is_calm:
                log.warning("closed with handlers that go on group=%s", settings.group)
            await self._rebalance.save(work.uncommitted())
            ours, leaving = work.queues()
            work.revoke(ours | leaving)
            if self._locks is not None and is_calm:
                await self._locks.unlock(sorted(ours | leaving), timeout_ms=settings.timeout_ms)

    def _begin_nothing(self) -> None:
        """Runs at every end, also cancelled or interrupted, before the member leaves: no part of it may join the group
        again.
        """
        self.work.end()
        self._rebalance.end()
        self.work.revoke(set[MessageQueue]().union(*self.work.queues()))

    def trace_statistics(self) -> TraceStatistics | None:
        """The counters; None if tracing is off."""
        return None if self._recorder is None else self._recorder.statistics()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked after the start."""
        return self._connection.is_forked

    def check_process(self) -> None:
        """Raises ClientClosed in a forked child."""
        self._connection.check_process("consumer")

    # ---- the end of the program

    def __repr__(self) -> str:
        return f"PushConsumer(group={self._settings.group!r}, namesrv={self._connection.name_servers!r})"

    def unsent(self) -> int:
        """See `OpenClient`: a consumer sends no messages."""
        return 0

    def send_rest(self, deadline_ms: int) -> None:
        """See `OpenClient`."""

    def end(self, deadline_ms: int) -> Unsent | None:
        """See `OpenClient`. Waits for the handlers as `close` does, unless their event loop is gone."""
        if self._is_closing:
            return None
        goes_on = self._waits.block()
        wait_ms = HANDLERS_MS if goes_on else 0
        run_blocking(self.close(min(deadline_ms, monotonic_ms() + wait_ms)))
        return None

    # ---- events

    def _look_now(self) -> None:
        self._rebalance.look_now()

    def _on_members_changed(self) -> None:
        """In the I/O thread: a queue may go to another member, which begins at the group's committed offset."""
        if not self._settings.is_broadcasting:
            self._commit()
        self._look_now()

    def _on_route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._look_now()

    def _on_offsets_reset(self, reset: OffsetsReset) -> None:
        """In the I/O thread: an operator has reset the group's offsets; consuming continues there."""
        if not self._settings.is_broadcasting:
            self.work.move(moved_queues(reset))

    def _member(self) -> Member:
        subscriptions = tuple(sorted(entry.wire() for entry in self._subscriptions.values()))
        consumer = (self._settings.group, self._settings.model.value, subscriptions)
        return Member(self._client_id, consumer=consumer, allocation=self._allocation_name)

    def _commit(self) -> None:
        """In the I/O thread, by the timer."""
        commit_nowait(
            self._connection,
            self._settings.group,
            self.work.uncommitted(),
            timeout_ms=self._settings.timeout_ms,
            on_done=self._on_committed,
            on_moved=self.work.on_moved,
            client_id=self._client_id if self._settings.ordered else "",
        )

    def _on_committed(self, part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        self._rebalance.on_committed(part, error)
        if error is None:
            return
        log.warning("offsets not committed group=%s error=%s", self._settings.group, error)
        if isinstance(error, QueueNotOwned):
            owned_by_others = (error.topic, error.queue_id)
            self.work.lose([queue for queue, _ in part if (queue.topic, queue.queue_id) == owned_by_others])
        if error.route_stale and part:
            self._connection.routes.refresh_soon(part[0][0].topic)

    def _renew(self) -> None:
        """In the I/O thread, by the timer. Includes the queues that are being given up: a handler still works on them."""
        if self._locks is not None and self._locks.is_renewal_due():
            queues = set[MessageQueue]().union(*self.work.queues())
            self._locks.renew_nowait(queues, timeout_ms=self._settings.timeout_ms, on_locked=self.work.on_leased)


def _everything(_client_id: str, _members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Broadcasting: each member reads all queues."""
    return list(queues)
