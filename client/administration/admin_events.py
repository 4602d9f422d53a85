"""The administrator's question for events: every server of the cluster is asked for its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ...model.clock import monotonic_ms, ms_of_datetime
from ...model.errors import InvalidParameter, ZenitError, is_silence
from ...model.events.event import HEAD, time_of_text
from ...remoting.commands import (
    ControllerReply,
    GetBrokerConfig,
    GetBrokerEvents,
    GetController,
    GetControllerEvents,
    GetGroupEvents,
    GetNameServerEvents,
    JsonReply,
    RequestFor,
)
from ..connection.documents import document_of
from .admin_calls import AdminCalls
from .admin_merge import Document

ASK_MS: Final = 1500
"""For each server: one that is down must not keep the others' answers back."""


class EventAdmin(AdminCalls):
    """Calls about events."""

    async def _events(
        self, *, group: str | None = None, since: datetime | None = None, timeout: float | None = None
    ) -> Document:
        """{"events": [...], "silent": [address], "refused": {address: why}}: what happened, oldest first; docs/events.md
        lists the kinds and their fields. Missing are the events of the servers that are `silent`, and of those that
        `refused` to tell, with what they said.

        `group`: a replica group's only, by its broker name. `since`: from then on. Each server keeps its newest 1,000,
        ZooKeeper each group's newest 500. Raises what the name servers raise if none answers; AccessDenied and the like if
        all that answer refuse.
        """
        deadline_ms = self._deadline(timeout)
        since_ms = 0 if since is None else ms_of_datetime(since)
        brokers = [one["address"] for one in (await self._cluster_document(deadline_ms))["brokers"]]
        found = _Found(since_ms, group)
        for address in brokers:
            await self._take(found, address, GetBrokerEvents(since_ms), deadline_ms)
        for address in self._connection.addresses:
            await self._take(found, address, GetNameServerEvents(since_ms), deadline_ms)
        await self._ask_controllers(found, brokers, deadline_ms)
        if found.refusal is not None and not found.answers:
            raise found.refusal
        is_known = bool(found.groups or found.events)
        is_certain = found.leader_told or not (found.silent or found.refused)
        if group is not None and not is_known and is_certain:
            raise InvalidParameter("group", group, "a replica group, by its broker name (see zenit cluster)")
        return found.document()

    async def _ask_controllers(self, found: _Found, brokers: list[str], deadline_ms: int) -> None:
        told = await self._controllers(found, brokers, deadline_ms)
        if told is None:
            return
        found.leader_told = True
        for address in told.controllers:
            await self._take(found, address, GetControllerEvents(found.since_ms), deadline_ms)
        for name in told.broker_names:
            if found.group in (None, name):
                found.groups.add(name)
                await self._take(found, told.leader, GetGroupEvents(name, found.since_ms), deadline_ms)

    async def _controllers(self, found: _Found, brokers: list[str], deadline_ms: int) -> ControllerReply | None:
        """Who the controllers are, as the one that leads says; None if there are none, or nobody leads."""
        configured: list[str] = []
        failed: dict[str, ZenitError] = {}
        for address in brokers:
            try:
                _, payload = await self._call(address, GetBrokerConfig(), _soon(deadline_ms))
            except ZenitError as error:
                failed[address] = error
                continue
            configured = [str(each) for each in document_of(payload).get("controllers") or ()]
            failed = {}
            break
        found.missed(failed)
        for address in configured:
            try:
                reply, _ = await self._call(address, GetController(), _soon(deadline_ms))
                if reply.leader and reply.leader != address:
                    reply, _ = await self._call(reply.leader, GetController(), _soon(deadline_ms))
            except ZenitError as error:
                failed[address] = error
                continue
            if reply.leader:
                found.silent.update(set(configured) - set(reply.controllers))
                return reply
        found.silent.update(set(configured) - failed.keys())
        found.missed(failed)
        return None

    async def _take(self, found: _Found, address: str, request: RequestFor[JsonReply], deadline_ms: int) -> None:
        try:
            _, payload = await self._call(address, request, _soon(deadline_ms))
        except ZenitError as error:
            found.missed({address: error})
        else:
            found.add(document_of(payload).get("events"))


class _Found:
    """What has been answered so far."""

    def __init__(self, since_ms: int, group: str | None) -> None:
        self.since_ms = since_ms
        self.group = group
        self.events: list[Document] = []
        self.groups: set[str] = set()
        self.silent: set[str] = set()
        self.refused: dict[str, str] = {}
        self.refusal: ZenitError | None = None  # the first
        self.answers = 0
        self.leader_told = False  # the leading controller, which knows all replica groups

    def missed(self, failed: Mapping[str, ZenitError]) -> None:
        """What servers answered instead of events, by address."""
        for address, error in failed.items():
            if is_silence(error):
                self.silent.add(address)
            else:
                self.refused[address] = str(error)
                self.refusal = self.refusal or error

    def add(self, events: object) -> None:
        """Takes an answer; what is no event in it is passed over."""
        self.answers += 1
        for event in events if isinstance(events, list) else ():
            if not isinstance(event, dict) or not all(isinstance(event.get(name), str) for name in HEAD):
                continue
            if self.group in (None, event.get("group")):
                self.events.append(event)

    def document(self) -> Document:
        """The answer, in the order of time."""
        return {"events": sorted(self.events, key=_time), "silent": sorted(self.silent), "refused": self.refused}


def _time(event: Document) -> int:
    try:
        return time_of_text(event["ts"])
    except (ValueError, OverflowError):
        return 0


def _soon(deadline_ms: int) -> int:
    return min(deadline_ms, monotonic_ms() + ASK_MS)
