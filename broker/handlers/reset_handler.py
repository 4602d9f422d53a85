"""Resets of groups by operators: to another place of a topic, or to another group's offsets. Loop thread.

The new offsets are one event in the log, answered like a send. Connected members are told as soon as the log
has it; they drop what they fetched, and continue from there. Nobody waits for a member that cannot be reached: its commits are
of an older era, so they are refused and it learns why (see offset_table).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

from ...model.errors import GroupNotFound, InvalidParameter
from ...model.names import check_group, is_system_topic, retry_topic
from ...model.redelivery import dead_letter_topic
from ...remoting.commands import CloneOffsets, JsonReply, OffsetsReset, Request, ResetOffsets
from ...remoting.server import Call
from ..json_reply import encode_document
from ..state.admission import readable
from ..state.consume_progress import known_offset, reset_target
from ..state.state_log import GROUPS, OFFSETS
from .parts import Parts

RESET_WORDS: Final = ("earliest", "latest", "offset", "time")

Offsets = list[tuple[str, int, int]]  # (topic, queue id, offset)


class ResetHandler:
    """ResetOffsets, CloneOffsets. `on_moved(topics, end)`: told when a group is moved; the log says so up to `end`."""

    def __init__(self, parts: Parts) -> None:
        self.on_moved: Callable[[Collection[str], int], None] = _tell_nobody
        self._parts = parts
        self._store, self._state = parts.store, parts.state

    def on_reset(self, call: Call[ResetOffsets]) -> None:
        """Moves a group in all queues of a topic, or in one; times are looked up by a worker."""
        request = call.request
        self._check_known(request.group)
        config = readable(self._state.topic_table, request.topic, 0 if request.queue_id == -1 else request.queue_id)
        if request.to not in RESET_WORDS:
            raise InvalidParameter("to", request.to[:64], ", ".join(RESET_WORDS))
        queues = range(config.read_queues) if request.queue_id == -1 else (request.queue_id,)
        if request.to == "time":
            work = partial(self._offsets_at, request.topic, queues, request.value)
            self._parts.workers.run(call, work, partial(self._reset, call))
        else:
            self._reset(call, [(queue_id, request.value) for queue_id in queues])

    def on_clone(self, call: Call[CloneOffsets]) -> None:
        """Moves a group to another one's offsets."""
        request = call.request
        self._check_known(request.source)
        if request.group == check_group(request.source):
            raise InvalidParameter("group", request.group, "another group than the source")
        if request.group not in self._state.group_table.documents:
            check_group(request.group)
            if not self._parts.config.auto_create_groups:
                raise GroupNotFound(request.group)
        if request.topic:
            readable(self._state.topic_table, request.topic, 0)
        own = {retry_topic(request.source), dead_letter_topic(request.source)}
        wanted = [
            row
            for row in self._state.offset_table.committed(request.source)
            if (row[0] == request.topic if request.topic else row[0] not in own) and not is_system_topic(row[0])
        ]
        self._move(call, request.group, wanted, is_plan=request.dry_run)

    def _offsets_at(self, topic: str, queues: Iterable[int], timestamp_ms: int) -> list[tuple[int, int]]:
        """Worker thread."""
        return [(queue, self._store.offset_by_time(topic, queue, timestamp_ms, upper=False)) for queue in queues]

    def _reset(self, call: Call[ResetOffsets], values: list[tuple[int, int]]) -> None:
        """`values`: [(queue id, the requested offset)]."""
        request = call.request
        topic = request.topic
        wanted = [
            (
                topic,
                queue_id,
                reset_target(
                    request.to,
                    value,
                    min_offset=self._store.min_offset(topic, queue_id),
                    max_offset=self._store.max_offset(topic, queue_id),
                ),
            )
            for queue_id, value in values
        ]
        self._move(call, request.group, wanted, is_plan=request.dry_run)

    def _move(self, call: Call[Request], group: str, wanted: Offsets, *, is_plan: bool) -> None:
        before = self._state.offset_table.offset
        rows: list[dict[str, Any]] = [
            {"topic": topic, "queue_id": queue_id, "from": known_offset(before(group, topic, queue_id)), "to": offset}
            for topic, queue_id, offset in wanted
        ]
        payload = (encode_document({"queues": rows}),)
        if is_plan or not wanted:
            self._parts.loop.reply(call, JsonReply(), payload)
            return
        if group not in self._state.group_table.documents:
            self._state.stage(self._store, GROUPS, self._state.group_table.event_set(group))
        event, era = self._state.offset_table.event_reset(group, wanted, self._parts.clock.now_ms())
        end = self._state.stage(self._store, OFFSETS, event)
        self._parts.acknowledgements.staged.append((call, JsonReply(), end, payload))
        self.on_moved({topic for topic, _, _ in wanted}, int(end))
        self._parts.loop.call_later(0, partial(self._tell, group, wanted, era))  # once this turn is in the log

    def _tell(self, group: str, moved: Offsets, era: int) -> None:
        by_topic: dict[str, list[tuple[int, int]]] = {}
        for topic, queue_id, offset in moved:
            by_topic.setdefault(topic, []).append((queue_id, offset))
        for topic, offsets in by_topic.items():
            notice = OffsetsReset(group, self._parts.config.name, topic, tuple(offsets), era)
            for identity in {member.identity for member in self._parts.registry.sharers(group, topic)}:
                self._parts.loop.send_to(identity, notice)

    def _check_known(self, group: str) -> None:
        """Creates groups without a document, too, if they have committed."""
        if group not in self._state.group_table.documents and group not in self._state.offset_table.groups():
            raise GroupNotFound(group[:128])


def _tell_nobody(topics: Collection[str], end: int) -> None:
    """Until the handlers are wired."""
