"""The common parts of `Admin`: deadlines, name servers, masters, and combining several brokers' answers.

A request goes to all brokers concerned. `missing` below is the error of a broker that does not know a topic or group; it is
raised only if none of them does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import (
    ClientClosed,
    InvalidParameter,
    NoRoute,
    RequestTimeout,
    TopicNotFound,
    ZenitError,
)
from ...model.route import MASTER_ID, TopicRoute
from ...model.topics.light_queues import check_queue_topic
from ...remoting.commands import (
    DeleteTopic,
    DeleteTopicRoute,
    GetClusterInfo,
    Reply,
    RequestFor,
)
from ..connection.argument_checks import milliseconds
from ..connection.connection import Connection, client_repr, connect, release
from ..connection.documents import document_of
from ..connection.new_topics import is_made_by_brokers, masters_now, whole_route
from ..connection.waiting import Waits
from .admin_merge import Document

TIMEOUT_S: Final = 10.0

_Reply = TypeVar("_Reply", bound=Reply)


class AdminCalls(ABC):
    """A connection, and how requests wait for answers. Any thread, or the one event loop, as `Waits` says."""

    def __init__(self, namesrv: str | None = None, *, key: str | None = None, timeout: float = TIMEOUT_S) -> None:
        """`timeout`: seconds for each call that has no timeout of its own. `namesrv`, `key`: as for a Producer. Raises
        InvalidParameter, KeyFileRefused."""
        self._timeout_ms = milliseconds("timeout", timeout)
        self._connection = connect(namesrv, key=key)
        self._waits = self._new_waits(self._connection)
        self._is_closed = False

    def __repr__(self) -> str:
        return client_repr(self, "closed" if self._is_closed else "", namesrv=self._connection.name_servers)

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """Creates the object that waits for answers."""

    async def _close(self) -> None:
        """Releases the connection. Idempotent; does nothing in a forked child."""
        if not self._is_closed:
            self._is_closed = True
            await release(self._connection, self._waits)

    def _deadline(self, timeout: float | None) -> int:
        if self._is_closed:
            raise ClientClosed("admin")
        self._connection.check_process("admin")
        return monotonic_ms() + self._milliseconds(timeout)

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds("timeout", timeout)

    def _left_s(self, deadline_ms: int) -> float:
        return max(1, deadline_ms - monotonic_ms()) / 1000

    async def _call(
        self, address: str, request: RequestFor[_Reply], deadline_ms: int, payload: bytes | None = None
    ) -> tuple[_Reply, bytes]:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise RequestTimeout(f"{type(request).__name__} to {address}", 0)
        return await self._waits.call(address, request, payload, timeout_ms=left_ms)

    async def _ask_name_server(self, request: RequestFor[_Reply], deadline_ms: int) -> tuple[_Reply, bytes]:
        left_ms = max(1, deadline_ms - monotonic_ms())
        reply, payload, _ = await self._connection.servers.ask(request, self._waits, timeout_ms=left_ms)
        return reply, payload

    async def _cluster_document(self, deadline_ms: int) -> Document:
        """The answer to GetClusterInfo, only for the cluster that this process works with."""
        _, payload = await self._ask_name_server(GetClusterInfo(), deadline_ms)
        return self._connection.routes.document_of_ours(document_of(payload))

    async def _masters(self, deadline_ms: int) -> dict[str, str]:
        """{broker name: address} of all masters. Raises NoRoute if there is none."""
        left_ms = max(1, deadline_ms - monotonic_ms())
        masters = await masters_now(self._connection, self._waits, timeout_ms=left_ms)
        return {master.broker_name: master.addresses[MASTER_ID] for master in masters}

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
        if is_made_by_brokers(check_queue_topic(topic)):
            return await whole_route(self._connection, self._waits, topic, timeout_ms=left_ms)
        return await self._connection.routes.refresh(topic, self._waits, timeout_ms=left_ms)

    async def _topic_names(self, deadline_ms: int) -> list[str]:
        """All topics that the name servers know."""
        left_ms = max(1, deadline_ms - monotonic_ms())
        return await self._connection.servers.topics(self._waits, timeout_ms=left_ms)

    async def _ask_each(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int
    ) -> dict[str, bytes]:
        """{broker name: payload}; raises the first error."""
        return {name: (await self._call(address, request, deadline_ms))[1] for name, address in brokers.items()}

    async def _documents(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int
    ) -> dict[str, Document]:
        answers = await self._ask_each(brokers, request, deadline_ms)
        return {name: document_of(payload) for name, payload in answers.items()}

    async def _ask_some(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int, missing: ZenitError
    ) -> dict[str, bytes]:
        """{broker name: payload} of the brokers that know the thing; raises `missing` if none does."""
        answers = {}
        for name, address in brokers.items():
            try:
                answers[name] = (await self._call(address, request, deadline_ms))[1]
            except type(missing):
                continue
        if not answers:
            raise missing
        return answers

    async def _drop_topic(self, topic: str, deadline_ms: int) -> None:
        """At the brokers and the name servers. Raises TopicNotFound if no broker has it."""
        await self._ask_some(await self._masters(deadline_ms), DeleteTopic(topic), deadline_ms, TopicNotFound(topic))
        for address in self._connection.addresses:
            await self._call(address, DeleteTopicRoute(topic), deadline_ms)

    async def _ask_some_documents(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int, missing: ZenitError
    ) -> dict[str, Document]:
        answers = await self._ask_some(brokers, request, deadline_ms, missing)
        return {name: document_of(payload) for name, payload in answers.items()}


def masters_of(route: TopicRoute) -> dict[str, str]:
    """{broker name: address} of the masters that serve a topic. Raises NoRoute if none is up."""
    masters = {
        broker.broker_name: broker.master_address for broker in route.brokers if broker.master_address is not None
    }
    if not masters:
        raise NoRoute(route.topic, "no broker that serves it is up")
    return masters


def addresses_of(route: TopicRoute, broker_name: str) -> list[str]:
    """The living replicas of a broker, its master first."""
    for broker in route.brokers:
        if broker.broker_name == broker_name:
            return [address for _, address in sorted(broker.addresses.items())]
    return []
