"""The begin of a group in a topic: recorded at its first subscription, so that no message sent before its first pull is lost.

Loop thread. The begin is one event in the log for all queues of the topic, answered like a send; the first one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...model.errors import GroupNotFound, InvalidParameter
from ...model.names import check_group
from ...remoting.commands import StartConsuming, StartReply
from ...remoting.server import Call
from ..state.admission import readable
from ..state.state_log import GROUPS, OFFSETS
from .parts import Parts

START_WORDS: Final = ("", "first", "last", "time")


class StartHandler:
    """StartConsuming."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._store, self._state = parts.store, parts.state

    def on_start(self, call: Call[StartConsuming]) -> None:
        """Records where a group begins in a topic, if it has not begun. A worker looks up times."""
        request = call.request
        if request.group not in self._state.group_table.documents:
            check_group(request.group)
            if not self._parts.config.auto_create_groups:
                raise GroupNotFound(request.group)
        queues = range(readable(self._state.topic_table, request.topic, 0).read_queues)
        if request.start not in START_WORDS:
            raise InvalidParameter("start", request.start[:64], ", ".join(START_WORDS[1:]))
        if request.value < 0:
            raise InvalidParameter("value", request.value, "0 or more")
        since_ms = self._state.offset_table.since_ms(request.group, request.topic)
        if since_ms >= 0 or not request.start:
            # The event may not be as durable as an acknowledged send yet: this answer waits for that, as the first one did.
            self._parts.acknowledgements.staged.append((call, StartReply(since_ms), self._store.written, ()))
        elif request.start == "time":
            work = partial(self._offsets_at, request.topic, queues, request.value)
            self._parts.workers.run(call, work, partial(self._start, call, request.value))
        elif request.start == "first":
            self._start(call, 0, [self._store.min_offset(request.topic, queue_id) for queue_id in queues])
        else:
            ends = [self._store.max_offset(request.topic, queue_id) for queue_id in queues]
            self._start(call, self._parts.clock.now_ms(), ends)

    def _offsets_at(self, topic: str, queues: range, timestamp_ms: int) -> list[int]:
        """Worker thread."""
        return [self._store.offset_by_time(topic, queue_id, timestamp_ms, upper=False) for queue_id in queues]

    def _start(self, call: Call[StartConsuming], since_ms: int, offsets: Sequence[int]) -> None:
        request = call.request
        if request.group not in self._state.group_table.documents:
            self._state.stage(self._store, GROUPS, self._state.group_table.event_set(request.group))
        event = self._state.offset_table.event_started(request.group, request.topic, offsets, since_ms)
        end = self._state.stage(self._store, OFFSETS, event)
        self._parts.acknowledgements.staged.append((call, StartReply(since_ms), end, ()))
