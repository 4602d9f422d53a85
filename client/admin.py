"""The administrator's side: topics, groups, brokers, single messages.

Every method asks all brokers that have a part in it and puts the answers together. Each takes `timeout`, seconds for
everything it does; what a broker answered with an error is raised.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from ..model.clock import monotonic_ms, ms_of_datetime, sleep_ms
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
from ..model.names import check_group, check_topic
from ..model.queue import MessageQueue, PhysicalOffset, QueueOffset
from ..model.route import PERMISSION_READ_WRITE, TopicRoute
from ..remoting.commands import (
    AddWritePermission,
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
from .admin_merge import Document, merge_group, merge_groups, merge_resets, merge_topic_queues, merge_topics
from .connection import connect, release
from .route_cache import route_of

TIMEOUT_S: Final = 10.0
LOOK_AGAIN_MS: Final = 20
END_OF_TIME_MS: Final = 1 << 62


class Admin:
    """One administrator's connection to a cluster. Any thread may call; every call blocks the one that does."""

    def __init__(self, namesrv: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        """`timeout`: seconds for each call that is not given its own. Raises InvalidParameter."""
        if not timeout > 0:
            raise InvalidParameter("timeout", timeout, "seconds, more than 0")
        self._timeout_ms = max(1, round(timeout * 1000))
        self._connection = connect(namesrv)
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the connection. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            release(self._connection)

    # ---- topics

    def create_topic(
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
        chosen = self._chosen_masters(brokers, deadline_ms)
        self._ask_each(chosen, request, deadline_ms)
        self._wait_routed(topic, dict.fromkeys(chosen, queues), deadline_ms)

    def delete_topic(self, topic: str, *, timeout: float | None = None) -> None:
        """Deletes a topic, its messages and the offsets in it, everywhere. Raises TopicNotFound where no broker has it."""
        deadline_ms = self._deadline(timeout)
        self._ask_some(self._masters(deadline_ms), DeleteTopic(topic), deadline_ms, TopicNotFound(topic))
        for address in self._connection.addresses:
            self._call(address, DeleteTopicRoute(topic), deadline_ms)

    def topics(self, *, timeout: float | None = None) -> list[str]:
        """The names of all topics the name servers know."""
        reply, _ = self._ask_name_server(GetTopicList(), self._deadline(timeout))
        if not isinstance(reply, TopicListReply):
            raise RemoteProtocolError("a list of topics was not answered with one")
        return list(reply.topics)

    def topic_configs(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, read_queues, write_queues, permission, order, attributes, system}] of all brokers, by name."""
        deadline_ms = self._deadline(timeout)
        return merge_topics(self._documents(self._masters(deadline_ms), GetTopics(), deadline_ms).values())

    def describe_topic(self, topic: str, *, timeout: float | None = None) -> Document:
        """{topic, queues: [{broker_name, queue_id, min_offset, max_offset, last_stored_at_ms}]}."""
        deadline_ms = self._deadline(timeout)
        brokers = _masters_of(self._route(topic, deadline_ms))
        return merge_topic_queues(topic, self._documents(brokers, GetTopicStatistics(topic), deadline_ms))

    def route(self, topic: str, *, timeout: float | None = None) -> TopicRoute:
        """Where a topic lives. Raises TopicNotFound."""
        return self._route(topic, self._deadline(timeout))

    def queues(self, topic: str, *, timeout: float | None = None) -> list[MessageQueue]:
        """The queues of a topic that may be read, sorted."""
        return self.route(topic, timeout=timeout).read_queues()

    def min_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The oldest offset that a queue still holds."""
        return self._offset(queue, GetMinOffset(queue.topic, queue.queue_id), timeout)

    def max_offset(self, queue: MessageQueue, *, timeout: float | None = None) -> QueueOffset:
        """The offset that the queue's next message will get."""
        return self._offset(queue, GetMaxOffset(queue.topic, queue.queue_id), timeout)

    def search_offset(
        self, queue: MessageQueue, moment: datetime, *, upper: bool = False, timeout: float | None = None
    ) -> QueueOffset:
        """The first message stored at or after `moment`; `upper`: the last one at or before."""
        request = SearchOffset(queue.topic, queue.queue_id, ms_of_datetime(moment), upper)
        return self._offset(queue, request, timeout)

    # ---- groups

    def create_group(
        self, group: str, attributes: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> None:
        """Creates a group at every master, or gives it these settings (values as JSON text)."""
        deadline_ms = self._deadline(timeout)
        request = CreateGroup(check_group(group), tuple(sorted((attributes or {}).items())))
        self._ask_each(self._masters(deadline_ms), request, deadline_ms)

    def groups(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, members, topics, ...}] of all brokers, by name."""
        deadline_ms = self._deadline(timeout)
        return merge_groups(self._documents(self._masters(deadline_ms), GetGroups(), deadline_ms).values())

    def describe_group(self, group: str, *, timeout: float | None = None) -> Document:
        """{group, members, lag, queues: [{topic, broker_name, queue_id, broker_queue_offset, consumer_queue_offset, lag,
        lag_seconds, owner}]}. Raises GroupNotFound."""
        deadline_ms = self._deadline(timeout)
        request = GetConsumeStatistics(check_group(group))
        return merge_group(
            group, self._ask_some_documents(self._masters(deadline_ms), request, deadline_ms, GroupNotFound(group))
        )

    def lag(self, group: str, *, timeout: float | None = None) -> dict[MessageQueue, int]:
        """How many messages a group has still to consume, queue by queue. Raises GroupNotFound."""
        rows = self.describe_group(group, timeout=timeout)["queues"]
        return {MessageQueue(row["topic"], row["broker_name"], row["queue_id"]): row["lag"] for row in rows}

    def reset_offset(
        self,
        group: str,
        topic: str,
        to: str = "time",
        value: int | datetime = 0,
        *,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> list[Document]:
        """Moves a group within a topic, all queues: [{topic, broker_name, queue_id, from, to}]; `dry_run` only tells.

        `to`: "earliest", "latest", "offset" or "time" with `value` (an offset; a datetime or ms since the epoch).
        Raises GroupNotFound, TopicNotFound.
        """
        if to not in ("earliest", "latest", "offset", "time"):
            raise InvalidParameter("to", to, "earliest, latest, offset or time")
        deadline_ms = self._deadline(timeout)
        number = ms_of_datetime(value) if isinstance(value, datetime) else value
        request = ResetOffsets(check_group(group), topic, to, number, dry_run)
        brokers = _masters_of(self._route(topic, deadline_ms))
        return merge_resets(self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group)))

    def delete_group(self, group: str, *, timeout: float | None = None) -> None:
        """Deletes a group that has no members, with its offsets. Raises GroupNotFound."""
        deadline_ms = self._deadline(timeout)
        request = DeleteGroup(check_group(group))
        self._ask_some(self._masters(deadline_ms), request, deadline_ms, GroupNotFound(group))

    # ---- messages

    def query_by_key(
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
        return self._query(topic, request, deadline_ms)[:max_messages]

    def view_message(self, message_id: str, *, topic: str | None = None, timeout: float | None = None) -> StoredMessage:
        """The message with this id: an offset message id, or a unique id, looked for in `topic` or else in every topic.

        Raises MessageNotFound.
        """
        deadline_ms = self._deadline(timeout)
        found = self._view_by_offset(message_id, deadline_ms)
        if found is not None and topic in (None, found.topic):
            return found
        for name in [topic] if topic is not None else self.topics(timeout=self._left_s(deadline_ms)):
            request = QueryMessages(name, message_id, 1, unique=True)
            try:
                messages = self._query(name, request, deadline_ms)
            except (TopicNotFound, NoRoute):
                if topic is not None:
                    raise
                continue
            if messages:
                return messages[0]
        raise MessageNotFound(f"id {message_id[:64]}")

    def _view_by_offset(self, message_id: str, deadline_ms: int) -> StoredMessage | None:
        """By the broker that the id names, if it is one of this cluster and has a message of that id there."""
        try:
            host, offset = parse_offset_message_id(message_id)
        except InvalidParameter:
            return None
        for broker_name, address in self._masters(deadline_ms).items():
            if not _is_at(address, host):
                continue
            try:
                _, payload = self._call(address, ViewMessage(PhysicalOffset(offset)), deadline_ms)
            except MessageNotFound:
                continue
            for message in decode_batch(payload, broker_name):
                if message.offset_message_id == message_id.upper():
                    return message
        return None

    def _query(self, topic: str, request: QueryMessages, deadline_ms: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for broker_name, address in _masters_of(self._route(topic, deadline_ms)).items():
            _, payload = self._call(address, request, deadline_ms)
            found.extend(decode_batch(payload, broker_name))
        found.sort(key=lambda message: message.stored_at_ms, reverse=True)
        return found

    # ---- brokers

    def cluster(self, *, timeout: float | None = None) -> Document:
        """{clusters: {name: [broker name]}, brokers: [{cluster, broker_name, broker_id, address, epoch, ...}]}."""
        return self._cluster(self._deadline(timeout))

    def broker_statistics(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """Counters, positions and memory of a broker, by its name or address; None = the only one."""
        return self._broker_document(broker, GetBrokerStatistics(), timeout)

    def broker_config(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """{key: value} as a broker runs with; `broker` as above."""
        return self._broker_document(broker, GetBrokerConfig(), timeout)

    def wipe_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Producers leave this broker, until `add_write_permission`. Returns how many topics that changed."""
        return self._change_permission(WipeWritePermission(broker_name), timeout)

    def add_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Gives it back. Returns how many topics that changed."""
        return self._change_permission(AddWritePermission(broker_name), timeout)

    def _change_permission(self, request: WipeWritePermission | AddWritePermission, timeout: float | None) -> int:
        """At every name server, since they share nothing."""
        deadline_ms = self._deadline(timeout)
        counts = [self._call(address, request, deadline_ms)[0] for address in self._connection.addresses]
        return max(reply.count for reply in counts if isinstance(reply, CountReply))

    def _broker_document(self, broker: str | None, request: Request, timeout: float | None) -> Document:
        deadline_ms = self._deadline(timeout)
        if broker is None:
            chosen = self._masters(deadline_ms)
            if len(chosen) != 1:
                raise InvalidParameter("broker", "", f"one of {', '.join(sorted(chosen))}")
        else:
            chosen = self._chosen_masters([broker], deadline_ms)
        return next(iter(self._documents(chosen, request, deadline_ms).values()))

    # ---- asking

    def _deadline(self, timeout: float | None) -> int:
        if self._is_closed:
            raise ClientClosed("admin")
        self._connection.check_process("admin")
        return monotonic_ms() + (self._timeout_ms if timeout is None else max(1, round(timeout * 1000)))

    def _left_s(self, deadline_ms: int) -> float:
        return max(1, deadline_ms - monotonic_ms()) / 1000

    def _call(self, address: str, request: Request, deadline_ms: int) -> tuple[Reply, bytes]:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise RequestTimeout(f"{type(request).__name__} to {address}", 0)
        return self._connection.remoting.call(address, request, timeout_ms=left_ms)

    def _ask_name_server(self, request: Request, deadline_ms: int) -> tuple[Reply, bytes]:
        reply, payload, _ = self._connection.servers.ask(request, timeout_ms=max(1, deadline_ms - monotonic_ms()))
        return reply, payload

    def _cluster(self, deadline_ms: int) -> Document:
        _, payload = self._ask_name_server(GetClusterInfo(), deadline_ms)
        return _document(payload)

    def _masters(self, deadline_ms: int) -> dict[str, str]:
        """{broker name: address} of all masters. Raises NoRoute where there is none."""
        brokers = self._cluster(deadline_ms)["brokers"]
        masters = {broker["broker_name"]: broker["address"] for broker in brokers if broker["broker_id"] == 0}
        if not masters:
            raise NoRoute("*", "no broker is registered with the name server")
        return masters

    def _chosen_masters(self, brokers: Iterable[str] | None, deadline_ms: int) -> dict[str, str]:
        masters = self._masters(deadline_ms)
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

    def _route(self, topic: str, deadline_ms: int) -> TopicRoute:
        return self._connection.routes.refresh(check_topic(topic), timeout_ms=max(1, deadline_ms - monotonic_ms()))

    def _offset(self, queue: MessageQueue, request: Request, timeout: float | None) -> QueueOffset:
        deadline_ms = self._deadline(timeout)
        address = self._route(queue.topic, deadline_ms).address_of(queue.broker_name)
        if address is None:
            raise NoRoute(queue.topic, f"{queue.broker_name} has no master now")
        reply, _ = self._call(address, request, deadline_ms)
        if not isinstance(reply, OffsetReply):
            raise RemoteProtocolError("an offset was not answered with one")
        return QueueOffset(reply.offset)

    def _ask_each(self, brokers: Mapping[str, str], request: Request, deadline_ms: int) -> dict[str, bytes]:
        """{broker name: payload}; raises the first error."""
        return {name: self._call(address, request, deadline_ms)[1] for name, address in brokers.items()}

    def _documents(self, brokers: Mapping[str, str], request: Request, deadline_ms: int) -> dict[str, Document]:
        return {name: _document(payload) for name, payload in self._ask_each(brokers, request, deadline_ms).items()}

    def _ask_some(
        self, brokers: Mapping[str, str], request: Request, deadline_ms: int, missing: ZenitError
    ) -> dict[str, bytes]:
        """{broker name: payload} of those that know the thing; raises `missing` where none does."""
        answers = {}
        for name, address in brokers.items():
            try:
                answers[name] = self._call(address, request, deadline_ms)[1]
            except type(missing):
                continue
        if not answers:
            raise missing
        return answers

    def _ask_some_documents(
        self, brokers: Mapping[str, str], request: Request, deadline_ms: int, missing: ZenitError
    ) -> dict[str, Document]:
        answers = self._ask_some(brokers, request, deadline_ms, missing)
        return {name: _document(payload) for name, payload in answers.items()}

    def _wait_routed(self, topic: str, queues: Mapping[str, int], deadline_ms: int) -> None:
        """Until every name server tells of the topic at these brokers: a broker registers soon, not at once."""
        for address in self._connection.addresses:
            while not self._is_routed(address, topic, queues, deadline_ms):
                if monotonic_ms() + LOOK_AGAIN_MS >= deadline_ms:
                    raise RequestTimeout(f"topic {topic} was created but {address} does not route to it yet", 0)
                sleep_ms(LOOK_AGAIN_MS)

    def _is_routed(self, address: str, topic: str, queues: Mapping[str, int], deadline_ms: int) -> bool:
        try:
            reply, _ = self._call(address, GetRoute(topic), deadline_ms)
        except TopicNotFound:
            return False
        if not isinstance(reply, RouteReply):
            raise RemoteProtocolError("a route was not answered with one")
        counts = {data.broker_name: data.write_queues for data in route_of(topic, reply).queues}
        return all(counts.get(name, 0) >= count for name, count in queues.items())


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
