"""Where a push consumer begins in a queue, and where it saves its offsets: at the brokers, or in its own file.

Coroutines of the thread that moves queues, and of the one that closes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from ....model.errors import ConnectionLost, NoRoute, RequestTimeout, TopicNotFound, ZenitError
from ....model.queue import MessageQueue
from ...connection.connection import Connection
from ...connection.waiting import Waits
from ..assignment import Assignment
from ..offset_commits import OnCommitted, OnMoved, commit_and_wait
from ..start_from import StartFrom
from .broadcast_offsets import BroadcastOffsets

log = logging.getLogger(__name__)


class Positions(Protocol):
    """The difference between clustering and broadcasting."""

    async def start(self, topic: str, *, timeout_ms: int) -> None:
        """Makes sure that nothing sent from now on is skipped. Raises why that is impossible."""

    async def begin(self, queues: Sequence[MessageQueue], *, timeout_ms: int) -> dict[MessageQueue, tuple[int, int]]:
        """For queues of one topic and broker: (where to begin, what is committed; -1 = nothing)."""

    async def commit(self, offsets: Mapping[MessageQueue, int], on_done: OnCommitted, *, timeout_ms: int) -> None:
        """Saves them; `on_done` is called for each part. Raises why not all are saved."""


class GroupPositions:
    """The group's offsets at the brokers. `client_id`: who commits, if the queues are locked; else ""."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        group: str,
        assignment: Assignment,
        start_from: StartFrom | datetime,
        retry_topic: str | None,
        client_id: str,
        on_moved: OnMoved,
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._group = group
        self._assignment = assignment
        self._start_from = start_from
        self._retry_topic = retry_topic
        self._client_id = client_id
        self._on_moved = on_moved

    async def start(self, topic: str, *, timeout_ms: int) -> None:
        """See Positions."""
        await self._assignment.start(topic, self._start_of(topic), timeout_ms=timeout_ms)

    async def begin(self, queues: Sequence[MessageQueue], *, timeout_ms: int) -> dict[MessageQueue, tuple[int, int]]:
        """See Positions."""
        start_from = self._start_of(queues[0].topic)
        offsets = await self._assignment.begin_offsets(queues, start_from, timeout_ms=timeout_ms)
        return {queue: (offset, offset) for queue, offset in offsets.items()}

    async def commit(self, offsets: Mapping[MessageQueue, int], on_done: OnCommitted, *, timeout_ms: int) -> None:
        """See Positions."""
        await commit_and_wait(
            self._connection,
            self._waits,
            self._group,
            offsets,
            timeout_ms=timeout_ms,
            on_done=on_done,
            on_moved=self._on_moved,
            client_id=self._client_id,
        )

    def _start_of(self, topic: str) -> StartFrom | datetime:
        """Messages that failed before are never skipped, wherever the group begins in its topics."""
        return StartFrom.FIRST if topic == self._retry_topic else self._start_from


class LocalPositions:
    """One member's offsets in its file. A queue that is added to a known topic later begins with its first message."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        assignment: Assignment,
        start_from: StartFrom | datetime,
        offsets: BroadcastOffsets,
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._assignment = assignment
        self._start_from = start_from
        self._offsets = offsets

    async def start(self, topic: str, *, timeout_ms: int) -> None:
        """See Positions: the first call for a topic saves the offsets of all its queues at once."""
        if self._offsets.knows(topic):
            await self._mean_cluster(topic, timeout_ms)
        if self._offsets.knows(topic):
            return
        route = await self._connection.routes.route(topic, self._waits, timeout_ms=timeout_ms)
        self._offsets.mean(self._connection.remoting.cluster_id)
        self._offsets.save(
            {queue: await self._offset_of(queue, self._start_from, timeout_ms) for queue in route.read_queues()}
        )

    async def begin(self, queues: Sequence[MessageQueue], *, timeout_ms: int) -> dict[MessageQueue, tuple[int, int]]:
        """See Positions."""
        await self.start(queues[0].topic, timeout_ms=timeout_ms)
        begun = {}
        for queue in queues:
            kept = self._offsets.offset(queue)
            if kept is None:
                begun[queue] = await self._offset_of(queue, StartFrom.FIRST, timeout_ms), -1
            else:
                begun[queue] = kept, kept
        return begun

    async def _mean_cluster(self, topic: str, timeout_ms: int) -> None:
        """Forgets offsets that belong to another cluster. If the cluster does not answer, it is taken to be the same."""
        remoting = self._connection.remoting
        if not remoting.cluster_id:
            with suppress(NoRoute, TopicNotFound, ConnectionLost, RequestTimeout):
                await self._connection.routes.route(topic, self._waits, timeout_ms=timeout_ms)
        if not self._offsets.mean(remoting.cluster_id):
            log.warning("another cluster is at these name servers: offsets of the one before are forgotten")

    async def _offset_of(self, queue: MessageQueue, start_from: StartFrom | datetime, timeout_ms: int) -> int:
        return await self._assignment.start_offset(queue, start_from, timeout_ms=timeout_ms)

    async def commit(self, offsets: Mapping[MessageQueue, int], on_done: OnCommitted, *, timeout_ms: int) -> None:  # noqa: ARG002  # a file has no time limit
        """See Positions."""
        part = list(offsets.items())
        try:
            self._offsets.save(offsets)
        except ZenitError as error:
            on_done(part, error)
            raise
        on_done(part, None)
