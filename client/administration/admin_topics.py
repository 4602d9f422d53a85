"""The administrator's calls about topics, their brokers, and the offsets of their queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from ...model.clock import monotonic_ms, ms_of_datetime
from ...model.errors import InvalidParameter, NoRoute, RequestTimeout, TopicNotFound
from ...model.names import check_topic
from ...model.queue import MessageQueue, QueueOffset
from ...model.route import PERMISSION_READ_WRITE, TopicRoute
from ...model.topics.lite_settings import is_lite_parent
from ...remoting.commands import (
    CompactTopic,
    CreateTopic,
    GetMaxOffset,
    GetMinOffset,
    GetRoute,
    GetTopics,
    GetTopicStatistics,
    OffsetReply,
    RequestFor,
    SearchOffset,
)
from ..connection.argument_checks import settings_of
from ..connection.route_cache import route_of
from .admin_calls import AdminCalls, masters_of
from .admin_merge import Document, merge_topic_queues, merge_topics

LOOK_AGAIN_MS: Final = 20
COMPACTION_LOOK_MS: Final = 200
NEW_TOPIC_QUEUES: Final = 8
NEW_LITE_QUEUES: Final = 1  # the order is in the light queues; messages of many lite topics travel in one batch


class TopicAdmin(AdminCalls):
    """Calls about topics."""

    async def _create_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        brokers: Iterable[str] | None = None,
        permission: int = PERMISSION_READ_WRITE,
        timeout: float | None = None,
    ) -> None:
        """Creates a topic at every master, or at the named ones, or updates its settings; returns when it is routed.

        `queues`: at each of them; None: as many as it has there, 8 where it is new, 1 where it is new and has lite topics.
        `permission`: 2 = write, 4 = read, 6 = both. `attributes`: your own texts, stored with the topic; and RocketMQ's, as
        {"message.type": "LITE", "lite.topic.expiration": "1440"} (minutes) for a topic that has lite topics. Raises
        InvalidName, InvalidParameter, NoRoute if there is no master, RequestTimeout.
        """
        deadline_ms = self._deadline(timeout)
        check_topic(topic)
        settings = settings_of(attributes)
        chosen = await self._chosen_masters(brokers, deadline_ms)
        held = await self._queue_counts(topic, deadline_ms) if queues is None else {}
        new = NEW_LITE_QUEUES if is_lite_parent(dict(settings)) else NEW_TOPIC_QUEUES
        counts = {name: held.get(name, new) if queues is None else queues for name in chosen}
        for name, address in chosen.items():
            count = counts[name]
            request = CreateTopic(topic, count, count, permission, order, settings)
            await self._call(address, request, deadline_ms)
        await self._wait_routed(topic, counts, deadline_ms)

    async def _queue_counts(self, topic: str, deadline_ms: int) -> dict[str, int]:
        """{broker name: number of queues} of a topic; empty if there is no such topic."""
        try:
            route = await self._fresh_route(topic, deadline_ms)
        except (TopicNotFound, NoRoute):
            return {}
        return {data.broker_name: max(data.read_queues, data.write_queues) for data in route.queues}

    async def _update_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Document:
        """Changes settings of a topic at each master that has it; None leaves one unchanged. Returns when the change is
        routed: {topic, brokers: [{broker_name, read_queues, write_queues, order, attributes}]}.

        Raises TopicNotFound if no broker has it, and InvalidParameter, without a change, if a queue would be removed.
        """
        deadline_ms = self._deadline(timeout)
        masters = await self._masters(deadline_ms)
        answers = await self._documents(masters, GetTopics(), deadline_ms)
        held = {name: entry for name, found in answers.items() for entry in found["topics"] if entry["name"] == topic}
        if not held:
            raise TopicNotFound(topic)
        most = max(max(entry["read_queues"], entry["write_queues"]) for entry in held.values())
        if queues is not None and queues < most:
            raise InvalidParameter(
                "queues", queues, f"at least {most}: queues hold messages, so they are never taken away"
            )
        changed = {name: {**entry["attributes"], **dict(settings_of(attributes))} for name, entry in held.items()}
        for name, entry in held.items():
            request = CreateTopic(
                topic,
                queues or entry["read_queues"],
                queues or entry["write_queues"],
                entry["permission"],
                entry["order"] if order is None else order,
                tuple(sorted(changed[name].items())),
            )
            await self._ask_each({name: masters[name]}, request, deadline_ms)
        await self._wait_routed(
            topic, {name: queues or entry["write_queues"] for name, entry in held.items()}, deadline_ms
        )
        rows = [
            {
                "broker_name": name,
                "read_queues": queues or entry["read_queues"],
                "write_queues": queues or entry["write_queues"],
                "order": entry["order"] if order is None else order,
                "attributes": changed[name],
            }
            for name, entry in sorted(held.items())
        ]
        return {"topic": topic, "brokers": rows}

    async def _compact_topic(self, topic: str, *, timeout: float | None = None) -> Document:
        """Compacts a compacted topic now, at the master of each of its groups, and waits for the end.

        {topic, queues: [{broker_name, queue_id, covered, messages, bytes, tombstones, lost, waits_for}]}. `covered`: messages
        below that offset have been taken from the log, as far as they were confirmed. `waits_for`: why not all were, or None.
        Raises TopicNotFound, NoRoute, InvalidParameter if the topic is not compacted, RequestTimeout: it goes on then.
        """
        deadline_ms = self._deadline(timeout)
        brokers = masters_of(await self._fresh_route(topic, deadline_ms))
        told = await self._documents(brokers, CompactTopic(topic, True), deadline_ms)
        runs = {name: document["ends_run"] for name, document in told.items()}
        while any(document["runs"] <= runs[name] for name, document in told.items()):
            if monotonic_ms() >= deadline_ms:
                raise RequestTimeout(f"topic {topic} is still being compacted", 0)
            await self._waits.sleep(COMPACTION_LOOK_MS)
            told = await self._documents(brokers, CompactTopic(topic), deadline_ms)
        rows = [{"broker_name": name, **row} for name, document in sorted(told.items()) for row in document["queues"]]
        return {"topic": topic, "queues": rows}

    async def _delete_topic(self, topic: str, *, timeout: float | None = None) -> None:
        """Deletes a topic, its messages and the offsets in it, everywhere. Raises TopicNotFound if no broker has it."""
        await self._drop_topic(topic, self._deadline(timeout))

    async def _topics(self, *, timeout: float | None = None) -> list[str]:
        """The names of all topics that the name servers know."""
        return await self._topic_names(self._deadline(timeout))

    async def _topic_configs(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, read_queues, write_queues, permission, order, attributes, system}] of all brokers, by name."""
        deadline_ms = self._deadline(timeout)
        return merge_topics(
            (await self._documents(await self._masters(deadline_ms), GetTopics(), deadline_ms)).values()
        )

    async def _describe_topic(self, topic: str, *, timeout: float | None = None) -> Document:
        """{topic, queues: [{broker_name, queue_id, min_offset, max_offset, last_stored_at_ms, incarnation}]}.

        `incarnation`: another number once the topic was deleted and made again.
        """
        deadline_ms = self._deadline(timeout)
        brokers = masters_of(await self._fresh_route(topic, deadline_ms))
        return merge_topic_queues(topic, await self._documents(brokers, GetTopicStatistics(topic), deadline_ms))

    async def _route(self, topic: str, *, timeout: float | None = None) -> TopicRoute:
        """The brokers of a topic. Raises TopicNotFound, NoRoute if no broker that has it is registered."""
        return await self._fresh_route(topic, self._deadline(timeout))

    async def _queues(self, topic: str, *, timeout: float | None = None) -> list[MessageQueue]:
        """The readable queues of a topic, sorted. Raises as `route` does."""
        return (await self._route(topic, timeout=timeout)).read_queues()

    async def _min_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The oldest offset that a queue still has. Raises TopicNotFound, NoRoute."""
        return await self._offset(queue, GetMinOffset(queue.topic, queue.queue_id), timeout)

    async def _max_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The offset that the queue's next message will get. Raises TopicNotFound, NoRoute."""
        return await self._offset(queue, GetMaxOffset(queue.topic, queue.queue_id), timeout)

    async def _search_offset(
        self, queue: MessageQueue, moment: datetime, *, upper: bool = False, timeout: float | None = None
    ) -> QueueOffset:
        """The first message stored at or after `moment`; `upper`: the last one at or before."""
        request = SearchOffset(queue.topic, queue.queue_id, ms_of_datetime(moment), upper)
        return await self._offset(queue, request, timeout)

    async def _offset(
        self, queue: MessageQueue, request: RequestFor[OffsetReply], timeout: float | None
    ) -> QueueOffset:
        deadline_ms = self._deadline(timeout)
        address = (await self._fresh_route(queue.topic, deadline_ms)).address_of(queue.broker_name)
        if address is None:
            raise NoRoute(queue.topic, f"{queue.broker_name} has no master now")
        reply, _ = await self._call(address, request, deadline_ms)
        return QueueOffset(reply.offset)

    async def _wait_routed(self, topic: str, queues: Mapping[str, int], deadline_ms: int) -> None:
        """Waits until every name server lists the topic at these brokers: a broker registers soon, not at once."""
        for address in self._connection.addresses:
            while not await self._is_routed(address, topic, queues, deadline_ms):
                if monotonic_ms() + LOOK_AGAIN_MS >= deadline_ms:
                    raise RequestTimeout(f"topic {topic} was created but {address} does not route to it yet", 0)
                await self._waits.sleep(LOOK_AGAIN_MS)

    async def _is_routed(self, address: str, topic: str, queues: Mapping[str, int], deadline_ms: int) -> bool:
        try:
            reply, _ = await self._call(address, GetRoute(topic), deadline_ms)
        except (TopicNotFound, NoRoute):
            return False
        counts = {data.broker_name: data.write_queues for data in route_of(topic, reply).queues}
        return all(counts.get(name, 0) >= count for name, count in queues.items())
