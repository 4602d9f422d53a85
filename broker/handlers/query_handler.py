"""Finds messages by key, id, time and text. The loop checks and answers; worker threads read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ...model.clock import Clock, monotonic_ns, sleep_ms
from ...model.errors import InvalidParameter, MessageNotFound, RequestTimeout
from ...model.queue import PhysicalOffset
from ...remoting.commands import (
    MessagesReply,
    OffsetReply,
    QueryMessages,
    QueryReply,
    Request,
    SearchOffset,
    ViewMessage,
)
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ...store.query import ANY_QUEUE, LogPlace, Page, StoreQuery
from ..config import BrokerConfig
from ..state.admission import readable, readable_queue
from ..state.state_log import StateLog
from ..worker_pool import WorkerPool

KEY_LENGTH_MAX: Final = 32_767
TEXT_BYTES_MAX: Final = 65_536
QUERY_MS: Final = 20  # a worker's time for one page
WORK_NS: Final = 100_000  # of it at once
PAUSE_MS: Final = 0.05


class QueryHandler:
    """QueryMessages, ViewMessage, SearchOffset. Loop thread."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        loop: RequestLoop,
        clock: Clock,
        workers: WorkerPool,
        config: BrokerConfig,
        *,
        now_ns: Callable[[], int] = monotonic_ns,
        pause: Callable[[float], None] = sleep_ms,
    ) -> None:
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._now_ns = now_ns
        self._pause = pause
        self._workers = workers
        self._messages_max = config.store.query_messages_max
        self._bytes_max = config.store.frame_bytes_max

    def on_query(self, call: Call[QueryMessages]) -> None:
        """A page of messages, newest first.

        A worker looks for it for QUERY_MS at most, then the client asks for the rest: so a client that goes away, or cancels,
        leaves no work behind, and queries take turns.
        """
        request = call.request
        topic = readable(self._state.topic_table, request.topic, max(request.queue_id, 0))
        if request.queue_id < ANY_QUEUE:
            raise InvalidParameter("queue_id", request.queue_id, "a queue, or -1 for any")
        if len(request.key) > KEY_LENGTH_MAX:
            raise InvalidParameter("key", request.key[:64], f"at most {KEY_LENGTH_MAX} characters")
        if len(request.contains) > TEXT_BYTES_MAX:
            raise InvalidParameter("contains", f"{len(request.contains)} bytes", f"at most {TEXT_BYTES_MAX}")
        if request.max_messages < 1:
            raise InvalidParameter("max_messages", request.max_messages, "at least 1")
        query = StoreQuery(
            topic=request.topic,
            key=request.key,
            unique=request.unique,
            contains=request.contains,
            begin_ms=request.begin_ms,
            end_ms=request.end_ms,
            queue_id=request.queue_id,
            queue_begin=request.queue_begin,
            queue_end=request.queue_end,
            start=LogPlace(request.below, request.file, request.entry),
            max_messages=min(request.max_messages, self._messages_max),
            max_bytes=self._bytes_max,
        )
        queues = max(topic.read_queues, topic.write_queues)
        queue_ids = range(queues) if request.queue_id == ANY_QUEUE else (request.queue_id,)

        def work() -> Page:
            if self._clock.monotonic_ms() > call.deadline_ms:
                raise RequestTimeout("a query that nobody waits for any more", 0)
            return self._store.page(query, queue_ids, self._turn())

        self._workers.run(call, work, partial(self._reply_page, call))

    def _turn(self) -> Callable[[], bool]:
        """Says whether the time for one page lasts. It lets the loop run again and again: else each time that the loop gives up
        the interpreter, for a system call, it gets it back half a millisecond later."""
        now_ns = self._now_ns()
        end_ns, pause_ns = now_ns + QUERY_MS * 1_000_000, now_ns + WORK_NS

        def has_time() -> bool:
            nonlocal pause_ns
            now_ns = self._now_ns()
            if now_ns >= pause_ns:
                self._pause(PAUSE_MS)
                now_ns = self._now_ns()
                pause_ns = now_ns + WORK_NS
            return now_ns < end_ns

        return has_time

    def _reply_page(self, call: Call[Request], page: Page) -> None:
        place = page.place
        reply = QueryReply(len(page.records), place.below, place.file, place.entry, page.examined, page.reached_ms)
        self._loop.reply(call, reply, page.records)

    def on_view(self, call: Call[ViewMessage]) -> None:
        """The message at a physical offset."""
        request = call.request
        if request.physical_offset < 0:
            raise MessageNotFound(f"physical offset {request.physical_offset}")
        work = partial(self._store.record_at, PhysicalOffset(request.physical_offset))
        self._workers.run(call, work, lambda record: self._loop.reply(call, MessagesReply(1), [record]))

    def on_search(self, call: Call[SearchOffset]) -> None:
        """The offset of a queue at a time."""
        request = call.request
        readable_queue(self._state.topic_table, request.topic, request.queue_id, self._store.has_light_queue)
        work = partial(
            self._store.offset_by_time, request.topic, request.queue_id, request.timestamp_ms, upper=request.upper
        )
        self._workers.run(call, work, lambda offset: self._loop.reply(call, OffsetReply(offset)))
