"""Finds and reads dead letters. `redrive` sends them again.

Each request to a broker has the caller's whole time limit.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from ...model.clock import ms_of_datetime
from ...model.errors import CorruptRecordError, InvalidParameter, NoRoute, TopicNotFound
from ...model.get_status import GetStatus
from ...model.names import DEAD_LETTER_PREFIX, check_group
from ...model.properties import DEAD_LETTER_REASON
from ...model.queue import MessageQueue
from ...model.redelivery import dead_letter_group, dead_letter_origin, dead_letter_topic
from ...model.route import TopicRoute
from ...record.kernel import MessageBatch, StoredMessage, decode_batch
from ...remoting.commands import (
    ConsumerOffsetReply,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    PullMessages,
    PullReply,
    QueryConsumerOffset,
    Reply,
    RequestFor,
    SearchOffset,
)
from ..connection.connection import Connection
from ..connection.new_topics import new_topics, whole_route
from ..connection.waiting import Waits
from .redrive_plan import REDRIVER, QueueState

_Reply = TypeVar("_Reply", bound=Reply)

log = logging.getLogger(__name__)

PULL_MESSAGES: Final = 256
PULL_BYTES: Final = 1024 * 1024

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group gave up. `origin_topic`: "" if unknown. `attempts`: how often it was handled."""

    group: str
    message: StoredMessage
    origin_topic: str
    origin_message_id: str
    reason: str
    attempts: int

    @staticmethod
    def of(group: str, message: StoredMessage) -> DeadLetter:
        """Creates one from a record in the group's dead letter topic."""
        properties = message.properties
        origin = dead_letter_origin(message.offset_message_id, properties)
        reason = properties.get(DEAD_LETTER_REASON, "")
        return DeadLetter(group, message, origin.topic, origin.message_id, reason, message.reconsume_times)


class DeadLetters:
    """The dead letters of one cluster, read through `waits`."""

    def __init__(self, connection: Connection, waits: Waits, *, timeout_ms: int) -> None:
        """`timeout_ms`: for each request to a broker."""
        self._connection = connection
        self._waits = waits
        self._timeout_ms = timeout_ms
        self._routes: dict[str, TopicRoute] = {}  # as they were first asked for, with what no name server told yet

    async def groups(self) -> list[str]:
        """The groups that have a dead letter topic, sorted."""
        connection, waits = self._connection, self._waits
        topics = set(await connection.servers.topics(waits, timeout_ms=self._timeout_ms))
        topics |= await new_topics(connection, waits, DEAD_LETTER_PREFIX, timeout_ms=self._timeout_ms)
        return sorted(group for topic in topics if (group := dead_letter_group(topic)) is not None)

    async def summary(self, group: str) -> Document:
        """{group, topic, letters, redriven, oldest_at_ms, newest_at_ms} of the present letters, which may be none."""
        states = await self.states(group)
        held = [state for state in states if state.maximum > state.minimum]
        ends = [await self._read_one(state.queue, at) for state in held for at in (state.minimum, state.maximum - 1)]
        stamps = [message.stored_at_ms for message in ends if message is not None]
        return {
            "group": group,
            "topic": dead_letter_topic(group),
            "letters": sum(state.maximum - state.minimum for state in states),
            "redriven": sum(max(0, min(state.done, state.maximum) - state.minimum) for state in states),
            "oldest_at_ms": min(stamps, default=None),
            "newest_at_ms": max(stamps, default=None),
        }

    async def newest(self, group: str, max_messages: int) -> list[DeadLetter]:
        """The newest letters of a group, newest first."""
        if max_messages < 1:
            raise InvalidParameter("max_messages", max_messages, "at least 1")
        found: list[StoredMessage] = []
        for state in await self.states(group):
            begin = max(state.minimum, state.maximum - max_messages)
            async for batch, _ in self.batches(state.queue, begin, state.maximum):
                found.extend(batch)
        found.sort(key=lambda message: (message.stored_at_ms, message.physical_offset), reverse=True)
        return [DeadLetter.of(group, message) for message in found[:max_messages]]

    async def states(
        self,
        group: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        redrivers: Sequence[str] = (REDRIVER,),
    ) -> list[QueueState]:
        """The state of each queue of a group's dead letters; none if it never gave a message up.

        `redrivers`: a letter counts as sent again if any of these groups remembers it.
        """
        topic = dead_letter_topic(check_group(group))
        try:
            route = await whole_route(self._connection, self._waits, topic, timeout_ms=self._timeout_ms)
        except TopicNotFound:
            return []
        self._routes[topic] = route
        return [
            QueueState(
                queue,
                await self._offset(queue, GetMinOffset(topic, queue.queue_id)),
                await self._offset(queue, GetMaxOffset(topic, queue.queue_id)),
                max([await self._offset(queue, QueryConsumerOffset(by, topic, queue.queue_id)) for by in redrivers]),
                None if since is None else await self._offset_at(queue, ms_of_datetime(since)),
                None if until is None else await self._offset_at(queue, ms_of_datetime(until) + 1),
            )
            for queue in route.read_queues()
        ]

    async def batches(
        self, queue: MessageQueue, begin: int, end: int
    ) -> AsyncIterator[tuple[list[StoredMessage], int]]:
        """The letters of [begin, end) in order, some at a time, each time with the offset behind them."""
        at = begin
        while at < end:
            wanted = min(PULL_MESSAGES, end - at)
            pull = PullMessages(REDRIVER, queue.topic, queue.queue_id, at, wanted, PULL_BYTES)
            reply, letters = await self._pull(queue, pull)
            if letters is None:  # the broker checks its log
                reply, letters = await self._pull(queue, replace(pull, is_doubted=True))
            if reply.next_offset <= at:
                return  # the letters were deleted meanwhile
            if reply.status == GetStatus.MESSAGES_LOST:
                log.warning("letters lost queue=%s begin=%d end=%d", queue, reply.lost_from, reply.next_offset)

            at = min(reply.next_offset, end)
            yield list(letters or ()), at

    async def _pull(self, queue: MessageQueue, pull: PullMessages) -> tuple[PullReply, MessageBatch | None]:
        """The reply and its letters; None if the answer is damaged.

        Raises CorruptRecordError if the answer to a repeated request is.
        """
        reply, payload = await self.ask(queue, pull)
        try:
            letters = decode_batch(payload, queue.broker_name)
        except CorruptRecordError:
            if pull.is_doubted:
                raise
            return reply, None
        return reply, letters if pull.is_doubted or letters.first_damaged() < 0 else None

    async def ask(self, queue: MessageQueue, request: RequestFor[_Reply]) -> tuple[_Reply, bytes]:
        """Asks the queue's master. Raises NoRoute."""
        routes = (self._connection.routes.cached(queue.topic), self._routes.get(queue.topic))
        addresses = [route.address_of(queue.broker_name) for route in routes if route is not None]
        address = next((address for address in addresses if address is not None), None)
        if address is None:
            raise NoRoute(queue.topic, f"{queue.broker_name} has no master now")
        return await self._waits.call(address, request, timeout_ms=self._timeout_ms)

    async def _read_one(self, queue: MessageQueue, offset: int) -> StoredMessage | None:
        async for batch, _ in self.batches(queue, offset, offset + 1):
            if batch:
                return batch[0]
        return None

    async def _offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first letter stored at or after a time; the end if there is none."""
        return await self._offset(queue, SearchOffset(queue.topic, queue.queue_id, timestamp_ms))

    async def _offset(self, queue: MessageQueue, request: RequestFor[OffsetReply | ConsumerOffsetReply]) -> int:
        reply, _ = await self.ask(queue, request)
        return reply.offset
