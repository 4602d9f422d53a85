"""The push consumer: it calls a handler with the messages of its topics, in its own threads.

The queues of a topic are shared out among the members of a group (clustering), or each member gets all of them
(broadcasting). Concurrent: a handler gets messages as they come; failed ones come again later through the group's retry
topic. Ordered: the messages of one queue are handled one after the other, under a lock of the broker.

A message is handled at least once: it may come again after a crash, a lost reply or a move of its queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from threading import get_ident
from typing import ClassVar, Generic, Self, TypeVar

from ..model.clock import monotonic_ms
from ..model.errors import ClientClosed, InvalidParameter, LocalProtocolError, WaitsForItself, WrongAnswer
from ..model.names import RETRY_PREFIX
from ..model.queue import MessageQueue
from ..model.subscription import Expression, MessageModel, Subscription, subscriptions_of
from ..record.kernel import StoredMessage
from .client_counts import ClientCounts
from .connection.argument_checks import wait_milliseconds
from .connection.connection import Connection, client_repr
from .connection.waiting import Blocking, Lock, ThreadLock, Waits, blocking
from .consuming.allocation import Allocation, allocation_of
from .consuming.losses import OnLost
from .consuming.machine_rooms import check_room
from .consuming.push.broadcast_offsets import check_instance, default_directory
from .consuming.push.handler_pool import ConsumeResult, Handler, check_handler, checked_answer
from .consuming.push.member import PushMember, PushSettings
from .consuming.push.process_queue import DEFAULT_LIMITS, FlowLimits
from .consuming.push.queues import PREFETCH_BYTES
from .consuming.push.work import PushStatistics
from .consuming.start_from import LAST, StartFrom
from .tracing.trace import trace_topic
from .tracing.trace_backlog import TraceStatistics

__all__ = ["ConsumeResult", "PushConsumer"]

_NOTHING_YET = PushStatistics(0, 0, 0, 0, 0, 0, 0)

H = TypeVar("H", bound=Callable[..., object])


class PushCore(ABC, Generic[H]):
    """A push consumer without its way of waiting and of running its handler.

    `PushConsumer` below does both in threads, the one in `zenitmq.aio` on an event loop. Methods that wait are coroutines
    whose names begin with an underscore; both classes give them their public names.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        key: str | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        start_from: StartFrom | datetime = LAST,
        allocation: str | Allocation = "averaging",
        ordered: bool = False,
        concurrency: int = 16,
        batch_size: int = 1,
        consume_timeout: float = 900.0,
        max_attempts: int | None = None,
        suspend: float = 1.0,
        flow: FlowLimits = DEFAULT_LIMITS,
        prefetch_bytes: int = PREFETCH_BYTES,
        commit_interval: float = 5.0,
        timeout: float = 3.0,
        instance: str = "default",
        offsets_dir: str | None = None,
        trace: bool | str = False,
        room: str | None = None,
        on_lost: OnLost | None = None,
    ) -> None:
        """Connects at `start`. Raises InvalidName or InvalidParameter.

        `namesrv`, `key`: as for a Producer. `model`: CLUSTERING, the members share the queues; BROADCASTING, each reads all of
        them. `allocation`: how they are shared out, as for a PullConsumer. `room`: this member's machine room, for
        allocations that use it. `start_from`: where the group begins in a topic: LAST, FIRST or a datetime with a time
        zone. `ordered`: the messages of a queue one after another, in order. `concurrency`: how many handlers run at a
        time; when ordered, at most one per queue. `batch_size`: how many messages of one queue a handler gets at once.

        `consume_timeout`: seconds a handler may take before its messages are sent back (not when ordered). `max_attempts`:
        tries of a message before it becomes a dead letter; None = as set for the group, when ordered without limit.
        `suspend`: seconds until an ordered queue is tried again. `flow`: how much of a queue may be unfinished.
        `prefetch_bytes`: how much may lie ready in all. `commit_interval`: seconds between two commits. `timeout`: seconds
        for each request to a broker.

        `instance`, `offsets_dir`: the file of a broadcasting member's offsets, OFFSETS_DIR/GROUP/.../INSTANCE.json, by
        default under ~/.zenit/offsets. `trace`: write a record of each message to the trace topic, or to the topic named.
        `on_lost`: called with a `MessagesLost` for messages whose bytes are damaged at the broker and lost for good;
        consuming continues behind them. It must not block.
        """
        self.group = group
        self._settings = PushSettings(
            group=group,
            model=model,
            start_from=start_from,
            ordered=ordered,
            concurrency=concurrency,
            batch_size=batch_size,
            consume_timeout=consume_timeout,
            max_attempts=max_attempts,
            suspend=suspend,
            flow=flow,
            prefetch_bytes=prefetch_bytes,
            commit_interval=commit_interval,
            timeout=timeout,
        )
        self._traced_in = trace_topic(trace)
        self._namesrv = namesrv
        self._key = key
        self._allocation = allocation_of(allocation)
        self._instance = check_instance(instance)
        self._offsets_dir = default_directory() if offsets_dir is None else offsets_dir
        self._on_lost = on_lost
        self._room = None if room is None else check_room(room)
        self._handler: H | None = None
        self._handler_name = ""
        self._subscriptions: dict[str, Subscription] = {}
        self._lock = self._new_lock()  # guards start, close and the subscriptions; not held while messages are handled
        self._member: PushMember | None = None
        self.counts = ClientCounts()
        self._handling: set[object] = set()  # the threads or tasks that are running the handler
        self._is_closed = False  # nothing more may begin; set before waiting for the lock
        self._is_left = False  # guarded by the lock

    _handlers_may_wait: ClassVar[bool] = False  # handlers may be coroutine functions

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "running" if self._member is not None else "not started"
        return client_repr(self, state, group=self.group, topics=sorted(self._subscriptions))

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """The way of waiting."""

    @abstractmethod
    async def _handle(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        """Runs the handler. Raises what it raises, and WrongAnswer."""

    @abstractmethod
    def _who_runs(self) -> object:
        """The calling thread or task."""

    @abstractmethod
    def _new_lock(self) -> Lock:
        """A lock for coroutines that wait this way."""

    async def _handle_noted(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        who = self._who_runs()
        self._handling.add(who)
        try:
            return await self._handle(messages)
        finally:
            self._handling.discard(who)

    # ---- handler and subscriptions

    def on_message(self, handler: H) -> H:
        """Sets the handler, before the start; usable as a decorator.

        The handler gets a list of messages of one queue and returns None or a ConsumeResult; an exception means "again
        later". Raises InvalidParameter for a handler that cannot be right: a wrong number of arguments, a generator, or,
        except in the class of `zenitmq.aio`, an `async def`.
        """
        if self._member is not None:
            raise LocalProtocolError("on_message after the start: a consumer has one handler")
        self._handler_name = check_handler(handler, may_wait=self._handlers_may_wait)
        self._handler = handler
        return handler

    async def _subscribe(self, topic: str | Sequence[str], expression: Expression = None) -> None:
        """Adds one topic or several. `expression`: tags as "a || b", None = all, or Sql("..."); the same for all topics
        given.

        After the start, nothing sent once this has returned is skipped. If that cannot be guaranteed, it raises why
        (TopicNotFound, NoRoute, ...) and subscribes to none of them.
        """
        more = {subscription.topic: subscription for subscription in subscriptions_of(topic, expression)}
        for name in more:
            if name.startswith(RETRY_PREFIX):
                raise InvalidParameter(
                    "topic", name[:160], "a topic of yours: a group's retry topic is consumed by itself"
                )
        async with self._lock:
            self._check_usable()
            if self._member is not None:
                for name in more:
                    await self._member.begin_topic(name, self._check_usable)
            self._set_subscriptions({**self._subscriptions, **more})

    async def _unsubscribe(self, topic: str) -> None:
        """Stops consuming a topic; its queues are given up soon."""
        async with self._lock:
            self._check_usable()
            self._set_subscriptions({name: entry for name, entry in self._subscriptions.items() if name != topic})

    def _set_subscriptions(self, subscriptions: dict[str, Subscription]) -> None:
        self._subscriptions = subscriptions
        if self._member is not None:
            self._member.subscribe(subscriptions)

    # ---- start and end

    async def _start(self) -> None:
        """Begins consuming: nothing sent once this has returned is skipped. A second call does nothing.

        Waits for an unreachable broker, up to `timeout` per topic. Raises LocalProtocolError without a handler,
        ClientClosed, the reason why a topic cannot be consumed (TopicNotFound, NoRoute, RequestTimeout, ...),
        OffsetFileInUse or OffsetFileFailed when broadcasting; it may be called again after that.
        """
        async with self._lock:
            self._check_usable()
            if self._member is not None:
                return
            if self._handler is None:
                raise LocalProtocolError("a push consumer needs its handler first: on_message(handler)")
            async with AsyncExitStack() as started:
                member = PushMember(
                    self._settings,
                    self._handle_noted,
                    self.counts,
                    new_waits=self._new_waits,
                    namesrv=self._namesrv,
                    key=self._key,
                    allocation=self._allocation,
                    room=self._room,
                    offsets_path=(self._offsets_dir, self._instance),
                    traced_in=self._traced_in,
                    on_lost=self._on_lost,
                    opened=started,
                )
                for topic in sorted(self._subscriptions):
                    await member.begin_topic(topic, self._check_usable)
                member.start(self._subscriptions)
                started.pop_all()
            self._member = member

    async def _close(self, timeout: float = 5.0) -> None:
        """Stops handing out messages, waits up to `timeout` seconds for the handlers, commits what they finished and
        leaves.

        A handler that runs longer is left alone: its messages go to another member; when ordered, once the leases of this
        member's queues have ended. A `subscribe` or `start` in progress ends with ClientClosed. Idempotent; does nothing in
        a forked child. Raises WaitsForItself if called by its own handler.
        """
        if self._member is not None and self._member.is_forked:
            return
        if self._who_runs() in self._handling:
            raise WaitsForItself(
                "close() in the consumer's own handler", "let the handler end, and close where the consumer was started"
            )
        deadline_ms = monotonic_ms() + wait_milliseconds("timeout", timeout)
        self._is_closed = True
        async with self._lock:
            already, self._is_left = self._is_left, True
        if not already and self._member is not None:
            await self._member.close(deadline_ms)

    def assignment(self) -> list[MessageQueue]:
        """The queues that this member has now, sorted, including those of the group's retry topic."""
        return [] if self._member is None else sorted(self._member.work.queues()[0])

    def statistics(self) -> PushStatistics:
        """Counters since the start."""
        return _NOTHING_YET if self._member is None else self._member.work.statistics()

    @property
    def mistake(self) -> WrongAnswer | None:
        """Why it has paused for good: its handler returned something that is not an answer. None = it has not."""
        return None if self._member is None else self._member.work.mistake

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored and were dropped; None before the start and if tracing is off."""
        return None if self._member is None else self._member.trace_statistics()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosed("consumer")
        if self._member is not None:
            self._member.check_process()


class PushConsumer(PushCore[Handler]):
    """Calls `handler(messages)` from `start` to `close`, in threads. Any method may be called from any thread."""

    subscribe = blocking(PushCore._subscribe)
    unsubscribe = blocking(PushCore._unsubscribe)
    start = blocking(PushCore._start)
    close = blocking(PushCore._close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def _who_runs(self) -> object:
        return get_ident()

    def _new_lock(self) -> Lock:
        return ThreadLock()

    async def _handle(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        assert self._handler is not None
        return checked_answer(self._handler_name, self._handler(messages))
