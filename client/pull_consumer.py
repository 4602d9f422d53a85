"""The pull consumer: messages are fetched ahead in the background and handed out when the caller asks.

The I/O thread keeps a long poll at every queue that has room; the caller takes what is ready, and while it is there it
also looks whether the group's members or the routes changed and moves queues accordingly. So queues move only
between two polls, never under a caller's hands: what was handed out of a queue is committed before it is given up.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from ..model.clock import monotonic_ms
from ..model.errors import ClientClosed, InvalidParameter, LocalProtocolError, ZenitError
from ..model.names import check_group, check_topic
from ..model.queue import MessageQueue, QueueOffset
from ..model.subscription import Expression, MessageModel, Subscription
from ..remoting.commands import OffsetsReset, PullReply, Reply
from ..store.record_kernel import MessageBatch, StoredMessage, decode_batch
from .allocation import Allocation, allocation_of, name_of
from .connection import Connection, connect, release
from .group_share import GroupShare
from .machine_rooms import check_room
from .membership import Member
from .offset_commits import commit_and_wait, commit_nowait
from .prefetch import PREFETCH_BYTES, PULL_BYTES, Prefetch, Pull
from .pull_calls import PullCalls
from .start_from import LAST, StartFrom, check_start_from
from .trace import PullTrace, TraceRecorder, trace_topic
from .trace_backlog import TraceStatistics
from .waiting import Blocking, Signal, Signals, Waits, blocking, run_blocking

__all__ = ["PullConsumer", "StartFrom"]

log = logging.getLogger(__name__)

REBALANCE_MS: Final = 20_000
REBALANCE_AGAIN_MS: Final = 200  # after one that could not be done
PULL_MESSAGES_MAX: Final = 65_536  # the broker's own bound is lower; bytes are what counts
ALL_READY: Final = 1 << 30
WAIT_MS: Final = 1_000  # how long an iteration waits before it looks whether it is closed

_EMPTY: Final = decode_batch(b"")


class PullCore(ABC):
    """All of a pull consumer but how it waits: `PullConsumer` here does so in the calling thread, the one of
    `zenitmq.aio` on an event loop. What waits is a coroutine with an underscore, given its name by both.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        start_from: StartFrom | datetime = LAST,
        allocation: str | Allocation = "averaging",
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        prefetch_bytes: int = PREFETCH_BYTES,
        pull_bytes: int = PULL_BYTES,
        timeout: float = 3.0,
        trace: bool | str = False,
        room: str | None = None,
    ) -> None:
        """`start_from`: where to begin in a queue without a committed offset. `prefetch_bytes`: what may lie ready.

        `allocation`: how the group shares out queues, by name or as a function (see `allocation`); the same for all
        members. `room`: the machine room it stands in, for allocations that ask.
        `auto_commit`: what was dealt with is committed every `auto_commit_interval` seconds and at close. `timeout`:
        seconds for each question to a broker. `trace`: tell of each message in the trace topic, or in the topic named.
        Raises InvalidName or InvalidParameter. Connects at the first poll.
        """
        self.group = check_group(group)
        self._start_from = check_start_from(start_from)
        if not 64 * 1024 <= pull_bytes <= 16 * 1024 * 1024:
            raise InvalidParameter("pull_bytes", pull_bytes, "65536 to 16777216")
        if prefetch_bytes < pull_bytes:
            raise InvalidParameter("prefetch_bytes", prefetch_bytes, f"at least pull_bytes, {pull_bytes}")
        if not auto_commit_interval > 0:
            raise InvalidParameter("auto_commit_interval", auto_commit_interval, "seconds, more than 0")
        self._timeout_ms = max(1, round(timeout * 1000))
        self._auto_commit = auto_commit
        self._lock = threading.Lock()  # prefetch and what is iterated; never held while sending
        self._arrivals = Signals()  # under the lock
        self._moving = threading.Lock()  # held by the one who moves queues
        self._prefetch = Prefetch(prefetch_bytes, pull_bytes)
        self._subscriptions: dict[str, Subscription] = {}
        self._assigned: dict[MessageQueue, Subscription] | None = None
        self._is_stale = True  # queues must be looked at again
        self._look_again_ms = 0
        self._iterated: tuple[MessageQueue, MessageBatch] | None = None
        self._current: StoredMessage | None = None
        self._failure: ZenitError | None = None
        self._failing: set[MessageQueue] = set()  # whose last pull failed
        self._is_closed = False
        allocate = allocation_of(allocation)
        traced_in = trace_topic(trace)
        self._allocation_name = name_of(allocate)
        own_room = None if room is None else check_room(room)
        self._connection = connect(namesrv)
        self._recorder = TraceRecorder(self._connection, group, traced_in) if traced_in is not None else None
        self._trace = PullTrace(self._recorder) if self._recorder is not None else None
        self._remoting = self._connection.remoting
        self._waits = self._new_waits(self._connection)
        self._client_id = self._connection.new_client_id(own_room)
        self._pulls = PullCalls(self._connection, group, PULL_MESSAGES_MAX, self._on_pulled)
        self._share = GroupShare(self._connection, self._waits, group, self._client_id, allocate)
        self._unwatch = self._connection.routes.watch(self._on_route_changed)
        self._committer = (
            self._remoting.every(max(1, round(auto_commit_interval * 1000)), self._commit_settled)
            if auto_commit
            else None
        )

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """How it waits."""

    # ---- what to read

    def subscribe(self, topic: str, expression: Expression = None) -> None:
        """Joins the group for a topic: its queues are shared out among the members.

        `expression`: tags as "a || b", None = all, or Sql("..."), evaluated at the broker. Raises InvalidParameter.
        """
        self._check_usable()
        if self._assigned is not None:
            raise LocalProtocolError("subscribe after assign: a consumer does one or the other")
        subscription = Subscription.parse(check_topic(topic), expression)
        with self._lock:
            self._subscriptions[topic] = subscription
        self._connection.members.join(self._member(), self._on_members_changed, self._on_offsets_reset)
        self._share.forget_announcements()
        self._look_now()

    async def _begin_topic(self, topic: str) -> None:
        """Has the brokers record where the group begins; where that fails, the first look does it, or raises why not."""
        if not self._moving.acquire(blocking=False):
            return  # a look is under way, and does it
        try:
            await self._share.start(topic, self._start_from, timeout_ms=self._timeout_ms)
        except ZenitError as error:
            log.info("not begun yet group=%s topic=%s error=%s", self.group, topic, error)
        finally:
            self._moving.release()

    def unsubscribe(self, topic: str) -> None:
        """Leaves a topic; its queues are given up at the next poll."""
        self._check_usable()
        with self._lock:
            self._subscriptions.pop(topic, None)
        self._connection.members.join(self._member(), self._on_members_changed, self._on_offsets_reset)
        self._share.forget_announcements()
        self._look_now()

    def assign(self, queues: Sequence[MessageQueue], expression: Expression = None) -> None:
        """Reads exactly these queues, whoever else does; offsets are the group's all the same."""
        self._check_usable()
        if self._subscriptions:
            raise LocalProtocolError("assign after subscribe: a consumer does one or the other")
        self._assigned = {queue: Subscription.parse(check_topic(queue.topic), expression) for queue in queues}
        self._look_now()

    async def _assignment(self) -> list[MessageQueue]:
        """The queues that are this consumer's now, sorted. Looks first where that is due."""
        await self._move_queues_if_due()
        with self._lock:
            return self._prefetch.queues()

    # ---- reading

    async def _poll(self, max_messages: int = 1000, timeout: float = 1.0) -> MessageBatch:
        """Up to `max_messages` messages of one queue; an empty batch where none come within `timeout` seconds.

        Raises ClientClosed, what keeps the queues from being known (TopicNotFound, ...), and CorruptRecordError where
        an answer cannot be decoded: `seek` past it to go on.
        """
        if max_messages < 1:
            raise InvalidParameter("max_messages", max_messages, "at least 1")
        taken = await self._next(max_messages, monotonic_ms() + max(0, round(timeout * 1000)), is_iterated=False)
        return _EMPTY if taken is None else taken[1]

    async def _next_to_iterate(self) -> tuple[MessageQueue, MessageBatch] | None:
        """What is ready next, however long that takes; None once the consumer is closed."""
        while not self._is_closed:
            try:
                taken = await self._next(ALL_READY, monotonic_ms() + WAIT_MS, is_iterated=True)
            except ClientClosed:
                if self._is_closed:
                    return None  # by somebody else, just now
                raise
            if taken is not None:
                return taken
        return None

    async def _next(
        self, max_messages: int, deadline_ms: int, *, is_iterated: bool
    ) -> tuple[MessageQueue, MessageBatch] | None:
        self._check_usable()
        with self._lock:
            self._end_iteration()
            self._prefetch.settle()
            if self._trace is not None:
                self._trace.on_done()
        while True:
            await self._move_queues_if_due()
            now = monotonic_ms()
            arrival: Signal | None = None
            with self._lock:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                taken = self._prefetch.take(max_messages)
                if is_iterated:
                    self._iterated, self._current = taken, None
                if self._trace is not None and taken is not None:
                    self._trace.on_handed(taken[1])
                pulls = self._prefetch.due(now)
                if taken is None and not pulls:
                    if now >= deadline_ms or self._is_closed:
                        return None
                    until_ms = min(deadline_ms, self._look_again_ms, self._prefetch.next_due_ms() or deadline_ms)
                    arrival = self._arrivals.add(self._waits.new_signal())
            if arrival is not None:
                await self._wait_for(arrival, max(1, until_ms - now))
            for pull in pulls:
                self._pulls.send(pull)
            if taken is not None:
                return taken

    async def _wait_for(self, arrival: Signal, timeout_ms: int) -> None:
        try:
            await arrival.wait(timeout_ms)
        finally:
            with self._lock:
                self._arrivals.discard(arrival)

    def _end_iteration(self, *, is_ok: bool = True) -> None:
        """Under the lock: what the iteration did not hand on is ready again, first in its queue."""
        if self._iterated is None:
            return
        (queue, batch), self._iterated = self._iterated, None
        begin, settled = 0, None
        if self._current is not None:
            settled = int(self._current.queue_offset)
            begin = bisect_right(batch, settled, key=lambda message: message.queue_offset)
        if self._trace is not None:
            self._trace.on_done(count=begin, is_ok=is_ok)
        self._prefetch.put_back(queue, batch.slice(begin, len(batch)), settled=settled)

    # ---- fetching ahead

    def _on_pulled(self, pull: Pull, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        """In the thread that got the reply."""
        now = monotonic_ms()
        moved = None
        is_first = is_over = False
        with self._lock:
            if isinstance(reply, PullReply):
                moved = self._prefetch.on_reply(pull, reply, payload, now)
                if self._failing and pull.queue in self._failing:
                    self._failing.discard(pull.queue)
                    is_over = True
            elif self._prefetch.on_error(pull, now):
                is_first = pull.queue not in self._failing
                self._failing.add(pull.queue)
                if error is not None and not error.retriable:
                    self._failure = error
            pulls = self._prefetch.due(now)
            next_due_ms = self._prefetch.next_due_ms()
            self._arrivals.set_all()
        if moved is not None:
            log.warning(
                "offset moved queue=%s status=%s from=%d to=%d",
                moved.queue,
                moved.status.name,
                moved.from_offset,
                moved.to_offset,
            )
        if is_first:
            log.warning("pulls fail group=%s queue=%s error=%s", self.group, pull.queue, error)
        elif is_over:
            log.info("pulls succeed again group=%s queue=%s", self.group, pull.queue)
        for due in pulls:
            self._pulls.send(due)
        if next_due_ms is not None and not self._is_closed:
            self._remoting.call_later(max(1, next_due_ms - now), self._pull_more)

    def _pull_more(self) -> None:
        """In the I/O thread: a queue's pause may be over."""
        with self._lock:
            pulls = [] if self._is_closed else self._prefetch.due(monotonic_ms())
        for pull in pulls:
            self._pulls.send(pull)

    # ---- which queues

    def _look_now(self) -> None:
        """The members, the routes or the wishes changed: the next poll looks."""
        with self._lock:
            self._is_stale = True
            self._look_again_ms = 0
            self._arrivals.set_all()

    def _on_members_changed(self) -> None:
        """In the I/O thread: a queue may go to another member, who begins where we have committed."""
        self._look_now()
        if self._auto_commit:
            self._commit_settled()

    def _on_route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._look_now()

    async def _move_queues_if_due(self) -> None:
        """By the one who polls. Raises what keeps the first look from succeeding; later looks log it and try again."""
        if not self._is_stale and (self._assigned is not None or monotonic_ms() < self._look_again_ms):
            return
        if not self._moving.acquire(blocking=False):
            return  # somebody else is at it
        is_done = False
        try:
            self._is_stale = False
            await self._move_queues()
            is_done = True
        except ZenitError as error:
            with self._lock:
                is_first = not self._prefetch.queues()
                self._is_stale = True
                self._look_again_ms = monotonic_ms() + REBALANCE_AGAIN_MS
            if is_first or not error.retriable:
                raise
            log.warning("queues stay as they are group=%s error=%s", self.group, error)
            self._is_stale = False
            is_done = True
        finally:
            if not is_done:
                self._is_stale = True  # cancelled or interrupted halfway as well
            self._moving.release()

    async def _move_queues(self) -> None:
        wanted: dict[MessageQueue, Subscription]
        is_known = True
        if self._assigned is not None:
            wanted = dict(self._assigned)
        else:
            with self._lock:
                subscriptions = dict(self._subscriptions)
            mine, is_known = await self._share.queues_of(
                sorted(subscriptions), self._member(), timeout_ms=self._timeout_ms
            )
            wanted = {queue: subscriptions[queue.topic] for queue in mine}
        if not is_known:
            self._share.forget_announcements()
        self._look_again_ms = monotonic_ms() + (REBALANCE_MS if is_known else REBALANCE_AGAIN_MS)
        with self._lock:
            current = set(self._prefetch.queues())
            for queue in current & wanted.keys():
                self._prefetch.resubscribe(queue, wanted[queue])
        lost = current - wanted.keys()
        if lost:
            await self._give_up(lost)
        gained = sorted(wanted.keys() - current)
        if gained and self._assigned is None:
            await self._share.wait_for_fellows()
        for queue in gained:
            await self._begin(queue, wanted[queue])
        if lost or gained:
            log.info("queues changed group=%s queues=%s", self.group, sorted(map(str, wanted)))

    async def _give_up(self, lost: set[MessageQueue]) -> None:
        """Commits what was handed out of these queues, then drops them."""
        with self._lock:
            offsets = {q: offset for q, offset in self._prefetch.uncommitted(handed=True).items() if q in lost}
        if self._auto_commit and offsets:
            try:
                await self._commit_and_wait(offsets, self._timeout_ms, forward_only=self._assigned is None)
            except ZenitError as error:
                log.warning("not committed before giving up group=%s error=%s", self.group, error)
        with self._lock:
            for queue in lost:
                self._prefetch.revoke(queue)
            self._failing -= lost

    async def _begin(self, queue: MessageQueue, subscription: Subscription) -> None:
        if self._assigned is None:
            offset = committed = await self._share.begin_offset(queue, self._start_from, timeout_ms=self._timeout_ms)
        else:
            offset = committed = await self._share.committed_offset(queue, timeout_ms=self._timeout_ms)
            if committed < 0:
                offset = await self._share.start_offset(queue, self._start_from, timeout_ms=self._timeout_ms)
        with self._lock:
            self._prefetch.assign(queue, offset, committed=committed, subscription=subscription)

    def _member(self) -> Member:
        subscriptions = tuple(sorted(s.wire() for s in self._subscriptions.values()))
        consumer = (self.group, MessageModel.CLUSTERING.value, subscriptions)
        return Member(self._client_id, consumer=consumer, allocation=self._allocation_name)

    # ---- positions

    async def _commit(self, timeout: float | None = None) -> None:
        """Commits everything handed out so far, the message at hand included, and waits until the brokers have it.

        Raises why a broker did not take it.
        """
        self._check_usable()
        with self._lock:
            offsets = self._offsets(handed=True)
        await self._commit_and_wait(offsets, self._timeout_ms if timeout is None else max(1, round(timeout * 1000)))

    async def _committed(self, queue: MessageQueue) -> QueueOffset | None:
        """What the group has committed in a queue as the broker has it; None = nothing."""
        self._check_usable()
        offset = await self._share.committed_offset(queue, timeout_ms=self._timeout_ms)
        return None if offset < 0 else QueueOffset(offset)

    async def _position(self, queue: MessageQueue) -> QueueOffset:
        """The offset that is handed out next. Raises InvalidParameter for a queue that is not this consumer's."""
        await self._move_queues_if_due()
        with self._lock:
            position = self._prefetch.position(queue)
            if position is not None and self._iterated is not None and self._iterated[0] == queue:
                position = QueueOffset(self._iterated_offset(handed=True))
        if position is None:
            raise _not_assigned(queue)
        return position

    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at `offset` in a queue; an offset outside of what the broker holds is moved into it, with a warning."""
        if offset < 0:
            raise InvalidParameter("offset", offset, "0 or more")
        await self._move_queues_if_due()
        with self._lock:
            self._end_iteration()
            is_assigned = self._prefetch.seek(queue, offset)
        if not is_assigned:
            raise _not_assigned(queue)
        self._pull_more()

    async def _seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        """Goes on at the first message stored at or after `moment`."""
        offset = await self._share.start_offset(queue, check_start_from(moment), timeout_ms=self._timeout_ms)
        await self._seek(queue, offset)

    def _on_offsets_reset(self, reset: OffsetsReset) -> None:
        """In the I/O thread: an operator moved the group. Goes on there, and commits that behind any commit under way."""
        moved = {MessageQueue(reset.topic, reset.broker_name, queue_id): offset for queue_id, offset in reset.offsets}
        with self._lock:
            self._end_iteration()
            moved = {queue: offset for queue, offset in moved.items() if self._prefetch.seek(queue, offset)}
            self._arrivals.set_all()
        if moved:
            log.warning("an operator moved the group group=%s queues=%s", self.group, sorted(map(str, moved)))
            commit_nowait(
                self._connection, self.group, moved, timeout_ms=self._timeout_ms, on_done=self._on_commit_done
            )
            self._pull_more()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hands nothing out of these queues until `resume`; what was fetched of them stays."""
        with self._lock:
            self._prefetch.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Ends `pause`."""
        with self._lock:
            self._prefetch.resume(queues)
            self._arrivals.set_all()
        self._pull_more()

    def _iterated_offset(self, *, handed: bool) -> int:
        """Under the lock, while a batch is iterated: behind the message at hand (`handed`), or at it."""
        if self._iterated is None:
            raise LocalProtocolError("nothing is iterated")
        if self._current is None:
            return int(self._iterated[1][0].queue_offset)
        return int(self._current.queue_offset) + handed

    def _offsets(self, *, handed: bool) -> dict[MessageQueue, int]:
        """Under the lock: what may be committed."""
        offsets = self._prefetch.uncommitted(handed=handed)
        if self._iterated is not None:
            offsets[self._iterated[0]] = self._iterated_offset(handed=handed)
        return offsets

    def _commit_settled(self) -> None:
        """In the I/O thread, by the timer."""
        with self._lock:
            offsets = {} if self._is_closed else self._offsets(handed=False)
        commit_nowait(
            self._connection,
            self.group,
            offsets,
            timeout_ms=self._timeout_ms,
            on_done=self._on_commit_done,
            forward_only=self._may_have_lost_queues(),
        )

    def _may_have_lost_queues(self) -> bool:
        """The members or routes changed, and what that means for this one is not known yet."""
        return self._is_stale and self._assigned is None

    async def _commit_and_wait(
        self, offsets: dict[MessageQueue, int], timeout_ms: int, *, forward_only: bool = False
    ) -> None:
        await commit_and_wait(
            self._connection,
            self._waits,
            self.group,
            offsets,
            timeout_ms=timeout_ms,
            on_done=self._on_commit_done,
            forward_only=forward_only or self._may_have_lost_queues(),
        )

    def _on_commit_done(self, part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        if error is not None:
            log.warning("offsets not committed group=%s error=%s", self.group, error)
            return
        with self._lock:
            self._prefetch.on_committed(part)

    # ---- the end

    async def _close(self) -> None:
        """Commits what was handed out (unless `auto_commit` is off) and leaves the group. Idempotent, bounded by `timeout`."""
        await self._end(handed=True)

    async def _end(self, *, handed: bool) -> None:
        with self._lock:
            already, self._is_closed = self._is_closed, True
            self._end_iteration(is_ok=handed)
            if self._trace is not None:
                self._trace.on_done(is_ok=handed)
            offsets = self._prefetch.uncommitted(handed=handed)
            self._arrivals.set_all()
        if already:
            return
        try:
            if self._auto_commit and offsets:
                await self._commit_and_wait(offsets, self._timeout_ms)
        except ZenitError as error:
            log.warning("not committed at close group=%s error=%s", self.group, error)
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        if self._committer is not None:
            self._committer.cancel()
        self._unwatch()
        try:
            await self._connection.members.leave(self._client_id, self._waits)
        finally:
            with self._lock:
                for queue in self._prefetch.queues():
                    self._prefetch.revoke(queue)
            try:
                if self._recorder is not None:
                    await self._recorder.close(self._waits)
            finally:
                await release(self._connection, self._waits)

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored, were dropped; None where nothing is traced."""
        return None if self._recorder is None else self._recorder.statistics()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosed("consumer")
        self._connection.check_process("consumer")


class PullConsumer(PullCore):
    """Reads topics as a member of a group (`subscribe`), or given queues on its own (`assign`).

    One thread polls; any other may commit, seek, pause, resume or close meanwhile.
    """

    assignment = blocking(PullCore._assignment)
    poll = blocking(PullCore._poll)
    commit = blocking(PullCore._commit)
    committed = blocking(PullCore._committed)
    position = blocking(PullCore._position)
    seek = blocking(PullCore._seek)
    seek_to_time = blocking(PullCore._seek_to_time)
    close = blocking(PullCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def subscribe(self, topic: str, expression: Expression = None) -> None:
        """Joins the group for a topic: its queues are shared out among the members. `expression`: "a || b", None = all.

        Where the group begins is recorded now, so that nothing sent after this is skipped; where that cannot be done within
        `timeout`, the first poll does it, or raises why not.
        """
        super().subscribe(topic, expression)
        run_blocking(self._begin_topic(topic))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception only what was dealt with before is committed: the messages at hand come again."""
        run_blocking(self._end(handed=error is None))

    def __iter__(self) -> Iterator[StoredMessage]:
        """Message by message, waiting for more until the consumer is closed. What `poll` raises, this raises."""
        self._check_usable()
        while (taken := run_blocking(self._next_to_iterate())) is not None:
            try:
                for message in taken[1]:
                    self._current = message
                    yield message
                    if self._iterated is not taken:
                        break  # a poll or seek in between took the rest
            finally:
                with self._lock:
                    if self._iterated is taken:
                        self._end_iteration()


def _not_assigned(queue: MessageQueue) -> InvalidParameter:
    return InvalidParameter("queue", queue, "a queue of this consumer's assignment")
