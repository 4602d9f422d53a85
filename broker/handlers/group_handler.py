"""Consumer groups: create, delete, list, lag. Loop thread; changes are events in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...model.clock import Clock
from ...model.errors import GroupNotFound, InvalidParameter
from ...model.names import check_group
from ...model.route import TopicConfig
from ...model.security.rights import Resource
from ...model.topics.light_queues import is_light_queue
from ...remoting.commands import CreateGroup, DeleteGroup, Done, GetConsumeStatistics, GetGroups
from ...remoting.security.listing import visible
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..json_reply import reply_json
from ..state.client_registry import ClientRegistry
from ..state.consume_progress import QueueProgress
from ..state.state_log import GROUPS, StateLog
from ..state.stored_time import stored_at_ms


class GroupHandler:
    """CreateGroup, DeleteGroup, GetGroups, GetConsumeStatistics."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        loop: RequestLoop,
        clock: Clock,
        registry: ClientRegistry,
    ) -> None:
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self._loop = loop
        self._clock = clock
        self._registry = registry
        self.on_deleted: Callable[[int], None] = _tell_nobody  # told where the log says so

    def on_create(self, call: Call[CreateGroup]) -> None:
        """Creates a group, or changes its settings."""
        request = call.request
        event = self._state.group_table.event_set(check_group(request.group), request.attributes)
        end = self._state.stage(self._store, GROUPS, event)
        self._acknowledgements.staged.append((call, Done(), end, ()))

    def on_delete(self, call: Call[DeleteGroup]) -> None:
        """Deletes a group and its offsets; refused while it has members."""
        request = call.request
        if request.group not in self._known_groups():
            raise GroupNotFound(request.group[:128])
        members = self._registry.members(request.group)
        if members:
            raise InvalidParameter("group", request.group, f"a group without members; {len(members)} are connected")
        end = self._state.stage(self._store, GROUPS, self._state.group_table.event_deleted(request.group))
        self.on_deleted(int(end))
        self._acknowledgements.staged.append((call, Done(), end, ()))

    def on_list(self, call: Call[GetGroups]) -> None:
        """All groups, their members and the topics that they consume."""
        is_seen = visible(call, Resource.GROUP)
        groups = [
            {
                "name": group,
                "members": list(self._registry.members(group)),
                "topics": self._topics_of(group),
                "attributes": self._state.group_table.documents.get(group, {}),
            }
            for group in sorted(self._known_groups())
            if is_seen(group)
        ]
        reply_json(self._loop, call, {"groups": groups})

    def on_statistics(self, call: Call[GetConsumeStatistics]) -> None:
        """The lag of a group, queue by queue."""
        request = call.request
        if request.group not in self._known_groups():
            raise GroupNotFound(request.group[:128])
        now_ms = self._clock.now_ms()
        rows: list[dict[str, Any]] = []
        topics = self._topics_of(request.group)
        for topic in topics:
            config = self._state.topic_table.configs.get(topic)
            if config is not None:
                rows.extend(self._rows(request.group, config, now_ms))
            elif is_light_queue(topic) and self._store.has_light_queue(topic):
                rows.append(self._progress(request.group, topic, 0).document(now_ms, owner=None))
        members = list(self._registry.members(request.group))
        sharing = {topic: self._registry.sharing(request.group, topic) for topic in topics}
        conflicts = [disagreement.document() for disagreement in self._registry.disagreements(request.group)]
        document = {
            "group": request.group,
            "members": members,
            "queues": rows,
            "sharing": sharing,
            "conflicts": conflicts,
        }
        reply_json(self._loop, call, document)

    def _rows(self, group: str, config: TopicConfig, now_ms: int) -> list[dict[str, Any]]:
        rows = [
            self._progress(group, config.name, queue_id).document(
                now_ms, owner=self._state.queue_locks.owner(group, config.name, queue_id)
            )
            for queue_id in range(config.read_queues)
        ]
        return [{**row, "incarnation": config.incarnation} for row in rows]

    def _progress(self, group: str, topic: str, queue_id: int) -> QueueProgress:
        begin, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        committed = self._state.offset_table.offset(group, topic, queue_id)
        next_offset = max(committed, begin)
        oldest_ms = stored_at_ms(self._store, topic, queue_id, next_offset) if begin <= next_offset < end else None
        has_begun = self._state.offset_table.has_begun(group, topic)
        return QueueProgress(topic, queue_id, begin, end, committed, has_begun, oldest_ms)

    def _known_groups(self) -> set[str]:
        return {*self._state.group_table.documents, *self._state.offset_table.groups(), *self._registry.groups()}

    def _topics_of(self, group: str) -> list[str]:
        return sorted({*self._state.offset_table.topics_of(group), *self._registry.topics_of(group)})


def _tell_nobody(end: int) -> None:
    """Until the handlers are wired."""
