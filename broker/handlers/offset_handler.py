"""Offsets: the range of a queue, and the committed offsets of groups. Loop thread.

A commit is an event in the log and answered like a send: once it is written, or flushed if sends are.
"""

from __future__ import annotations

from typing import Final

from ...model.errors import GroupNotFound, InvalidParameter, NoPermission, OffsetOutOfRange, QueueNotOwned
from ...model.names import check_group
from ...model.topics.light_queues import is_light_queue, lite_topic_of
from ...remoting.commands import (
    BeginOffsetsReply,
    CommitReply,
    ConsumerOffsetReply,
    GetBeginOffsets,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    UpdateConsumerOffsets,
)
from ...remoting.server import Call
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..state.admission import known, readable_queue
from ..state.offset_table import ANY_ERA, Progress
from ..state.state_log import GROUPS, OFFSETS, StateLog

OFFSET_MAX: Final = 1 << 62


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

    def on_max_offset(self, call: Call[GetMaxOffset]) -> OffsetReply:
        """The offset that the next message will get."""
        request = call.request
        self._check_queue(request.topic, request.queue_id)
        return OffsetReply(self._store.max_offset(request.topic, request.queue_id))

    def on_min_offset(self, call: Call[GetMinOffset]) -> OffsetReply:
        """The oldest offset still held."""
        request = call.request
        self._check_queue(request.topic, request.queue_id)
        return OffsetReply(self._store.min_offset(request.topic, request.queue_id))

    def on_query_offset(self, call: Call[QueryConsumerOffset]) -> ConsumerOffsetReply:
        """The committed offset of a group."""
        request = call.request
        self._check_queue(request.topic, request.queue_id)
        table, where = self._state.offset_table, (request.group, request.topic, request.queue_id)
        return ConsumerOffsetReply(table.offset(*where), table.era(*where))

    def on_begin_offsets(self, call: Call[GetBeginOffsets]) -> BeginOffsetsReply:
        """Where a group continues. Raises what is wrong with any of the queues."""
        request = call.request
        group, topic = request.group, request.topic
        for queue_id in request.queue_ids:
            known(self._state.topic_table, topic, queue_id)
        table, first = self._state.offset_table, self._store.min_offset
        return BeginOffsetsReply(
            tuple((table.offset(group, topic, queue_id), first(topic, queue_id)) for queue_id in request.queue_ids),
            tuple(table.era(group, topic, queue_id) for queue_id in request.queue_ids),
        )

    def on_update_offsets(self, call: Call[UpdateConsumerOffsets]) -> CommitReply | None:
        """Commits. Raises what is wrong with any of the offsets; then none is committed.

        The table has the state of the log before this turn. A commit in the same turn as a reset, or as a commit of
        another member, is checked again when the table applies it, in the log's order.
        """
        request = call.request
        self._check_group(request.group)
        for topic, queue_id, offset in request.offsets:
            if not is_light_queue(topic):
                known(self._state.topic_table, topic, queue_id)
            elif lite_topic_of(topic) is not None:
                raise NoPermission(
                    f"light queue {topic}", "committing offsets: a LiteConsumer acknowledges its messages"
                )
            if not 0 <= offset <= OFFSET_MAX:
                raise InvalidParameter("offset", offset, f"0 to {OFFSET_MAX}")
            end = self._store.max_offset(topic, queue_id) if request.bounded else OFFSET_MAX
            if offset > end:
                raise OffsetOutOfRange(f"{topic}:{queue_id}", offset, 0, end)
        for name in ("incarnations", "eras"):
            if len(getattr(request, name)) not in (0, len(request.offsets)):
                raise InvalidParameter(name, len(getattr(request, name)), f"{len(request.offsets)}, one an offset")
        if request.client_id:
            self._check_owner(request)
        moved: list[tuple[str, int]] = []
        free: list[Progress] = []  # whichever way they go
        ahead: list[Progress] = []
        for entry in self._of_these_topics(request):
            topic, queue_id, offset, era = entry
            committed = self._state.offset_table.offset(request.group, topic, queue_id)
            if not self._state.offset_table.is_of(request.group, topic, queue_id, era):
                moved.append((topic, queue_id))
            elif not request.forward_only or committed > self._store.max_offset(topic, queue_id):
                free.append(entry)
            elif offset > committed:
                ahead.append(entry)
        reply = CommitReply(tuple(moved))
        end = self._stage_offsets(request.group, ahead, forward_only=True)
        end = self._stage_offsets(request.group, free) or end
        if not end:
            return reply
        self._acknowledgements.staged.append((call, reply, end, ()))
        return None

    def _check_queue(self, topic: str, queue_id: int) -> None:
        """Raises TopicNotFound, NoPermission, InvalidParameter."""
        if is_light_queue(topic):
            readable_queue(self._state.topic_table, topic, queue_id, self._store.has_light_queue)
        else:
            known(self._state.topic_table, topic, queue_id)

    def _check_group(self, group: str) -> None:
        if group not in self._state.group_table.documents:
            check_group(group)
            if not self._auto_create_groups:
                raise GroupNotFound(group)

    def _of_these_topics(self, request: UpdateConsumerOffsets) -> list[Progress]:
        """Leaves out those of a topic that was deleted and created again, and of light queues that are gone."""
        configs, has_light_queue = self._state.topic_table.configs, self._store.has_light_queue
        count = len(request.offsets)
        lives, eras = request.incarnations or (0,) * count, request.eras or (ANY_ERA,) * count
        return [
            (*entry, era)
            for entry, meant, era in zip(request.offsets, lives, eras, strict=True)
            if (
                entry[1] == 0 and has_light_queue(entry[0])
                if is_light_queue(entry[0])
                else not meant or configs[entry[0]].incarnation in (0, meant)
            )
        ]

    def _check_owner(self, request: UpdateConsumerOffsets) -> None:
        queues = ((topic, queue_id) for topic, queue_id, _ in request.offsets)
        foreign = self._state.queue_locks.first_not_of(request.group, request.client_id, queues)
        if foreign is not None:
            raise QueueNotOwned(request.group, *foreign)

    def _stage_offsets(self, group: str, progress: list[Progress], *, forward_only: bool = False) -> int:
        """Returns the end of the event in the log, 0 if there is nothing to stage."""
        if not progress:
            return 0
        if group not in self._state.group_table.documents:
            self._state.stage(self._store, GROUPS, self._state.group_table.event_set(group))
        event = self._state.offset_table.event_committed(group, progress, forward_only=forward_only)
        return self._state.stage(self._store, OFFSETS, event)
