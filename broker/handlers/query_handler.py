"""Finds messages by key, id and time. The loop checks and answers; worker threads read."""

from __future__ import annotations

from functools import partial

from ...model.errors import InvalidParameter, MessageNotFound
from ...model.names import check_topic
from ...model.queue import PhysicalOffset
from ...remoting.commands import MessagesReply, OffsetReply, QueryMessages, Request, SearchOffset, ViewMessage
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from ..state.admission import readable
from ..state.state_log import StateLog
from ..worker_pool import WorkerPool

KEY_LENGTH_MAX = 32_767


class QueryHandler:
    """QueryMessages, ViewMessage, SearchOffset. Loop thread."""

    def __init__(
        self, store: MessageStore, state: StateLog, loop: RequestLoop, workers: WorkerPool, config: BrokerConfig
    ) -> None:
        self._store = store
        self._state = state
        self._loop = loop
        self._workers = workers
        self._messages_max = config.store.query_messages_max
        self._bytes_max = config.store.frame_bytes_max

    def on_query(self, call: Call[QueryMessages]) -> None:
        """Messages by key, newest first; as many as one reply may hold."""
        request = call.request
        check_topic(request.topic)
        if not 1 <= len(request.key) <= KEY_LENGTH_MAX:
            raise InvalidParameter("key", request.key[:64], f"1 to {KEY_LENGTH_MAX} characters")
        if request.max_messages < 1:
            raise InvalidParameter("max_messages", request.max_messages, "at least 1")
        work = partial(
            self._store.query,
            request.topic,
            request.key,
            max_messages=min(request.max_messages, self._messages_max),
            begin_ms=request.begin_ms,
            end_ms=request.end_ms,
            unique=request.unique,
        )
        self._workers.run(call, work, partial(self._reply_messages, call))

    def on_view(self, call: Call[ViewMessage]) -> None:
        """The message at a physical offset."""
        request = call.request
        if request.physical_offset < 0:
            raise MessageNotFound(f"physical offset {request.physical_offset}")
        work = partial(self._store.record_at, PhysicalOffset(request.physical_offset))
        self._workers.run(call, work, lambda record: self._reply_messages(call, [record]))

    def on_search(self, call: Call[SearchOffset]) -> None:
        """The offset of a queue at a time."""
        request = call.request
        readable(self._state.topic_table, request.topic, request.queue_id)
        work = partial(
            self._store.offset_by_time, request.topic, request.queue_id, request.timestamp_ms, upper=request.upper
        )
        self._workers.run(call, work, lambda offset: self._loop.reply(call, OffsetReply(offset)))

    def _reply_messages(self, call: Call[Request], records: list[bytes]) -> None:
        room = self._bytes_max
        fitting: list[bytes] = []
        for record in records:
            room -= len(record)
            if room < 0 and fitting:
                break
            fitting.append(record)
        self._loop.reply(call, MessagesReply(len(fitting)), fitting)
