"""Offsets: what a queue holds, and how far groups have consumed. Loop thread.

A commit is an event in the log and answered as a send is: once it is written, or flushed where sends are.
"""

from __future__ import annotations

from typing import Final

from ..model.errors import GroupNotFound, InvalidParameter, QueueNotOwned
from ..model.names import check_group
from ..remoting.commands import (
    BeginOffsetsReply,
    ConsumerOffsetReply,
    Done,
    GetBeginOffsets,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    UpdateConsumerOffsets,
)
from ..remoting.server import Call
from ..store.message_store import MessageStore
from .acknowledgements import Acknowledgements
from .admission import known
from .state_log import GROUPS, OFFSETS, StateLog

OFFSET_MAX: Final = 1 << 62
Offsets = tuple[tuple[str, int, int], ...]
"""((topic, queue id, offset), ...)."""


class OffsetHandler:
    """GetMinOffset, GetMaxOffset, QueryConsumerOffset, GetBeginOffsets, UpdateConsumerOffsets."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        *,
        auto_create_groups: bool,
    ) -> None:
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
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

    def on_begin_offsets(self, call: Call) -> BeginOffsetsReply:
        """Where a group goes on. Raises what is wrong with any of the queues."""
        request = call.request
        assert isinstance(request, GetBeginOffsets)
        group, topic = request.group, request.topic
        for queue_id in request.queue_ids:
            known(self._state.topic_table, topic, queue_id)
        committed, first = self._state.offset_table.offset, self._store.min_offset
        return BeginOffsetsReply(
            tuple((committed(group, topic, queue_id), first(topic, queue_id)) for queue_id in request.queue_ids)
        )

    def on_update_offsets(self, call: Call) -> Done | None:
        """Commits. Raises what is wrong with any of the offsets; then none is taken."""
        request = call.request
        assert isinstance(request, UpdateConsumerOffsets)
        self._check_group(request.group)
        for topic, queue_id, offset in request.offsets:
            known(self._state.topic_table, topic, queue_id)
            if not 0 <= offset <= OFFSET_MAX:
                raise InvalidParameter("offset", offset, f"0 to {OFFSET_MAX}")
        if request.incarnations and len(request.incarnations) != len(request.offsets):
            raise InvalidParameter("incarnations", len(request.incarnations), f"{len(request.offsets)}, one an offset")
        if request.client_id:
            self._check_owner(request)
        offsets = self._of_these_topics(request)
        if request.forward_only:
            offsets = self._ahead(request.group, offsets)
        if not offsets:
            return Done()
        end = self._stage_offsets(request.group, offsets)
        self._acknowledgements.staged.append((call, Done(), end, ()))
        return None

    def _check_group(self, group: str) -> None:
        if group not in self._state.group_table.documents:
            check_group(group)
            if not self._auto_create_groups:
                raise GroupNotFound(group)

    def _of_these_topics(self, request: UpdateConsumerOffsets) -> Offsets:
        """Those that are not of a topic that was deleted, and made again since."""
        if not request.incarnations:
            return request.offsets
        configs = self._state.topic_table.configs
        return tuple(
            entry
            for entry, meant in zip(request.offsets, request.incarnations, strict=True)
            if not meant or configs[entry[0]].incarnation in (0, meant)
        )

    def _ahead(self, group: str, offsets: Offsets) -> Offsets:
        committed = self._state.offset_table.offset
        return tuple(entry for entry in offsets if entry[2] > committed(group, entry[0], entry[1]))

    def _check_owner(self, request: UpdateConsumerOffsets) -> None:
        queues = ((topic, queue_id) for topic, queue_id, _ in request.offsets)
        foreign = self._state.queue_locks.first_not_of(request.group, request.client_id, queues)
        if foreign is not None:
            raise QueueNotOwned(request.group, *foreign)

    def _stage_offsets(self, group: str, offsets: Offsets) -> int:
        if group not in self._state.group_table.documents:
            self._state.stage(self._store, GROUPS, self._state.group_table.event_set(group))
        return self._state.stage(self._store, OFFSETS, self._state.offset_table.event_committed(group, offsets))
