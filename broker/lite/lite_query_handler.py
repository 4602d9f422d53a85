"""What operators ask of lite topics and light queues: GetLiteTopics, GetLiteGroup, GetLightQueues. A worker sorts the names;
the loop looks at one page of them."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from ...model.errors import GroupNotFound, InvalidParameter, NotLiteParent
from ...model.topics.light_queues import LIGHT_LENGTH_MAX, LIGHT_PREFIX, is_light_queue, lite_prefix, lite_topic_of
from ...model.topics.lite_settings import is_lite_parent
from ...remoting.commands import GetLightQueues, GetLiteGroup, GetLiteTopics
from ...remoting.server import Call
from ..handlers.parts import Parts
from ..json_reply import reply_json
from ..state.admission import known
from ..state.pop_table import PopTable
from ..state.stored_time import message_at, stored_at_ms
from .subscriptions import LiteSubscriptions

COUNT_MAX: Final = 1000
LOOKS_MAX: Final = 2000  # lite topics of a group that one request looks at


class LiteQueryHandler:
    """See the module."""

    def __init__(self, parts: Parts, subscriptions: LiteSubscriptions) -> None:
        self._parts = parts
        self._store, self._state = parts.store, parts.state
        self._table: PopTable = parts.state.pop_table
        self._subscriptions = subscriptions

    def on_topics(self, call: Call[GetLiteTopics]) -> None:
        """Raises TopicNotFound, NotLiteParent, InvalidParameter, BrokerBusy."""
        request = call.request
        if not is_lite_parent(known(self._state.topic_table, request.topic, 0).attributes):
            raise NotLiteParent(request.topic)
        _check_count(request.count)
        begin, names = lite_prefix(request.topic), self._store.light_queues()
        work = partial(_page, names, begin, begin + request.after, request.count)
        self._parts.workers.run(call, work, partial(self._tell_topics, call))

    def _tell_topics(self, call: Call[GetLiteTopics], found: tuple[int, list[str]]) -> None:
        count, queues = found
        rows = [self._topic_row(queue) for queue in queues]
        following = rows[-1]["lite_topic"] if len(rows) == call.request.count else ""
        reply_json(self._parts.loop, call, {"count": count, "lite_topics": rows, "next": following})

    def _topic_row(self, queue: str) -> dict[str, Any]:
        begin, end = int(self._store.min_offset(queue, 0)), int(self._store.max_offset(queue, 0))
        return {
            "lite_topic": _name_of(queue),
            "min_offset": begin,
            "max_offset": end,
            "last_stored_at_ms": stored_at_ms(self._store, queue, 0, end - 1) if end > begin else None,
            "subscribers": len(self._subscriptions.subscribers(queue)),
        }

    def on_queues(self, call: Call[GetLightQueues]) -> None:
        """Raises InvalidParameter, BrokerBusy."""
        request = call.request
        if not is_light_queue(request.prefix) or len(request.prefix) > LIGHT_LENGTH_MAX:
            raise InvalidParameter("prefix", request.prefix[:64], f"{LIGHT_PREFIX} and what follows")
        _check_count(request.count)
        work = partial(_page, self._store.light_queues(), request.prefix, request.after, request.count)
        self._parts.workers.run(call, work, partial(self._tell_queues, call))

    def _tell_queues(self, call: Call[GetLightQueues], found: tuple[int, list[str]]) -> None:
        count, queues = found
        following = queues[-1] if len(queues) == call.request.count else ""
        rows = [self._queue_row(queue) for queue in queues]
        reply_json(self._parts.loop, call, {"count": count, "light_queues": rows, "next": following})

    def _queue_row(self, queue: str) -> dict[str, Any]:
        begin, end = int(self._store.min_offset(queue, 0)), int(self._store.max_offset(queue, 0))
        newest = message_at(self._store, queue, 0, end - 1) if end > begin else None
        return {
            "light_queue": queue,
            "topic": None if newest is None else newest.topic,
            "min_offset": begin,
            "max_offset": end,
            "last_stored_at_ms": None if newest is None else newest.stored_at_ms,
        }

    def on_group(self, call: Call[GetLiteGroup]) -> None:
        """Raises GroupNotFound, InvalidParameter, BrokerBusy."""
        request = call.request
        if request.group not in self._state.group_table.documents:
            raise GroupNotFound(request.group[:128])
        _check_count(request.count)
        subscribed = [
            name
            for member in self._subscriptions.members()
            if member.name.group == request.group
            for name in member.names
        ]
        popped = self._table.light_queues_of(request.group)

        def work() -> list[str]:
            return sorted({*subscribed, *popped})

        self._parts.workers.run(call, work, partial(self._tell_group, call))

    def _tell_group(self, call: Call[GetLiteGroup], queues: list[str]) -> None:
        request = call.request
        first = bisect_right(queues, request.after) if request.after else 0
        rows: list[dict[str, Any]] = []
        looked_at = first
        while looked_at < min(len(queues), first + LOOKS_MAX) and len(rows) < request.count:
            row = self._group_row(request.group, queues[looked_at])
            looked_at += 1
            if row is not None:
                rows.append(row)
        members = [
            {
                "client_id": member.name.client_id,
                "topic": member.name.parent,
                "lite_topics": len(member.names),
                "ready": len(member.ready),
            }
            for member in self._subscriptions.members()
            if member.name.group == request.group
        ]
        document = {
            "group": request.group,
            "members": sorted(members, key=lambda row: (row["topic"], row["client_id"])),
            "lite_topics": rows,
            "next": queues[looked_at - 1] if looked_at < len(queues) else "",
        }
        reply_json(self._parts.loop, call, document)

    def _group_row(self, group: str, queue_name: str) -> dict[str, Any] | None:
        """None where nothing is left to receive or to acknowledge."""
        begin, end = int(self._store.min_offset(queue_name, 0)), int(self._store.max_offset(queue_name, 0))
        key = group, queue_name, 0
        lite = lite_topic_of(queue_name)
        if lite is None or not self._table.has_left(key, begin, end):
            return None
        queue = self._table.queue(key)
        position = begin if queue is None else max(begin, queue.next)
        leased, available = (0, 0) if queue is None else (queue.leased, len(queue.available))
        return {
            "topic": lite[0],
            "lite_topic": lite[1],
            "next_offset": position,
            "max_offset": end,
            "lag": max(0, end - position) + leased + available,
            "leased": leased,
            "available": available,
        }


def _page(names: Collection[str], begin: str, after: str, count: int) -> tuple[int, list[str]]:
    """(how many begin so, the next ones behind `after`). Any thread."""
    queues = [name for name in names if name.startswith(begin)]
    return len(queues), heapq.nsmallest(count, (name for name in queues if name > after))


def _check_count(count: int) -> None:
    if not 1 <= count <= COUNT_MAX:
        raise InvalidParameter("count", count, f"1 to {COUNT_MAX}")


def _name_of(queue: str) -> str:
    lite = lite_topic_of(queue)
    assert lite is not None
    return lite[1]
