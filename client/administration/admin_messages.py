"""The administrator's calls about single messages: finds them by id or key, and traces them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from ...model.clock import ms_of_datetime
from ...model.errors import InvalidParameter, MessageNotFound, NoRoute, TopicNotFound
from ...model.ids import HostAddress, parse_offset_message_id
from ...model.names import TRACE_TOPIC
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import QueryMessages, ViewMessage
from ..tracing.message_trace import Finder, find_journey
from .admin_calls import AdminCalls, masters_of
from .admin_merge import Document

END_OF_TIME_MS: Final = 1 << 62


class MessageAdmin(AdminCalls):
    """Calls about single messages."""

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
        """Messages with this key, newest first, at most `max_messages`; `since`, `until`: stored within."""
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
        """The message with this id: an offset message id, or a unique id, searched in `topic` or else in every topic.

        Raises MessageNotFound.
        """
        deadline_ms = self._deadline(timeout)
        found = await self._view_by_offset(message_id, deadline_ms)
        if found is not None and topic in (None, found.topic):
            return found
        for name in [topic] if topic is not None else await self._topic_names(deadline_ms):
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
        """Messages of a topic with this unique id, newest first: several if it was stored again, as in a retry topic."""
        request = QueryMessages(topic, message_id, max_messages, unique=True)
        return (await self._query(topic, request, self._deadline(timeout)))[:max_messages]

    async def _trace(
        self, message_id: str, *, topic: str | None = None, trace_topic: str = TRACE_TOPIC, timeout: float | None = None
    ) -> Document:
        """The journey of a message that was sent and consumed with `trace=True`, found by its id of either kind.

        {message_id, topic, events: [{event, at_ms, ...}]} by time; events: produced, stored, transaction, recalled,
        retried, dead_lettered, delivered, consumed. Raises MessageNotFound if nothing is known of it.
        """
        deadline_ms = self._deadline(timeout)
        finder = Finder(self._view_message, self._query_by_key, self._query_by_id, lambda: self._left_s(deadline_ms))
        return await find_journey(finder, message_id, topic=topic, trace_topic=trace_topic)

    async def _view_by_offset(self, message_id: str, deadline_ms: int) -> StoredMessage | None:
        """Asks the broker in the id, if it belongs to this cluster and has a message with that id."""
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
        for broker_name, address in masters_of(await self._fresh_route(topic, deadline_ms)).items():
            _, payload = await self._call(address, request, deadline_ms)
            found.extend(decode_batch(payload, broker_name))
        found.sort(key=lambda message: message.stored_at_ms, reverse=True)
        return found


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
