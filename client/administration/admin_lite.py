"""The administrator's calls about light queues, lite topics, and what groups have of them."""

from __future__ import annotations

from typing import Final

from ...model.errors import GroupNotFound
from ...model.names import check_group
from ...model.topics.light_queues import LIGHT_PREFIX
from ...remoting.commands import GetLightQueues, GetLiteGroup, GetLiteTopics
from ..connection.documents import document_of
from .admin_calls import AdminCalls, masters_of
from .admin_merge import Document

PAGE: Final = 500


class LiteAdmin(AdminCalls):
    """Light queues and lite topics."""

    async def _lite_topics(self, parent: str, *, limit: int = 1000, timeout: float | None = None) -> Document:
        """{topic, count, lite_topics: [{lite_topic, broker_name, min_offset, max_offset, last_stored_at_ms, subscribers}]}: at
        most `limit` of each broker, by name; `count`: of all at all brokers.

        Raises TopicNotFound, NotLiteParent, NoRoute.
        """
        deadline_ms = self._deadline(timeout)
        count, rows = 0, []
        for name, address in masters_of(await self._fresh_route(parent, deadline_ms)).items():
            after, left = "", limit
            while True:
                request = GetLiteTopics(parent, after, max(1, min(PAGE, left)))
                document = document_of((await self._call(address, request, deadline_ms))[1])
                rows += [{"broker_name": name, **row} for row in document["lite_topics"]]
                after, left = document["next"], left - len(document["lite_topics"])
                if not after or left <= 0:
                    break
            count += document["count"]
        rows.sort(key=lambda row: (row["lite_topic"], row["broker_name"]))
        return {"topic": parent, "count": count, "lite_topics": rows[:limit]}

    async def _light_queues(self, prefix: str = "", *, limit: int = 1000, timeout: float | None = None) -> Document:
        """{prefix, count, light_queues: [{light_queue, broker_name, topic, min_offset, max_offset, last_stored_at_ms}]}: those
        whose names begin so, with or without the %LMQ% in front, at most `limit`, by name. `count`: of all at all brokers.
        `topic`: of the newest message.

        Raises InvalidParameter, NoRoute.
        """
        deadline_ms = self._deadline(timeout)
        begin = prefix if prefix.startswith(LIGHT_PREFIX) else LIGHT_PREFIX + prefix
        count, rows = 0, []
        for name, address in (await self._masters(deadline_ms)).items():
            after, left = "", limit
            while True:
                request = GetLightQueues(begin, after, max(1, min(PAGE, left)))
                document = document_of((await self._call(address, request, deadline_ms))[1])
                rows += [{"broker_name": name, **row} for row in document["light_queues"]]
                after, left = document["next"], left - len(document["light_queues"])
                if not after or left <= 0:
                    break
            count += document["count"]
        rows.sort(key=lambda row: (row["light_queue"], row["broker_name"]))
        return {"prefix": begin, "count": count, "light_queues": rows[:limit]}

    async def _lite_group(self, group: str, *, limit: int = 1000, timeout: float | None = None) -> Document:
        """{group, members: [{client_id, topic, broker_name, lite_topics, ready}], lite_topics: [{topic, lite_topic,
        broker_name, next_offset, max_offset, lag, leased, available}]}: the lite topics of which the group has something to
        receive or to acknowledge, at most `limit`. `lite_topics` of a member: how many it subscribes to.

        Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        members, rows, is_known = [], [], False
        for name, address in (await self._masters(deadline_ms)).items():
            after, left = "", limit
            while True:
                request = GetLiteGroup(check_group(group), after, max(1, min(PAGE, left)))
                try:
                    document = document_of((await self._call(address, request, deadline_ms))[1])
                except GroupNotFound:
                    break
                is_known = True
                if not after:
                    members += [{"broker_name": name, **row} for row in document["members"]]
                rows += [{"broker_name": name, **row} for row in document["lite_topics"]]
                after, left = document["next"], left - len(document["lite_topics"])
                if not after or left <= 0:
                    break
        if not is_known:
            raise GroupNotFound(group)
        rows.sort(key=lambda row: (row["topic"], row["lite_topic"], row["broker_name"]))
        return {"group": group, "members": members, "lite_topics": rows[:limit]}
