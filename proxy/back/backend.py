"""Requests to brokers and name servers on behalf of foreign clients, tried again where another answer may come."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from ...client.aio.event_loop import OnLoop
from ...client.connection.connection import Connection
from ...client.connection.retry import RetryPolicy
from ...client.connection.route_pause import pause
from ...model.clock import monotonic_ms
from ...model.errors import (
    ConnectionLost,
    LeaseExpired,
    NoRoute,
    RemoteProtocolError,
    RequestTimeout,
    ZenitError,
)
from ...model.route import TopicRoute
from ...remoting.client_socket import Payload
from ...remoting.commands import GetClusterInfo, JsonReply, Reply, RequestFor
from .recent_answers import RecentAnswers

BROKERS_KNOWN_MS: Final = 5_000
STALE_MS: Final = 3_600_000
"""For so long a proxy goes by what it knows while no server tells what is now."""
UNSEEN_MS: Final = 1_000
"""A broker name that is not known may have come since the cluster was looked at: then so long ago."""
AVOIDED_MS: Final = 10_000
"""A master that did not answer is asked only what nobody else can answer, for so long."""
WAIT_GRACE_MS: Final = 3_000
"""So much later than it should a long poll may be answered."""

_Reply = TypeVar("_Reply", bound=Reply)


class Backend:
    """Of one process; on the event loop. Deadlines are monotonic."""

    def __init__(self, connection: Connection, waits: OnLoop) -> None:
        self.connection = connection
        self.waits = waits
        self._retry = RetryPolicy()
        self._masters: RecentAnswers[str, dict[str, str]] = RecentAnswers(
            self._find_masters, known_ms=BROKERS_KNOWN_MS, size_max=1, stale_ms=STALE_MS
        )
        self._avoided: dict[str, int] = {}  # until when
        self._turn = 0
        self._names: set[str] = set()  # of all brokers that were ever seen
        self._served: RecentAnswers[str, TopicRoute] = RecentAnswers(self._find_route, known_ms=0, size_max=1)

    @staticmethod
    def deadline_ms(timeout_ms: int) -> int:
        """The deadline that is so far from now."""
        return monotonic_ms() + timeout_ms

    async def route(self, topic: str, *, deadline_ms: int) -> TopicRoute:
        """The route of a topic, once a broker serves it. Raises TopicNotFound, NoRoute, or why no name server answered."""
        known = self.connection.routes.cached(topic)
        if known is not None:
            return known
        return await self._served.get(topic, deadline_ms=deadline_ms)

    async def call(
        self,
        topic: str,
        broker_name: str,
        request: RequestFor[_Reply],
        payload: Payload | None = None,
        *,
        deadline_ms: int,
        wait_ms: int = 0,
    ) -> tuple[_Reply, bytes]:
        """The answer of the master that a topic has under a broker name, whoever it is by then. Raises what the last try ended
        with; where a lease is over, perhaps by a try whose answer was lost, how that one ended. `wait_ms`: for so long the
        broker may keep the request, as a long poll."""
        total_ms = max(1, deadline_ms - monotonic_ms())
        tries, before_route, in_doubt = 0, 0, None
        while True:
            is_sent = False
            route = self.connection.routes.cached(topic)
            try:
                route = await self.route(topic, deadline_ms=deadline_ms)
                address = self.connection.routes.address_of(topic, broker_name)
                timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
                timeout_ms = max(timeout_ms, wait_ms + WAIT_GRACE_MS) if wait_ms else timeout_ms
                is_sent = True
                return await self.waits.call(address, request, payload, timeout_ms=timeout_ms)
            except ZenitError as error:
                if in_doubt is not None and isinstance(error, LeaseExpired):
                    raise in_doubt from error
                if is_sent and isinstance(error, RequestTimeout | ConnectionLost):
                    in_doubt = error
                tries += 1
                if tries == 1 and isinstance(error, NoRoute):
                    await self.check_broker(broker_name, deadline_ms=deadline_ms)
                delay_ms = self._delay_ms(error, tries, deadline_ms, before_route)
                if delay_ms is None:
                    raise
                if error.route_stale:
                    self.connection.routes.refresh_soon(topic)
            if await pause(self.connection.routes, topic, route, self.waits, delay_ms):
                before_route = tries

    async def call_master(
        self, broker_name: str, request: RequestFor[_Reply], payload: Payload | None = None, *, deadline_ms: int
    ) -> tuple[_Reply, bytes]:
        """The same of a request that is of no topic. Raises NoRoute where no master has the name."""
        await self.check_broker(broker_name, deadline_ms=deadline_ms)
        total_ms, tries = max(1, deadline_ms - monotonic_ms()), 0
        while True:
            try:
                address = (await self.masters(deadline_ms=deadline_ms)).get(broker_name)
                if address is None:
                    raise NoRoute(broker_name, "no master of that name is registered")
                timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
                return await self._call_named(broker_name, address, request, payload, timeout_ms)
            except ZenitError as error:
                tries += 1
                delay_ms = self._delay_ms(error, tries, deadline_ms)
                if delay_ms is None:
                    raise
                self._masters.forget("")
            await self.waits.sleep(delay_ms)

    async def call_any_master(
        self, request: RequestFor[_Reply], payload: Payload | None = None, *, deadline_ms: int
    ) -> tuple[_Reply, bytes]:
        """The same of a request that each master can answer: they are asked in turn, and where one does not answer, the next.
        Raises NoRoute where there is none."""
        total_ms, tries = max(1, deadline_ms - monotonic_ms()), 0
        while True:
            try:
                masters = await self.masters(deadline_ms=deadline_ms)
                names = self._names_to_ask(masters)
                self._turn += 1
                name = names[self._turn % len(names)]
                timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
                if len(names) > 1:
                    timeout_ms = min(timeout_ms, self._retry.try_ms_min)
                return await self._call_named(name, masters[name], request, payload, timeout_ms)
            except ZenitError as error:
                tries += 1
                delay_ms = self._delay_ms(error, tries, deadline_ms)
                if delay_ms is None:
                    raise
                self._masters.forget("")
            await self.waits.sleep(delay_ms)

    async def _call_named(
        self, name: str, address: str, request: RequestFor[_Reply], payload: Payload | None, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        try:
            answer = await self.waits.call(address, request, payload, timeout_ms=timeout_ms)
        except (RequestTimeout, ConnectionLost):
            self._avoided[name] = monotonic_ms() + AVOIDED_MS
            raise
        self._avoided.pop(name, None)
        return answer

    def _names_to_ask(self, masters: dict[str, str]) -> list[str]:
        """Sorted; without those that did not answer a moment ago, unless none did. Raises NoRoute."""
        if not masters:
            raise NoRoute("any topic", "no master is registered")
        now_ms = monotonic_ms()
        self._avoided = {name: until_ms for name, until_ms in self._avoided.items() if now_ms < until_ms}
        return sorted(masters.keys() - self._avoided.keys()) or sorted(masters)

    async def ask_name_server(self, request: RequestFor[_Reply], *, deadline_ms: int) -> tuple[_Reply, bytes]:
        """The answer of a name server. Raises as NameServers.ask does."""
        left_ms = max(1, deadline_ms - monotonic_ms())
        reply, payload, _ = await self.connection.servers.ask(request, self.waits, timeout_ms=left_ms)
        return reply, payload

    async def cluster(self, *, deadline_ms: int) -> dict[str, Any]:
        """The document of GetClusterInfo. Raises as `ask_name_server` does."""
        reply, payload = await self.ask_name_server(GetClusterInfo(), deadline_ms=deadline_ms)
        assert isinstance(reply, JsonReply)
        try:
            return self.connection.routes.document_of_ours(json.loads(payload))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RemoteProtocolError("what a name server tells of the cluster cannot be read") from error

    async def masters(self, *, deadline_ms: int) -> dict[str, str]:
        """{broker name: address} of the registered masters, of topics or none; some seconds old; those of before
        where no name server answers. Raises as `cluster`."""
        return await self._masters.get("", deadline_ms=deadline_ms)

    async def any_master(self, *, deadline_ms: int) -> str:
        """A broker name that has a master: the first one that answers. Raises NoRoute."""
        return self._names_to_ask(await self.masters(deadline_ms=deadline_ms))[0]

    async def check_broker(self, broker_name: str, *, deadline_ms: int) -> None:
        """Raises NoRoute for a name that no broker has or had: nothing is to be waited for."""
        if broker_name in self._names:
            return
        await self._masters.get("", deadline_ms=deadline_ms, age_ms_max=UNSEEN_MS)
        if broker_name not in self._names:
            raise NoRoute(broker_name[:64], "no broker of the cluster has that name")

    async def _find_route(self, topic: str, deadline_ms: int) -> TopicRoute:
        left_ms = max(1, deadline_ms - monotonic_ms())
        return await self.connection.routes.served_route(topic, self.waits, timeout_ms=left_ms)

    async def _find_masters(self, _: str, deadline_ms: int) -> dict[str, str]:
        document = await self.cluster(deadline_ms=deadline_ms)
        try:
            self._names.update(row["broker_name"] for row in document["brokers"])
            return {row["broker_name"]: row["address"] for row in document["brokers"] if row["broker_id"] == 0}
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("what a name server tells of the cluster cannot be read") from error

    def _delay_ms(self, error: ZenitError, tries: int, deadline_ms: int, before_route: int = 0) -> int | None:
        left_ms = deadline_ms - monotonic_ms()
        return self._retry.delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=False, before_route=before_route)
