"""Offsets: what a queue holds, how far groups have consumed, and setting that. Loop thread.

A commit is an event in the log and answered as a send is: once it is written, or flushed where sends are.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..model.errors import GroupNotFound, InvalidParameter, QueueNotOwned
from ..model.names import check_group
from ..remoting.commands import (
    ConsumerOffsetReply,
    Done,
    GetMaxOffset,
    GetMinOffset,
    JsonReply,
    OffsetReply,
    QueryConsumerOffset,
    ResetOffsets,
    UpdateConsumerOffsets,
)
from ..remoting.server import Call, RequestLoop
from ..store.message_store import MessageStore
from .acknowledgements import Acknowledgements
from .admission import known, readable
from .consume_progress import reset_target
from .json_reply import encode_document
from .state_log import GROUPS, OFFSETS, StateLog
from .worker_desk import WorkerDesk

RESET_WORDS: Final = ("earliest", "latest", "offset", "time")
OFFSET_MAX: Final = 1 << 62


class OffsetHandler:
    """GetMinOffset, GetMaxOffset, QueryConsumerOffset, UpdateConsumerOffsets, ResetOffsets."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        loop: RequestLoop,
        desk: WorkerDesk,
        *,
        auto_create_groups: bool,
    ) -> None:
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self._loop = loop
        self._desk = desk
        self._auto_create_groups = auto_create_groups

    def on_max_offset(self, call: Call) -> OffsetReply:
        """The offset that the next message will get."""
        request = call.request
        assert isinstance(request, GetMaxOffset)
        known(self._state.topic_table, request.topic, request.queue_id)
        return OffsetReply(self._store.max_offset(request.topic, request.queue_id))

    def on_min_offset(self, call: Call) -> OffsetReply:
        """The oldest offset still held."""
        request = call.request
        assert isinstance(request, GetMinOffset)
        known(self._state.topic_table, request.topic, request.queue_id)
        return OffsetReply(self._store.min_offset(request.topic, request.queue_id))

    def on_query_offset(self, call: Call) -> ConsumerOffsetReply:
        """What a group has committed."""
        request = call.request
        assert isinstance(request, QueryConsumerOffset)
        known(self._state.topic_table, request.topic, request.queue_id)
        return ConsumerOffsetReply(self._state.offset_table.offset(request.group, request.topic, request.queue_id))

    def on_update_offsets(self, call: Call) -> Done | None:
        """Commits. Raises what is wrong with any of the offsets; then none is taken."""
        request = call.request
        assert isinstance(request, UpdateConsumerOffsets)
        self._check_group(request.group)
        for topic, queue_id, offset in request.offsets:
            known(self._state.topic_table, topic, queue_id)
            if not 0 <= offset <= OFFSET_MAX:
                raise InvalidParameter("offset", offset, f"0 to {OFFSET_MAX}")
        if not request.offsets:
            return Done()
        if request.client_id:
            self._check_owner(request)
        end = self._stage_offsets(request.group, request.offsets)
        self._acknowledgements.staged.append((call, Done(), end, ()))
        return None

    def on_reset(self, call: Call) -> None:
        """Moves a group in all queues of a topic; times are looked up by a worker."""
        request = call.request
        assert isinstance(request, ResetOffsets)
        if request.group not in self._state.group_table.documents:
            raise GroupNotFound(request.group[:128])
        config = readable(self._state.topic_table, request.topic, 0)
        if request.to not in RESET_WORDS:
            raise InvalidParameter("to", request.to[:64], ", ".join(RESET_WORDS))
        queues = range(config.read_queues)
        if request.to == "time":
            work = partial(self._offsets_at, request.topic, queues, request.value)
            self._desk.run(call, work, partial(self._reset, call))
        else:
            self._reset(call, [request.value] * len(queues))

    def _offsets_at(self, topic: str, queues: range, timestamp_ms: int) -> list[int]:
        """Worker thread."""
        return [self._store.offset_by_time(topic, queue_id, timestamp_ms, upper=False) for queue_id in queues]

    def _reset(self, call: Call, values: list[int]) -> None:
        request = call.request
        assert isinstance(request, ResetOffsets)
        rows, offsets = [], []
        for queue_id, value in enumerate(values):
            target = reset_target(
                request.to,
                value,
                min_offset=self._store.min_offset(request.topic, queue_id),
                max_offset=self._store.max_offset(request.topic, queue_id),
            )
            before = self._state.offset_table.offset(request.group, request.topic, queue_id)
            rows.append({"topic": request.topic, "queue_id": queue_id, "from": before, "to": target})
            offsets.append((request.topic, queue_id, target))
        payload = (encode_document({"queues": rows}),)
        if request.dry_run:
            self._loop.reply(call, JsonReply(), payload)
            return
        end = self._stage_offsets(request.group, tuple(offsets))
        self._acknowledgements.staged.append((call, JsonReply(), end, payload))

    def _check_group(self, group: str) -> None:
        if group not in self._state.group_table.documents:
            check_group(group)
            if not self._auto_create_groups:
                raise GroupNotFound(group)

    def _check_owner(self, request: UpdateConsumerOffsets) -> None:
        queues = ((topic, queue_id) for topic, queue_id, _ in request.offsets)
        foreign = self._state.queue_locks.first_not_of(request.group, request.client_id, queues)
        if foreign is not None:
            raise QueueNotOwned(request.group, *foreign)

    def _stage_offsets(self, group: str, offsets: tuple[tuple[str, int, int], ...]) -> int:
        if group not in self._state.group_table.documents:
            self._state.stage(self._store, GROUPS, self._state.group_table.event_set(group))
        return self._state.stage(self._store, OFFSETS, self._state.offset_table.event_committed(group, offsets))
