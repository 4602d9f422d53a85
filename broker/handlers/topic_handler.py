"""Topics: create, delete, list, describe. Loop thread; changes are events in the log."""

from __future__ import annotations

from collections.abc import Callable

from ...model.errors import InvalidParameter, NoPermission, TopicNotFound
from ...model.names import check_topic, is_system_topic
from ...model.route import CLEANUP_ATTRIBUTE, TYPE_ATTRIBUTE, TopicConfig
from ...model.security.rights import Resource
from ...model.topics.lite_settings import LITE, is_lite_parent
from ...model.topics.topic_attributes import check_attribute
from ...remoting.commands import CompactTopic, CreateTopic, DeleteTopic, Done, GetTopics, GetTopicStatistics
from ...remoting.security.listing import visible
from ...remoting.server import Call, RequestLoop
from ...store.compaction.compacted_manifest import Manifest
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..json_reply import reply_json
from ..state.state_log import TOPICS, StateLog
from ..state.stored_time import stored_at_ms
from ..state.topic_table import check_settings


class TopicHandler:
    """CreateTopic, CompactTopic, DeleteTopic, GetTopics, GetTopicStatistics."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        loop: RequestLoop,
        *,
        queues_max: int,
    ) -> None:
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self._loop = loop
        self._queues_max = queues_max
        self.on_deleted: Callable[[int], None] = _tell_nobody  # told where the log says so

    def on_create(self, call: Call[CreateTopic]) -> None:
        """Creates a topic, or changes its settings; the number of its queues never decreases."""
        request = call.request
        topics = self._state.topic_table
        if is_system_topic(check_topic(request.topic)):
            raise NoPermission(f"system topic {request.topic}", "creating")
        before = topics.configs.get(request.topic)
        held = before.attributes if before is not None else {}
        for name, value in request.attributes:
            if held.get(name) != value:  # what a former broker took, stays
                check_attribute(name, value)
        config = TopicConfig(
            request.topic,
            read_queues=request.read_queues,
            write_queues=request.write_queues,
            permission=request.permission,
            order=request.order,
            attributes={**held, **dict(request.attributes)},
        )
        check_settings(config, before, queues_max=self._queues_max)
        if before is not None and is_lite_parent(before.attributes) != is_lite_parent(config.attributes):
            raise InvalidParameter(
                TYPE_ATTRIBUTE,
                config.attributes[TYPE_ATTRIBUTE],
                f"what it was: an existing topic does not become {LITE}, nor stop being it",
            )
        end = self._state.stage(self._store, TOPICS, topics.event_set(config))
        self._acknowledgements.staged.append((call, Done(), end, ()))

    def on_delete(self, call: Call[DeleteTopic]) -> None:
        """Deletes a topic with its queues and the offsets of its groups."""
        request = call.request
        if is_system_topic(request.topic):
            raise NoPermission(f"system topic {request.topic[:128]}", "deleting")
        if request.topic not in self._state.topic_table.configs:
            raise TopicNotFound(request.topic[:255])
        end = self._state.stage(self._store, TOPICS, self._state.topic_table.event_deleted(request.topic))
        self.on_deleted(int(end))
        self._acknowledgements.staged.append((call, Done(), end, ()))

    def on_compact(self, call: Call[CompactTopic]) -> None:
        """Compacts a topic, or says how far that is. Raises TopicNotFound, InvalidParameter if it is not compacted."""
        topic, compaction = call.request.topic, self._store.compaction
        config = self._state.topic_table.configs.get(topic)
        if config is None:
            raise TopicNotFound(topic[:255])
        if not config.is_compacted:
            raise InvalidParameter("topic", topic, f"one that was created with {CLEANUP_ATTRIBUTE}=COMPACTION")
        ends_run = compaction.ask_for(topic) if call.request.begins else 0
        state, manifests = compaction.state(), self._store.compacted.manifests
        rows = []
        for queue_id in range(max(config.read_queues, config.write_queues)):
            manifest = manifests.get((topic, queue_id), Manifest())
            rows.append(
                {
                    "queue_id": queue_id,
                    "covered": manifest.covered,
                    "messages": manifest.rows,
                    "bytes": manifest.record_bytes,
                    "tombstones": manifest.tombstones,
                    "lost": manifest.lost,
                    "waits_for": state.failed.get((topic, queue_id)),
                }
            )
        progress = {"ends_run": ends_run, "runs": state.runs, "is_running": state.is_running}
        reply_json(self._loop, call, {"topic": topic, **progress, "queues": rows})

    def on_list(self, call: Call[GetTopics]) -> None:
        """All topics, or those of the prefix, and their settings."""
        is_seen = visible(call, Resource.TOPIC)
        topics = [
            {
                "name": config.name,
                "read_queues": config.read_queues,
                "write_queues": config.write_queues,
                "permission": config.permission,
                "order": config.order,
                "attributes": config.attributes,
                "incarnation": config.incarnation,
                "system": is_system_topic(config.name),
            }
            for name, config in sorted(self._state.topic_table.configs.items())
            if name.startswith(call.request.prefix) and is_seen(name)
        ]
        reply_json(self._loop, call, {"topics": topics})

    def on_statistics(self, call: Call[GetTopicStatistics]) -> None:
        """The offsets of each queue of the topic."""
        request = call.request
        config = self._state.topic_table.configs.get(request.topic)
        if config is None:
            raise TopicNotFound(request.topic[:255])
        queues = range(max(config.read_queues, config.write_queues))
        rows = [self._queue_row(request.topic, queue_id) for queue_id in queues]
        kind = {"incarnation": config.incarnation, "compacted": config.is_compacted}
        document = {"topic": request.topic, **kind, "queues": rows}
        reply_json(self._loop, call, document)

    def _queue_row(self, topic: str, queue_id: int) -> dict[str, int | None]:
        begin, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        return {
            "queue_id": queue_id,
            "min_offset": begin,
            "max_offset": end,
            "last_stored_at_ms": stored_at_ms(self._store, topic, queue_id, end - 1) if end > begin else None,
        }


def _tell_nobody(end: int) -> None:
    """Until the handlers are wired."""
