"""Asks a cluster for what `zenit top` shows, round by round, at most ten requests a second whatever the cluster's size.

The asyncio loop's thread. What does not answer, or what the user may not see, is noted in the figures; a round goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypeVar

from ...client.aio.admin import Admin
from ...client.aio.event_loop import OnLoop
from ...client.connection.connection import Connection
from ...client.connection.waiting import Waits
from ...model.clock import datetime_of_ms, monotonic_ms, now_ms
from ...model.errors import NoRoute, ZenitError, is_silence
from ...model.route import MASTER_ID
from ...remoting.client_socket import Payload
from ...remoting.commands import Reply, RequestFor
from .figures import ClusterFigures, TopicOrGroup
from .request_pace import RequestPace

REQUESTS_MAX: Final = 10
WITHIN_MS: Final = 1000
ASK_MS: Final = 1500
"""For each request: a server that is down must not keep the others' answers back."""
CALL_S: Final = 60.0
"""For a call with its requests, of which one may go to each of a hundred brokers."""
LISTS_MS: Final = 10_000
"""After which topics, groups and events are asked for again."""
EVENTS_SINCE: Final = timedelta(hours=1)
EVENTS_OVERLAP: Final = timedelta(seconds=30)
"""How much later than it happened an event may be answered: a controller writes it soon, clocks differ a little."""

_Reply = TypeVar("_Reply", bound=Reply)


class PacedWaits(OnLoop):
    """Waits on the event loop, and before a request until it may go."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.remoting, "admin")
        self._pace = RequestPace(REQUESTS_MAX, WITHIN_MS)

    async def call(
        self, address: str, request: RequestFor[_Reply], payload: Payload | None = None, *, timeout_ms: int
    ) -> tuple[_Reply, bytes]:
        """See `Waits`."""
        while wait_ms := self._pace.wait_ms(monotonic_ms()):
            await self.sleep(wait_ms)
        self._pace.on_sent(monotonic_ms())
        return await super().call(address, request, payload, timeout_ms=min(timeout_ms, ASK_MS))


class PacedAdmin(Admin):
    """The administration client, with a limit on its requests a second.

    What is asked of several brokers is not asked of those at `passed_over`, which did not answer just now.
    """

    passed_over: frozenset[str] = frozenset()

    async def _ask_each(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int
    ) -> dict[str, bytes]:
        return await super()._ask_each(self._present(brokers), request, deadline_ms)

    async def _ask_some(
        self, brokers: Mapping[str, str], request: RequestFor[Reply], deadline_ms: int, missing: ZenitError
    ) -> dict[str, bytes]:
        return await super()._ask_some(self._present(brokers), request, deadline_ms, missing)

    def _present(self, brokers: Mapping[str, str]) -> dict[str, str]:
        present = {name: address for name, address in brokers.items() if address not in self.passed_over}
        if brokers and not present:
            raise NoRoute("*", f"{', '.join(sorted(brokers))}: no answer")
        return present

    def _new_waits(self, connection: Connection) -> Waits:
        return PacedWaits(connection)


class Sampling:
    """Brings answers into the figures."""

    def __init__(self, admin: PacedAdmin, figures: ClusterFigures, interval_ms: int) -> None:
        self._admin = admin
        self._figures = figures
        self._interval_ms = interval_ms
        self._listed_ms: int | None = None
        self._events_since = datetime_of_ms(now_ms()) - EVENTS_SINCE

    async def go_on(self) -> None:
        """Asks round by round, until it is cancelled. A cluster that does not answer may come back."""
        while True:
            begun_ms = monotonic_ms()
            try:
                await self.round()
            except ZenitError as error:
                self._figures.on_seen("cluster", str(error))
            await asyncio.sleep(max(0, begun_ms + self._interval_ms - monotonic_ms()) / 1000)

    async def begin(self) -> None:
        """Asks which brokers there are. Raises what the name servers raise if none answers."""
        document = await self._admin.cluster()
        self._figures.on_cluster(monotonic_ms(), document)
        self._figures.on_seen("cluster", None)

    async def round(self) -> None:
        """Asks for everything once. Raises as `begin` does."""
        await self.begin()
        await self._ask_brokers()
        is_due = self._listed_ms is None or monotonic_ms() - self._listed_ms >= LISTS_MS
        if is_due:
            self._listed_ms = monotonic_ms()
            await self._ask_lists()
        await self._ask_subjects()
        if is_due:
            await self._ask_events()

    async def _ask_brokers(self) -> None:
        """The masters first: slaves are compared with them."""
        self._admin.passed_over = frozenset()
        known = {address: one.about for address, one in self._figures.brokers.items() if one.gone_ms is None}
        for address in sorted(known, key=lambda each: known[each]["broker_id"] != MASTER_ID):
            try:
                told = (await self._admin.scrub_statistics([address]))[address]
            except ZenitError as error:
                self._figures.on_silent(address, str(error), is_hidden=not is_silence(error))
            else:
                self._figures.on_statistics(monotonic_ms(), address, told)
        silent = self._figures.silent_masters()
        self._admin.passed_over = frozenset(silent)
        names = ", ".join(f"{name} ({address})" for address, name in silent.items())
        self._figures.on_seen("left out", f"topics, groups and queues at {names}: no answer" if silent else None)

    async def _ask_lists(self) -> None:
        try:
            topics = await self._admin.topic_configs()
            is_whole = not self._admin.passed_over
            self._figures.on_topics((topic["name"] for topic in topics if not topic["system"]), is_whole=is_whole)
            self._figures.on_groups((group["name"] for group in await self._admin.groups()), is_whole=is_whole)
        except ZenitError as error:
            self._figures.on_seen("topics and groups", str(error))
        else:
            self._figures.on_seen("topics and groups", None)

    async def _ask_subjects(self) -> None:
        """If a broker stops to answer meanwhile, this is all of this round: each question would wait for it."""
        for subject in self._figures.subjects():
            try:
                await self._ask(subject)
            except ZenitError as error:
                self._figures.on_refused(monotonic_ms(), subject, str(error))
                if is_silence(error):
                    return

    async def _ask(self, subject: TopicOrGroup) -> None:
        if subject.is_group:
            group = await self._admin.describe_group(subject.name)
            self._figures.on_group(monotonic_ms(), group)
        else:
            topic = await self._admin.describe_topic(subject.name)
            self._figures.on_topic(monotonic_ms(), topic)

    async def _ask_events(self) -> None:
        asked_at = datetime_of_ms(now_ms())
        try:
            self._figures.on_events(await self._admin.events(since=self._events_since))
        except ZenitError as error:
            self._figures.on_seen("events", str(error))
        else:
            self._events_since = asked_at - EVENTS_OVERLAP
