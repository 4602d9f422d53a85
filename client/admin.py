"""The administrator's side: topics, groups, brokers, single messages.

Every method asks all brokers that have a part in it and puts the answers together. Each takes `timeout`, seconds for
everything it does; what a broker answered with an error is raised.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from ..model.clock import monotonic_ms, ms_of_datetime
from ..model.errors import (
    ClientClosed,
    GroupNotFound,
    InvalidParameter,
    MessageNotFound,
    NoRoute,
    RemoteProtocolError,
    RequestTimeout,
    TopicNotFound,
    ZenitError,
)
from ..model.ids import HostAddress, parse_offset_message_id
from ..model.names import TRACE_TOPIC, check_group, check_topic
from ..model.queue import MessageQueue, PhysicalOffset, QueueOffset
from ..model.route import PERMISSION_READ_WRITE, TopicRoute
from ..remoting.commands import (
    AddWritePermission,
    CloneOffsets,
    CountReply,
    CreateGroup,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DeleteTopicRoute,
    GetBrokerConfig,
    GetBrokerStatistics,
    GetClusterInfo,
    GetConsumeStatistics,
    GetGroupClients,
    GetGroups,
    GetMaxOffset,
    GetMinOffset,
    GetRoute,
    GetTopicList,
    GetTopics,
    GetTopicStatistics,
    OffsetReply,
    QueryMessages,
    Reply,
    Request,
    ResetOffsets,
    RouteReply,
    SearchOffset,
    TopicListReply,
    ViewMessage,
    WipeWritePermission,
)
from ..store.record_kernel import StoredMessage, decode_batch
from .admin_merge import (
    Document,
    merge_clients,
    merge_group,
    merge_groups,
    merge_resets,
    merge_topic_queues,
    merge_topics,
)
from .connection import Connection, connect, release
from .dead_letters import DeadLetter, DeadLetters
from .letter_selection import EVERY_LETTER, LetterSelection
from .message_trace import Finder, find_journey
from .redrive import OnProgress, Redrive
from .route_cache import route_of
from .waiting import Blocking, Waits, blocking

TIMEOUT_S: Final = 10.0
LOOK_AGAIN_MS: Final = 20
END_OF_TIME_MS: Final = 1 << 62


class AdminCore(ABC):
    """All of an administrator's connection but how it waits: `Admin` here does so in the calling thread, the one of
    `zenitmq.aio` on an event loop. What waits is a coroutine with an underscore, given its name by both.
    """

    def __init__(self, namesrv: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        """`timeout`: seconds for each call that is not given its own. Raises InvalidParameter."""
        if not timeout > 0:
            raise InvalidParameter("timeout", timeout, "seconds, more than 0")
        self._timeout_ms = max(1, round(timeout * 1000))
        self._connection = connect(namesrv)
        self._waits = self._new_waits(self._connection)
        self._is_closed = False

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """How it waits."""

    async def _close(self) -> None:
        """Lets go of the connection. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            await release(self._connection, self._waits)

    # ---- topics

    async def _create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        brokers: Iterable[str] | None = None,
        permission: int = PERMISSION_READ_WRITE,
        timeout: float | None = None,
    ) -> None:
        """Creates a topic at every master, or at the named ones, or gives it these settings; returns once it is routed."""
        deadline_ms = self._deadline(timeout)
        request = CreateTopic(
            check_topic(topic), queues, queues, permission, order, tuple(sorted((attributes or {}).items()))
        )
        chosen = await self._chosen_masters(brokers, deadline_ms)
        await self._ask_each(chosen, request, deadline_ms)
        await self._wait_routed(topic, dict.fromkeys(chosen, queues), deadline_ms)

    async def _delete_topic(self, topic: str, *, timeout: float | None = None) -> None:
        """Deletes a topic, its messages and the offsets in it, everywhere. Raises TopicNotFound where no broker has it."""
        deadline_ms = self._deadline(timeout)
        await self._ask_some(await self._masters(deadline_ms), DeleteTopic(topic), deadline_ms, TopicNotFound(topic))
        for address in self._connection.addresses:
            await self._call(address, DeleteTopicRoute(topic), deadline_ms)

    async def _topics(self, *, timeout: float | None = None) -> list[str]:
        """The names of all topics the name servers know."""
        reply, _ = await self._ask_name_server(GetTopicList(), self._deadline(timeout))
        if not isinstance(reply, TopicListReply):
            raise RemoteProtocolError("a list of topics was not answered with one")
        return list(reply.topics)

    async def _topic_configs(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, read_queues, write_queues, permission, order, attributes, system}] of all brokers, by name."""
        deadline_ms = self._deadline(timeout)
        return merge_topics(
            (await self._documents(await self._masters(deadline_ms), GetTopics(), deadline_ms)).values()
        )

    async def _describe_topic(self, topic: str, *, timeout: float | None = None) -> Document:
        """{topic, queues: [{broker_name, queue_id, min_offset, max_offset, last_stored_at_ms}]}."""
        deadline_ms = self._deadline(timeout)
        brokers = _masters_of(await self._fresh_route(topic, deadline_ms))
        return merge_topic_queues(topic, await self._documents(brokers, GetTopicStatistics(topic), deadline_ms))

    async def _route(self, topic: str, *, timeout: float | None = None) -> TopicRoute:
        """Where a topic lives. Raises TopicNotFound."""
        return await self._fresh_route(topic, self._deadline(timeout))

    async def _queues(self, topic: str, *, timeout: float | None = None) -> list[MessageQueue]:
        """The queues of a topic that may be read, sorted."""
        return (await self._route(topic, timeout=timeout)).read_queues()

    async def _min_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The oldest offset that a queue still holds."""
        return await self._offset(queue, GetMinOffset(queue.topic, queue.queue_id), timeout)

    async def _max_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The offset that the queue's next message will get."""
        return await self._offset(queue, GetMaxOffset(queue.topic, queue.queue_id), timeout)

    async def _search_offset(
        self, queue: MessageQueue, moment: datetime, *, upper: bool = False, timeout: float | None = None
    ) -> QueueOffset:
        """The first message stored at or after `moment`; `upper`: the last one at or before."""
        request = SearchOffset(queue.topic, queue.queue_id, ms_of_datetime(moment), upper)
        return await self._offset(queue, request, timeout)

    # ---- groups

    async def _create_group(
        self, group: str, attributes: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> None:
        """Creates a group at every master, or gives it these settings (values as JSON text)."""
        deadline_ms = self._deadline(timeout)
        request = CreateGroup(check_group(group), tuple(sorted((attributes or {}).items())))
        await self._ask_each(await self._masters(deadline_ms), request, deadline_ms)

    async def _groups(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, members, topics, ...}] of all brokers, by name."""
        deadline_ms = self._deadline(timeout)
        return merge_groups(
            (await self._documents(await self._masters(deadline_ms), GetGroups(), deadline_ms)).values()
        )

    async def _describe_group(self, group: str, *, timeout: float | None = None) -> Document:
        """{group, members, lag, queues: [{topic, broker_name, queue_id, broker_queue_offset, consumer_queue_offset, lag,
        lag_seconds, owner}], conflicts: [{topic, subscriptions: [{kind, expression, members}]}]}; None = unknown.

        Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = GetConsumeStatistics(check_group(group))
        brokers = await self._masters(deadline_ms)
        return merge_group(group, await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group)))

    async def _group_clients(self, group: str, *, timeout: float | None = None) -> Document:
        """{group, clients: [{client_id, model, language, version, host, pid, started_at_ms, allocation, silent_ms,
        subscriptions}]}: the members and what they tell of themselves; `silent_ms`: since the last heartbeat.

        Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = GetGroupClients(check_group(group))
        brokers = await self._masters(deadline_ms)
        documents = await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group))
        return merge_clients(group, documents.values())

    async def _lag(self, group: str, *, timeout: float | None = None) -> dict[MessageQueue, int | None]:
        """How many messages a group has still to consume, queue by queue; None = unknown. Raises GroupNotFound."""
        rows = (await self._describe_group(group, timeout=timeout))["queues"]
        return {MessageQueue(row["topic"], row["broker_name"], row["queue_id"]): row["lag"] for row in rows}

    async def _reset_offset(
        self,
        group: str,
        topic: str,
        to: str = "time",
        value: int | datetime = 0,
        *,
        queue: MessageQueue | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> list[Document]:
        """Moves a group within a topic: [{topic, broker_name, queue_id, from, to}]; `dry_run` only tells.

        `to`: "earliest", "latest", "offset" or "time" with `value` (an offset; a datetime or ms since the epoch). `queue`:
        in this one only. Members go on from there. Raises GroupNotFound, TopicNotFound, InvalidParameter.
        """
        if to not in ("earliest", "latest", "offset", "time"):
            raise InvalidParameter("to", to, "earliest, latest, offset or time")
        deadline_ms = self._deadline(timeout)
        number = ms_of_datetime(value) if isinstance(value, datetime) else value
        queue_id = -1 if queue is None else queue.queue_id
        request = ResetOffsets(check_group(group), topic, to, number, dry_run, queue_id)
        brokers = _masters_of(await self._fresh_route(topic, deadline_ms))
        if queue is not None:
            if queue.topic != topic or queue.broker_name not in brokers or queue_id < 0:
                raise InvalidParameter("queue", queue, f"a queue of topic {topic} at {' or '.join(sorted(brokers))}")
            brokers = {queue.broker_name: brokers[queue.broker_name]}
        return merge_resets(await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group)))

    async def _clone_offsets(
        self,
        source: str,
        group: str,
        *,
        topic: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> list[Document]:
        """Has `group` go on where `source` is, in one topic or in all: [{topic, broker_name, queue_id, from, to}].

        Raises GroupNotFound where no broker knows the source, TopicNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = CloneOffsets(check_group(source), check_group(group), topic or "", dry_run)
        if topic is None:
            brokers = await self._masters(deadline_ms)
        else:
            brokers = _masters_of(await self._fresh_route(topic, deadline_ms))
        return merge_resets(await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(source)))

    async def _delete_group(self, group: str, *, timeout: float | None = None) -> None:
        """Deletes a group that has no members, with its offsets. Raises GroupNotFound."""
        deadline_ms = self._deadline(timeout)
        request = DeleteGroup(check_group(group))
        await self._ask_some(await self._masters(deadline_ms), request, deadline_ms, GroupNotFound(group))

    # ---- dead letters

    async def _dead_letter_groups(self, group: str | None = None, *, timeout: float | None = None) -> list[Document]:
        """[{group, topic, letters, redriven, oldest_at_ms, newest_at_ms}] of the groups that gave up messages, or of one."""
        letters = self._new_dead_letters(timeout)
        groups = await letters.groups() if group is None else [check_group(group)]
        return [await letters.summary(name) for name in groups]

    async def _dead_letters(
        self, group: str, max_messages: int = 20, *, timeout: float | None = None
    ) -> list[DeadLetter]:
        """What a group gave up, newest first."""
        return await self._new_dead_letters(timeout).newest(group, max_messages)

    async def _redrive_dead_letters(
        self,
        group: str,
        *,
        to: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        max_messages: int | None = None,
        select: LetterSelection = EVERY_LETTER,
        rate: float | None = None,
        dry_run: bool = False,
        again: bool = False,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Document:
        """Sends a group's dead letters again, oldest first, each to the topic it came from, or all to `to`.

        `since`, `until`: given up within. `select`: these only. `rate`: letters a second. `again`: those that were sent
        again before, too; else it goes on behind them. `on_progress(done, to look at)` is told of each. `timeout`: seconds
        for each letter. Returns {group, topic, dry_run, letters, redriven, failed, error, passed_over, topics: {topic:
        count}}; it ends at the first that fails.
        """
        self._deadline(timeout)
        run = Redrive(
            self._connection,
            self._waits,
            group,
            to=to,
            select=select,
            rate=rate,
            dry_run=dry_run,
            on_progress=on_progress,
            timeout_ms=self._milliseconds(timeout),
        )
        return await run.run(since=since, until=until, max_messages=max_messages, again=again)

    def _new_dead_letters(self, timeout: float | None) -> DeadLetters:
        self._deadline(timeout)
        return DeadLetters(self._connection, self._waits, timeout_ms=self._milliseconds(timeout))

    # ---- messages

    async def _query_by_key(
        self,
        topic: str,
        key: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        max_messages: int = 64,
        timeout: float | None = None,
    ) -> list[StoredMessage]:
        """Messages that carry a key, newest first, at most `max_messages`; `since`, `until`: stored within."""
        deadline_ms = self._deadline(timeout)
        request = QueryMessages(
            topic,
            key,
            max_messages,
            0 if since is None else ms_of_datetime(since),
            END_OF_TIME_MS if until is None else ms_of_datetime(until),
        )
        return (await self._query(topic, request, deadline_ms))[:max_messages]

    async def _view_message(
        self, message_id: str, *, topic: str | None = None, timeout: float | None = None
    ) -> StoredMessage:
        """The message with this id: an offset message id, or a unique id, looked for in `topic` or else in every topic.

        Raises MessageNotFound.
        """
        deadline_ms = self._deadline(timeout)
        found = await self._view_by_offset(message_id, deadline_ms)
        if found is not None and topic in (None, found.topic):
            return found
        for name in [topic] if topic is not None else await self._topics(timeout=self._left_s(deadline_ms)):
            request = QueryMessages(name, message_id, 1, unique=True)
            try:
                messages = await self._query(name, request, deadline_ms)
            except (TopicNotFound, NoRoute):
                if topic is not None:
                    raise
                continue
            if messages:
                return messages[0]
        raise MessageNotFound(f"id {message_id[:64]}")

    async def _query_by_id(
        self, topic: str, message_id: str, *, max_messages: int = 64, timeout: float | None = None
    ) -> list[StoredMessage]:
        """Messages of a topic that carry this unique id, newest first: several where it came again, as in a retry topic."""
        request = QueryMessages(topic, message_id, max_messages, unique=True)
        return (await self._query(topic, request, self._deadline(timeout)))[:max_messages]

    async def _trace(
        self, message_id: str, *, topic: str | None = None, trace_topic: str = TRACE_TOPIC, timeout: float | None = None
    ) -> Document:
        """What became of a message that was sent and consumed with `trace=True`, found by its id of either kind.

        {message_id, topic, events: [{event, at_ms, ...}]} by time; events: produced, stored, transaction, recalled,
        retried, dead_lettered, delivered, consumed. Raises MessageNotFound where nothing is known of it.
        """
        deadline_ms = self._deadline(timeout)
        finder = Finder(self._view_message, self._query_by_key, self._query_by_id, lambda: self._left_s(deadline_ms))
        return await find_journey(finder, message_id, topic=topic, trace_topic=trace_topic)

    async def _view_by_offset(self, message_id: str, deadline_ms: int) -> StoredMessage | None:
        """By the broker that the id names, if it is one of this cluster and has a message of that id there."""
        try:
            host, offset = parse_offset_message_id(message_id)
        except InvalidParameter:
            return None
        for broker_name, address in (await self._masters(deadline_ms)).items():
            if not _is_at(address, host):
                continue
            try:
                _, payload = await self._call(address, ViewMessage(PhysicalOffset(offset)), deadline_ms)
            except MessageNotFound:
                continue
            for message in decode_batch(payload, broker_name):
                if message.offset_message_id == message_id.upper():
                    return message
        return None

    async def _query(self, topic: str, request: QueryMessages, deadline_ms: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for broker_name, address in _masters_of(await self._fresh_route(topic, deadline_ms)).items():
            _, payload = await self._call(address, request, deadline_ms)
            found.extend(decode_batch(payload, broker_name))
        found.sort(key=lambda message: message.stored_at_ms, reverse=True)
        return found

    # ---- brokers

    async def _cluster(self, *, timeout: float | None = None) -> Document:
        """{clusters: {name: [broker name]}, brokers: [{cluster, broker_name, broker_id, address, epoch, ...}]}."""
        return await self._cluster_document(self._deadline(timeout))

    async def _broker_statistics(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """Counters, positions and memory of a broker, by its name or address; None = the only one."""
        return await self._broker_document(broker, GetBrokerStatistics(), timeout)

    async def _broker_config(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """{key: value} as a broker runs with; `broker` as above."""
        return await self._broker_document(broker, GetBrokerConfig(), timeout)

    async def _wipe_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Producers leave this broker, until `add_write_permission`. Returns how many topics that changed."""
        return await self._change_permission(WipeWritePermission(broker_name), timeout)

    async def _add_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Gives it back. Returns how many topics that changed."""
        return await self._change_permission(AddWritePermission(broker_name), timeout)

    async def _change_permission(self, request: WipeWritePermission | AddWritePermission, timeout: float | None) -> int:
        """At every name server, since they share nothing."""
        deadline_ms = self._deadline(timeout)
        counts = [(await self._call(address, request, deadline_ms))[0] for address in self._connection.addresses]
        return max(reply.count for reply in counts if isinstance(reply, CountReply))

    async def _broker_document(self, broker: str | None, request: Request, timeout: float | None) -> Document:
        deadline_ms = self._deadline(timeout)
        if broker is None:
            chosen = await self._masters(deadline_ms)
            if len(chosen) != 1:
                raise InvalidParameter("broker", "", f"one of {', '.join(sorted(chosen))}")
        else:
            chosen = await self._chosen_masters([broker], deadline_ms)
        return next(iter((await self._documents(chosen, request, deadline_ms)).values()))

    # ---- asking

    def _deadline(self, timeout: float | None) -> int:
        if self._is_closed:
            raise ClientClosed("admin")
        self._connection.check_process("admin")
        return monotonic_ms() + self._milliseconds(timeout)

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else max(1, round(timeout * 1000))

    def _left_s(self, deadline_ms: int) -> float:
        return max(1, deadline_ms - monotonic_ms()) / 1000

    async def _call(self, address: str, request: Request, deadline_ms: int) -> tuple[Reply, bytes]:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise RequestTimeout(f"{type(request).__name__} to {address}", 0)
        return await self._waits.call(address, request, timeout_ms=left_ms)

    async def _ask_name_server(self, request: Request, deadline_ms: int) -> tuple[Reply, bytes]:
        left_ms = max(1, deadline_ms - monotonic_ms())
        reply, payload, _ = await self._connection.servers.ask(request, self._waits, timeout_ms=left_ms)
        return reply, payload

    async def _cluster_document(self, deadline_ms: int) -> Document:
        _, payload = await self._ask_name_server(GetClusterInfo(), deadline_ms)
        return _document(payload)

    async def _masters(self, deadline_ms: int) -> dict[str, str]:
        """{broker name: address} of all masters. Raises NoRoute where there is none."""
        brokers = (await self._cluster_document(deadline_ms))["brokers"]
        masters = {broker["broker_name"]: broker["address"] for broker in brokers if broker["broker_id"] == 0}
        if not masters:
            raise NoRoute("*", "no broker is registered with the name server")
        return masters

    async def _chosen_masters(self, brokers: Iterable[str] | None, deadline_ms: int) -> dict[str, str]:
        masters = await self._masters(deadline_ms)
        if brokers is None:
            return masters
        names = {address: name for name, address in masters.items()}
        chosen = {}
        for broker in brokers:
            name = names.get(broker, broker)
            if name not in masters:
                raise InvalidParameter("broker", broker, f"one of {', '.join(sorted(masters))}")
            chosen[name] = masters[name]
        return chosen

    async def _fresh_route(self, topic: str, deadline_ms: int) -> TopicRoute:
        left_ms = max(1, deadline_ms - monotonic_ms())
        return await self._connection.routes.refresh(check_topic(topic), self._waits, timeout_ms=left_ms)

    async def _offset(self, queue: MessageQueue, request: Request, timeout: float | None) -> QueueOffset:
        deadline_ms = self._deadline(timeout)
        address = (await self._fresh_route(queue.topic, deadline_ms)).address_of(queue.broker_name)
        if address is None:
            raise NoRoute(queue.topic, f"{queue.broker_name} has no master now")
        reply, _ = await self._call(address, request, deadline_ms)
        if not isinstance(reply, OffsetReply):
            raise RemoteProtocolError("an offset was not answered with one")
        return QueueOffset(reply.offset)

    async def _ask_each(self, brokers: Mapping[str, str], request: Request, deadline_ms: int) -> dict[str, bytes]:
        """{broker name: payload}; raises the first error."""
        return {name: (await self._call(address, request, deadline_ms))[1] for name, address in brokers.items()}

    async def _documents(self, brokers: Mapping[str, str], request: Request, deadline_ms: int) -> dict[str, Document]:
        answers = await self._ask_each(brokers, request, deadline_ms)
        return {name: _document(payload) for name, payload in answers.items()}

    async def _ask_some(
        self, brokers: Mapping[str, str], request: Request, deadline_ms: int, missing: ZenitError
    ) -> dict[str, bytes]:
        """{broker name: payload} of those that know the thing; raises `missing` where none does."""
        answers = {}
        for name, address in brokers.items():
            try:
                answers[name] = (await self._call(address, request, deadline_ms))[1]
            except type(missing):
                continue
        if not answers:
            raise missing
        return answers

    async def _ask_some_documents(
        self, brokers: Mapping[str, str], request: Request, deadline_ms: int, missing: ZenitError
    ) -> dict[str, Document]:
        answers = await self._ask_some(brokers, request, deadline_ms, missing)
        return {name: _document(payload) for name, payload in answers.items()}

    async def _wait_routed(self, topic: str, queues: Mapping[str, int], deadline_ms: int) -> None:
        """Until every name server tells of the topic at these brokers: a broker registers soon, not at once."""
        for address in self._connection.addresses:
            while not await self._is_routed(address, topic, queues, deadline_ms):
                if monotonic_ms() + LOOK_AGAIN_MS >= deadline_ms:
                    raise RequestTimeout(f"topic {topic} was created but {address} does not route to it yet", 0)
                await self._waits.sleep(LOOK_AGAIN_MS)

    async def _is_routed(self, address: str, topic: str, queues: Mapping[str, int], deadline_ms: int) -> bool:
        try:
            reply, _ = await self._call(address, GetRoute(topic), deadline_ms)
        except TopicNotFound:
            return False
        if not isinstance(reply, RouteReply):
            raise RemoteProtocolError("a route was not answered with one")
        counts = {data.broker_name: data.write_queues for data in route_of(topic, reply).queues}
        return all(counts.get(name, 0) >= count for name, count in queues.items())


class Admin(AdminCore):
    """One administrator's connection to a cluster. Any thread may call; every call blocks the one that does."""

    create_topic = blocking(AdminCore._create_topic)
    delete_topic = blocking(AdminCore._delete_topic)
    topics = blocking(AdminCore._topics)
    topic_configs = blocking(AdminCore._topic_configs)
    describe_topic = blocking(AdminCore._describe_topic)
    route = blocking(AdminCore._route)
    queues = blocking(AdminCore._queues)
    min_offset = blocking(AdminCore._min_offset)
    max_offset = blocking(AdminCore._max_offset)
    search_offset = blocking(AdminCore._search_offset)
    create_group = blocking(AdminCore._create_group)
    groups = blocking(AdminCore._groups)
    describe_group = blocking(AdminCore._describe_group)
    group_clients = blocking(AdminCore._group_clients)
    lag = blocking(AdminCore._lag)
    reset_offset = blocking(AdminCore._reset_offset)
    clone_offsets = blocking(AdminCore._clone_offsets)
    delete_group = blocking(AdminCore._delete_group)
    dead_letter_groups = blocking(AdminCore._dead_letter_groups)
    dead_letters = blocking(AdminCore._dead_letters)
    redrive_dead_letters = blocking(AdminCore._redrive_dead_letters)
    query_by_key = blocking(AdminCore._query_by_key)
    view_message = blocking(AdminCore._view_message)
    query_by_id = blocking(AdminCore._query_by_id)
    trace = blocking(AdminCore._trace)
    cluster = blocking(AdminCore._cluster)
    broker_statistics = blocking(AdminCore._broker_statistics)
    broker_config = blocking(AdminCore._broker_config)
    wipe_write_permission = blocking(AdminCore._wipe_write_permission)
    add_write_permission = blocking(AdminCore._add_write_permission)
    close = blocking(AdminCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _document(payload: bytes) -> Document:
    try:
        document: Any = json.loads(payload)
    except ValueError as error:
        raise RemoteProtocolError("a document is not JSON") from error
    if not isinstance(document, dict):
        raise RemoteProtocolError("a document is not a JSON object")
    return document


def _masters_of(route: TopicRoute) -> dict[str, str]:
    masters = {
        broker.broker_name: broker.master_address for broker in route.brokers if broker.master_address is not None
    }
    if not masters:
        raise NoRoute(route.topic, "no broker that serves it is up")
    return masters


def _is_at(address: str, host: HostAddress) -> bool:
    """Whether "name:port" is the host and port of an id."""
    name, _, port = address.rpartition(":")
    if int(port) != host.port:
        return False
    try:
        found: Sequence[Any] = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(ipaddress.ip_address(entry[4][0].partition("%")[0]).packed == host.ip for entry in found)
