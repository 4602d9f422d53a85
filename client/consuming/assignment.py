"""Finds which queues a consumer should have now, and where it begins in each: asks the brokers, pure parts decide.

Coroutines of the poller; every request has a deadline.

Why each queue has exactly one owner
-----------------------------------------
All members ask the same brokers, in the same order, who subscribes to a topic, and divide the topic's queues by that
answer alone (allocation). Shares computed from one list are disjoint, and together they are all
queues; members that do not subscribe to the topic are not on it. The lists of members differ only while news is in transit:

- Every member with a share is on the list: a member announces itself, waits for the answer, and only then asks. If it does not
  find itself it has no share, and announces itself again.
- A broker notifies the members of each change (`ConsumersChanged`). The check that each member makes every 20 s covers a lost
  notice, and a broker that could not be asked.
- A broker that has just become master knows nobody: its list is not `settled` before all have had the time for a heartbeat.
  Until then a member that misses another one there keeps its share.

So once the members have seen a change, a queue has one owner, and only that one delivers its messages: a member gives up
a queue at the check, before it delivers anything more. Until then two may deliver the same messages. Handled
twice are the messages that the former owner had and had not committed when the new one asked for the offset. They
are few: a notified member commits what it has finished at once, and the rest at its next poll; the new owner of a queue
gives the others a moment for that. Later commits never move the group back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar

from ...model.clock import ms_of_datetime
from ...model.errors import NoRoute, RemoteProtocolError, WrongCluster, ZenitError
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ...model.subscription import MessageModel
from ...remoting.commands import (
    ConsumerListReply,
    GetBeginOffsets,
    GetConsumerList,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    Reply,
    RequestFor,
    SearchOffset,
    StartConsuming,
)
from ..connection.connection import Connection
from ..connection.membership import Member
from ..connection.waiting import Waits
from .allocation import Allocation, share_of
from .start_from import StartFrom

_Reply = TypeVar("_Reply", bound=Reply)

log = logging.getLogger(__name__)

HANDOVER_MS: Final = 50


def _shares_out(member: Member) -> bool:
    """A broadcasting consumer is on no topic's list, only on the group's."""
    return member.consumer is not None and member.consumer[1] == MessageModel.CLUSTERING.value


class Assignment:
    """One member's view of its group. Used by one thread at a time."""

    def __init__(
        self, connection: Connection, waits: Waits, group: str, client_id: str, allocation: Allocation
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._group = group
        self._client_id = client_id
        self._allocation = allocation
        self._announced: dict[str, Member] = {}
        self._seen: dict[
            str, tuple[tuple[str, ...], list[MessageQueue]]
        ] = {}  # by topic: members, our share at that time
        self._lives: dict[tuple[str, str], int] = {}  # by (topic, broker name): the last seen incarnation
        self._started: set[tuple[str, str]] = set()  # (topic, broker name) that have recorded where the group begins

    async def start(self, topic: str, start_from: StartFrom | datetime, *, timeout_ms: int) -> None:
        """Makes every broker of the topic record where the group begins there, so that nothing sent from now on is skipped.

        A broker that got the topic later begins where the group did on the others. A recorded begin is not
        requested again. Raises why a broker could not be asked, after the others were.
        """
        route = await self._connection.routes.route(topic, self._waits, timeout_ms=timeout_ms)
        names = sorted(broker.broker_name for broker in route.brokers)
        fresh = [name for name in names if (topic, name) not in self._started]
        if not fresh:
            return
        failure: ZenitError | None = None
        since_ms: dict[str, int] = {}
        for name in names:
            try:
                since_ms[name] = await self._start_on(topic, name, "", 0, timeout_ms)
            except ZenitError as error:
                failure = failure or error
        begun = [since for since in since_ms.values() if since >= 0]
        start, value = _start_words(start_from) if not begun else ("time", min(begun)) if min(begun) else ("first", 0)
        for name, since in since_ms.items():
            try:
                if since < 0:
                    await self._start_on(topic, name, start, value, timeout_ms)
                self._started.add((topic, name))
            except ZenitError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _start_on(self, topic: str, broker_name: str, start: str, value: int, timeout_ms: int) -> int:
        address = self._connection.routes.address_of(topic, broker_name)
        request = StartConsuming(self._group, topic, start, value)
        reply, _ = await self._waits.call(address, request, timeout_ms=timeout_ms)
        return reply.since_ms

    def may_pass(self, error: ZenitError, topics: Iterable[str]) -> bool:
        """True if a consumer should wait until this error ends: a broker is missing, or one in the routes does not serve.

        Without a route the name servers themselves do not answer. Their address may be wrong, so that is raised at once.
        """
        if isinstance(error, NoRoute):
            return True
        if not error.retriable or isinstance(error, WrongCluster):
            return False
        return all(self._connection.routes.cached(topic) is not None for topic in topics)

    def refresh_soon(self, topics: Iterable[str]) -> None:
        """Refreshes the routes of the topics, without waiting for the answer."""
        for topic in topics:
            self._connection.routes.refresh_soon(topic)

    async def begin_offsets(
        self, queues: Sequence[MessageQueue], start_from: StartFrom | datetime, *, timeout_ms: int
    ) -> dict[MessageQueue, int]:
        """The group's offsets in queues of one topic and broker; a queue without one begins at its first message. The
        names have the era.
        """
        topic = queues[0].topic
        await self.start(topic, start_from, timeout_ms=timeout_ms)
        request = GetBeginOffsets(self._group, topic, tuple(queue.queue_id for queue in queues))
        reply = await self._ask(queues[0], request, timeout_ms)
        if not len(reply.offsets) == len(reply.eras) == len(queues):
            raise RemoteProtocolError("the reply with a group's offsets does not have one for each queue")
        begin = (committed if committed >= 0 else first for committed, first in reply.offsets)
        named = (replace(queue, era=era) for queue, era in zip(queues, reply.eras, strict=True))
        return dict(zip(named, begin, strict=True))

    async def queues_of(self, topics: list[str], member: Member, *, timeout_ms: int) -> tuple[list[MessageQueue], bool]:
        """(this member's queues, whether the brokers already know it and its fellows).

        Raises what prevents knowing a topic's route or the group's members: the queues then stay as they are; and
        DuplicateClient, InvalidParameter (the allocation).
        """
        mine: list[MessageQueue] = []
        are_known = True
        for topic in topics:
            route = await self._connection.routes.route(topic, self._waits, timeout_ms=timeout_ms)
            addresses = [
                broker.master_address
                for broker in sorted(route.brokers, key=lambda broker: broker.broker_name)
                if broker.master_address is not None
            ]
            if not addresses:
                raise NoRoute(topic, "no broker that serves it is up")
            self._watch_lives(topic, route)
            await self._announce(member, addresses, timeout_ms)
            reply = await self._members(addresses, topic if _shares_out(member) else "", timeout_ms)
            share, is_known = self._share(topic, reply, route.read_queues())
            are_known = are_known and is_known
            mine += share
        return mine, are_known

    def _share(
        self, topic: str, reply: ConsumerListReply, queues: list[MessageQueue]
    ) -> tuple[list[MessageQueue], bool]:
        members = reply.client_ids
        before, share = self._seen.get(topic, ((), []))
        if not reply.settled and not set(before) <= set(members):
            return sorted(set(share).intersection(queues)), False
        share = share_of(self._allocation, self._client_id, members, queues)
        self._seen[topic] = members, share
        return share, self._client_id in members

    async def wait_for_fellows(self) -> None:
        """Called before the offset of a queue is requested: gives the former owner a moment to commit."""
        if any(member != self._client_id for members, _ in self._seen.values() for member in members):
            await self._waits.sleep(HANDOVER_MS)

    def forget_announcements(self) -> None:
        """Sends a heartbeat to every broker at the next check: one of them does not know this member."""
        self._announced.clear()

    async def _announce(self, member: Member, addresses: list[str], timeout_ms: int) -> None:
        fresh = [address for address in addresses if self._announced.get(address) != member]
        if fresh:
            await self._connection.members.announce(member, fresh, self._waits, timeout_ms=timeout_ms)
            self._announced.update(dict.fromkeys(fresh, member))

    async def _members(self, addresses: list[str], topic: str, timeout_ms: int) -> ConsumerListReply:
        """The answer of the first broker: all members ask in the same order, so they see the same list."""
        failure: ZenitError | None = None
        for address in addresses:
            try:
                reply, _ = await self._waits.call(
                    address, GetConsumerList(self._group, topic), timeout_ms=max(1, timeout_ms // len(addresses))
                )
            except ZenitError as error:
                failure = failure or error
            else:
                return reply
        raise failure or NoRoute(self._group, "no broker answered")

    async def committed_offset(self, queue: MessageQueue, *, timeout_ms: int) -> tuple[int, int]:
        """(the group's committed offset in the queue, -1 = none; its era)."""
        request = QueryConsumerOffset(self._group, queue.topic, queue.queue_id)
        reply = await self._ask(queue, request, timeout_ms)
        return reply.offset, reply.era

    async def start_offset(self, queue: MessageQueue, start_from: StartFrom | datetime, *, timeout_ms: int) -> int:
        """The offset of that place in a queue now."""
        request: RequestFor[OffsetReply]
        if isinstance(start_from, datetime):
            request = SearchOffset(queue.topic, queue.queue_id, ms_of_datetime(start_from))
        elif start_from is StartFrom.FIRST:
            request = GetMinOffset(queue.topic, queue.queue_id)
        else:
            request = GetMaxOffset(queue.topic, queue.queue_id)
        reply = await self._ask(queue, request, timeout_ms)
        return reply.offset

    async def as_routed(self, queues: Iterable[MessageQueue], *, timeout_ms: int) -> list[MessageQueue]:
        """The same queues, each of the present topic."""
        named = []
        for queue in queues:
            route = await self._connection.routes.route(queue.topic, self._waits, timeout_ms=timeout_ms)
            self._watch_lives(queue.topic, route)
            lives = {data.broker_name: data.incarnation for data in route.queues}
            named.append(replace(queue, incarnation=lives.get(queue.broker_name, 0)))
        return named

    def _watch_lives(self, topic: str, route: TopicRoute) -> None:
        """Reports a topic that was created again, even if no check fell between its deletion and that."""
        lives = {(topic, data.broker_name): data.incarnation for data in route.queues if data.incarnation}
        anew = [name for (_, name), life in sorted(lives.items()) if self._lives.get((topic, name), life) != life]
        if anew:
            log.warning(
                "a topic was made anew, beginning with its first message group=%s topic=%s brokers=%s",
                *(self._group, topic, anew),
            )
        self._lives |= lives

    async def _ask(self, queue: MessageQueue, request: RequestFor[_Reply], timeout_ms: int) -> _Reply:
        routes = self._connection.routes
        await routes.route(queue.topic, self._waits, timeout_ms=timeout_ms)
        address = routes.address_of(queue.topic, queue.broker_name)
        reply, _ = await self._waits.call(address, request, timeout_ms=timeout_ms)
        return reply


def made_anew(held: Iterable[MessageQueue], present: Iterable[MessageQueue]) -> set[MessageQueue]:
    """The owned queues of a topic that was deleted and created again."""
    lives = {queue: queue.incarnation for queue in present}
    return {queue for queue in held if queue.incarnation and lives.get(queue, 0) not in (0, queue.incarnation)}


def by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    """The queues by topic and broker: one request for each."""
    parts: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault((queue.topic, queue.broker_name), []).append(queue)
    return list(parts.values())


def _start_words(start_from: StartFrom | datetime) -> tuple[str, int]:
    """`start` and `value` of a StartConsuming."""
    if isinstance(start_from, datetime):
        return "time", max(0, ms_of_datetime(start_from))
    return start_from.value.lower(), 0
