"""The pull consumer: messages are fetched ahead in the background and handed out when the caller asks.

The I/O thread keeps a long poll at every queue that has room (pull/work). The caller takes what is ready; in the same call
it checks whether the group's members or the routes have changed, and moves queues accordingly (pull/rebalance). Messages
handed out are committed by a timer and at the end (pull/commits).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self
from weakref import finalize

from ..model.clock import monotonic_ms, monotonic_ns
from ..model.errors import ClientClosed, InvalidParameter, LocalProtocolError, ZenitError
from ..model.names import check_group
from ..model.queue import MessageQueue, QueueOffset
from ..model.subscription import Expression, subscriptions_of
from ..record.kernel import MessageBatch, StoredMessage, decode_batch
from .client_counts import ClientCounts
from .connection.argument_checks import check_count, milliseconds, wait_milliseconds
from .connection.connection import Connection, client_repr, connect
from .connection.waiting import Blocking, Waits, blocking, run_blocking
from .consuming.allocation import Allocation, allocation_of, name_of
from .consuming.assignment import Assignment
from .consuming.losses import OnLost
from .consuming.machine_rooms import check_room
from .consuming.prefetch import PREFETCH_BYTES, PULL_BYTES, PULL_BYTES_MIN
from .consuming.pull.commits import PullCommits
from .consuming.pull.end import PullEnd
from .consuming.pull.rebalance import PullRebalance
from .consuming.pull.work import PullWork, Taken
from .consuming.start_from import LAST, StartFrom, check_start_from
from .tracing.client_telemetry import current
from .tracing.trace import PullTrace, TraceRecorder, trace_topic
from .tracing.trace_backlog import TraceStatistics

__all__ = ["PullConsumer", "StartFrom"]

ALL_READY: Final = 1 << 30
PULL_BYTES_MAX: Final = 16 * 1024 * 1024
PREFETCH_BYTES_MAX: Final = 1 << 40
OFFSET_MAX: Final = (1 << 63) - 1
WAIT_MS: Final = 1_000  # how long an iteration waits before it checks whether the consumer is closed

_EMPTY: Final = decode_batch(b"")


class PullCore(ABC):
    """A pull consumer without its way of waiting.

    `PullConsumer` below waits in the calling thread, the one in `zenitmq.aio` on an event loop. Methods that wait are
    coroutines whose names begin with an underscore; both classes give them their public names.
    """

    def __init__(
        self,
        group: str | None,
        *,
        namesrv: str | None = None,
        key: str | None = None,
        start_from: StartFrom | datetime = LAST,
        allocation: str | Allocation = "averaging",
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        prefetch_bytes: int = PREFETCH_BYTES,
        pull_bytes: int = PULL_BYTES,
        timeout: float = 3.0,
        trace: bool | str = False,
        room: str | None = None,
        on_lost: OnLost | None = None,
    ) -> None:
        """`group` None: a viewer, which reads the queues that it is given (`assign`) and commits nothing.

        `start_from`: where to begin in a queue without a committed offset.
        `prefetch_bytes`: how much may lie ready. Each queue has its share, but at least one answer (`pull_bytes`, with many
        queues 64 KiB, or one message that is larger). `pull_bytes`: the largest size of one answer, 64 KiB to 16 MiB.
        `allocation`: how the group shares out its queues, the same for all members: "averaging", "averaging_by_circle",
        "consistent_hash", or a function such as `consistent_hash(64)` returns. `room`: this consumer's machine room, for
        allocations that use it. `namesrv`, `key`: as for a Producer. `auto_commit`: finished messages are committed every
        `auto_commit_interval` seconds and at close. `timeout`: seconds for each request to a broker. `trace`: write a
        record of each message to the trace topic, or to the topic named. `on_lost`: called with a `MessagesLost` for
        messages whose bytes are damaged at the broker and lost for good; reading continues behind them. It runs in the I/O
        thread when they are fetched, and must not block.

        Raises InvalidName or InvalidParameter. Connects at the first poll."""
        self.group, name = group, _checked_name(group, trace=bool(trace))
        auto_commit = auto_commit and group is not None
        start = check_start_from(start_from)
        _check_bytes(prefetch_bytes, pull_bytes)
        interval_ms = milliseconds("auto_commit_interval", auto_commit_interval)
        self._timeout_ms = milliseconds("timeout", timeout)
        allocate = allocation_of(allocation)
        traced_in = trace_topic(trace)
        own_room = None if room is None else check_room(room)
        connection = self._connection = connect(namesrv, key=key)
        self._recorder = TraceRecorder(connection, name, traced_in) if traced_in is not None else None
        self._waits = self._new_waits(connection)
        self._client_id = connection.new_client_id(own_room)
        self._work = self._new_work(prefetch_bytes, pull_bytes, on_lost)
        self._group_assignment = Assignment(connection, self._waits, name, self._client_id, allocate)
        self._commits = PullCommits(
            connection,
            self._waits,
            self._work,
            name,
            timeout_ms=self._timeout_ms,
            on_moved=lambda queues: rebalance.on_moved(queues),
        )
        rebalance = self._rebalance = PullRebalance(
            connection,
            self._work,
            self._group_assignment,
            self._commits,
            group=name,
            client_id=self._client_id,
            allocation=name_of(allocate),
            start_from=start,
            auto_commit=auto_commit,
            timeout_ms=self._timeout_ms,
        )
        self._end = PullEnd(
            connection,
            self._waits,
            self._work,
            self._commits,
            self._recorder,
            group=name,
            client_id=self._client_id,
            auto_commit=auto_commit,
            committer=connection.remoting.every(interval_ms, self._commits.send_settled) if auto_commit else None,
            unwatch=connection.routes.watch(self._rebalance.on_route_changed),
        )
        self._check_usable = self._end.check_usable
        finalize(self, self._end.on_dropped).atexit = False

    @property
    def counts(self) -> ClientCounts:
        """What it has counted, for `metrics_collector`."""
        return self._work.counts

    def _new_work(self, prefetch_bytes: int, pull_bytes: int, on_lost: OnLost | None) -> PullWork:
        self._telemetry = current()
        return PullWork(
            self._connection,
            self._waits,
            self.group or "",
            prefetch_bytes=prefetch_bytes,
            pull_bytes=pull_bytes,
            trace=PullTrace(self._recorder) if self._recorder is not None else None,
            on_lost=on_lost,
        )

    def __repr__(self) -> str:
        state = "closed" if self._work.is_closed else ""
        return client_repr(self, state, group=self.group, namesrv=self._connection.name_servers)

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """The way of waiting."""

    def _check_group(self, call: str) -> None:
        if self.group is None:
            raise LocalProtocolError(f"{call} needs a group: PullConsumer(None) reads the queues of assign(...)")

    # ---- what to read

    def subscribe(self, topic: str | Sequence[str], expression: Expression = None) -> None:
        """Joins the group for one topic or several; their queues are shared out among the members.

        `expression`: tags as "a || b", None = all, or Sql("..."), evaluated at the broker; the same for all topics given.
        Raises InvalidName, InvalidParameter; LocalProtocolError without a group.
        """
        self._check_usable()
        self._check_group("subscribe")
        self._rebalance.subscribe(subscriptions_of(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Leaves a topic; its queues are given up at the next poll."""
        self._check_usable()
        self._rebalance.unsubscribe(topic)

    def assign(self, queues: Sequence[MessageQueue], expression: Expression = None) -> None:
        """Reads exactly these queues, whoever else reads them; offsets are the group's all the same, if there is one."""
        self._check_usable()
        self._rebalance.assign(queues, expression)

    async def _assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now, sorted. Rebalances first if that is due."""
        await self._look()
        return self._work.queues()

    async def _look(self) -> None:
        """Moves queues if that is due. Raises why there are none yet."""
        await self._rebalance.move_if_due()
        if self._rebalance.waits_for is not None and not self._work.queues():
            raise self._rebalance.waits_for

    @property
    def waits_for(self) -> ZenitError | None:
        """What prevents messages from coming at present but is expected to pass, as of the last poll or pull; else None."""
        return self._rebalance.waits_for or self._work.waits_for()

    # ---- reading

    async def _poll(self, max_messages: int = 1000, timeout: float = 1.0) -> MessageBatch:
        """Up to `max_messages` messages of one queue; an empty batch if none come within `timeout` seconds.

        While no broker serves its topics, answers, or gives out their messages, it waits as if none came (`waits_for` tells
        why). Raises ClientClosed, the reason why the queues cannot be known (TopicNotFound, ...), and CorruptRecordError if
        an answer cannot be decoded; `seek` past it to continue.
        """
        check_count("max_messages", max_messages, 1, ALL_READY)
        deadline_ms = monotonic_ms() + wait_milliseconds("timeout", timeout)
        taken = await self._next(max_messages, deadline_ms, is_iterated=False)
        return _EMPTY if taken is None else taken[1]

    async def _next_to_iterate(self) -> Taken | None:
        """What is ready next, however long that takes; None once the consumer is closed."""
        while not self._work.is_closed:
            try:
                taken = await self._next(ALL_READY, monotonic_ms() + WAIT_MS, is_iterated=True)
            except ClientClosed:
                if self._work.is_closed:
                    return None  # by another thread, just now
                raise
            if taken is not None:
                return taken
        return None

    async def _next(self, max_messages: int, deadline_ms: int, *, is_iterated: bool) -> Taken | None:
        self._work.taking = None
        begun_ns = 0 if self._telemetry is None else monotonic_ns()
        try:
            taken = await self._wait_next(max_messages, deadline_ms, is_iterated=is_iterated)
            if self._telemetry is not None and taken is not None:
                self._telemetry.on_received(self.group or "", taken[1], begun_ns)
            return taken
        except ZenitError:
            raise
        except BaseException as error:
            if not self._waits.is_end(error):  # else cancelled while waiting: nothing was taken, and its pulls continue
                self._work.put_back()  # a signal handler raised, perhaps after they were taken: the next poll returns them
            raise

    async def _wait_next(self, max_messages: int, deadline_ms: int, *, is_iterated: bool) -> Taken | None:
        self._check_usable()
        if not self._rebalance.is_begun:
            raise LocalProtocolError("nothing to read: subscribe(topic) or assign(queues) first")
        self._work.come_back()
        while True:
            seen = self._work.changes  # read first: any later change ends the wait below
            await self._rebalance.move_if_due()
            taken = self._work.take(max_messages, is_iterated=is_iterated)
            if taken is not None:
                return taken
            if self._work.is_closed or monotonic_ms() >= deadline_ms:
                return None
            await self._work.wait_change(seen, min(deadline_ms, self._rebalance.look_again_ms))

    # ---- positions

    async def _commit(self, timeout: float | None = None) -> None:
        """Commits everything handed out so far, including the current message, and waits until the brokers have it.

        All of it counts as finished from here on. Raises why a broker did not take it; it is then sent again with the next
        automatic commit. Raises LocalProtocolError without a group.
        """
        self._check_usable()
        self._check_group("commit")
        timeout_ms = None if timeout is None else milliseconds("timeout", timeout)
        await self._commits.commit(self._work.settle_handed(), timeout_ms=timeout_ms)

    async def _committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's committed offset in a queue, as the broker has it; None = nothing.

        Raises why the broker cannot be asked; LocalProtocolError without a group.
        """
        self._check_usable()
        self._check_group("committed")
        offset, _ = await self._group_assignment.committed_offset(queue, timeout_ms=self._timeout_ms)
        return None if offset < 0 else QueueOffset(offset)

    async def _position(self, queue: MessageQueue) -> QueueOffset:
        """The offset that is handed out next. Raises InvalidParameter for a queue that is not assigned to this consumer."""
        await self._look()
        position = self._work.position(queue)
        if position is None:
            raise _not_assigned(queue)
        return position

    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at `offset` in a queue; an offset outside of what the broker holds is moved into it, with a warning.

        Raises InvalidParameter for a queue that is not assigned to this consumer.
        """
        check_count("offset", offset, 0, OFFSET_MAX)
        await self._look()
        if not self._work.seek(queue, offset):
            raise _not_assigned(queue)

    async def _seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        """Continues at the first message stored at or after `moment`, which needs a time zone.

        Raises as `seek` does, and why the broker cannot be asked.
        """
        offset = await self._group_assignment.start_offset(queue, check_start_from(moment), timeout_ms=self._timeout_ms)
        await self._seek(queue, offset)

    @property
    def messages_lost(self) -> int:
        """How many messages have been skipped because their bytes are damaged at the broker and lost for good."""
        return self._work.losses.count

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hands nothing out from these queues until `resume`; what was fetched of them stays."""
        self._work.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Ends `pause`."""
        self._work.resume(queues)

    # ---- the end

    async def _close(self) -> None:
        """Commits what was handed out (unless `auto_commit` is off) and leaves the group.

        Idempotent, bounded by `timeout`. Does nothing in a forked child.
        """
        await self._end.close(handed=True)

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored and were dropped; None if tracing is off."""
        return None if self._recorder is None else self._recorder.statistics()


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

    def subscribe(self, topic: str | Sequence[str], expression: Expression = None) -> None:
        """Joins the group for one topic or several; their queues are shared out among the members.

        `expression`: tags as "a || b", None = all, or Sql("..."); the same for all topics given. Where the group begins is
        recorded now, so that nothing sent after this is skipped. If that is not possible within `timeout`, the first poll
        does it, or raises why not. Raises InvalidName, InvalidParameter.
        """
        super().subscribe(topic, expression)
        for each in [topic] if isinstance(topic, str) else topic:
            run_blocking(self._rebalance.begin_topic(each))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, only messages finished before it are committed; the current ones come again."""
        run_blocking(self._end.close(handed=error is None))

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yields message by message and waits for more until the consumer is closed. Raises what `poll` raises."""
        self._check_usable()
        work = self._work
        while (taken := run_blocking(self._next_to_iterate())) is not None:
            try:
                for message in taken[1]:
                    work.current = message
                    yield message
                    if work.iterated is not taken:
                        break  # a poll or seek in between took the rest
            finally:
                work.end_iteration(taken)


def _checked_name(group: str | None, *, trace: bool) -> str:
    """The group's name; on the wire "" is no group. Raises InvalidName, InvalidParameter."""
    if group is None and trace:
        raise InvalidParameter("trace", trace, "False without a group: traces are of groups")
    return "" if group is None else check_group(group)


def _check_bytes(prefetch_bytes: int, pull_bytes: int) -> None:
    """Raises InvalidParameter."""
    check_count("pull_bytes", pull_bytes, PULL_BYTES_MIN, PULL_BYTES_MAX)
    if check_count("prefetch_bytes", prefetch_bytes, PULL_BYTES_MIN, PREFETCH_BYTES_MAX) < pull_bytes:
        raise InvalidParameter("prefetch_bytes", prefetch_bytes, f"at least pull_bytes, {pull_bytes}")


def _not_assigned(queue: MessageQueue) -> InvalidParameter:
    return InvalidParameter("queue", queue, "a queue of this consumer's assignment")
