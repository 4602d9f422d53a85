"""The administrator's calls about single messages: finds them by id or key, and traces them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import InvalidParameter, MessageNotFound, NoRoute, RequestTimeout, TopicNotFound, ZenitError
from ...model.ids import HostAddress, parse_offset_message_id
from ...model.names import TRACE_TOPIC
from ...model.queue import MessageQueue, PhysicalOffset
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import ViewMessage
from ..connection.argument_checks import check_count
from ..connection.retry import RetryPolicy
from ..tracing.message_trace import Finder, find_journey
from .admin_calls import AdminCalls, addresses_of
from .admin_merge import Document
from .message_query import Criteria, PageMerge, QueryPage, criteria_of, key_of

MESSAGES_MAX: Final = 1_000_000
OTHER_GROUP_MS: Final = 1_000  # for the answer of a group whose address is not in an id


class MessageAdmin(AdminCalls):
    """Calls about single messages."""

    async def _query(
        self,
        topic: str,
        *,
        key: str | None = None,
        message_id: str | None = None,
        text: str | bytes | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        queue: MessageQueue | None = None,
        from_offset: int | None = None,
        until_offset: int | None = None,
        max_messages: int = 64,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> QueryPage:
        """A page of the messages of a topic, newest first: all of them, or those that meet every condition given.

        `key`: they have it; `message_id`: it is theirs (several if it was stored again). `text`: in their bodies, upper and
        lower case apart; needs `since` or `from_offset`, unless there is a key. `since`, `until`: stored within. `queue`:
        only those of it, with queue offsets in [`from_offset`, `until_offset`). `cursor`: of an earlier page of the same query,
        however long ago. It needs no group and leaves nothing at the brokers.

        The page has fewer than `max_messages` where no more are left (its cursor is None), or where the timeout was over: then
        its cursor goes on. Raises TopicNotFound, NoRoute, InvalidParameter; RequestTimeout if nothing was looked at in time.
        """
        deadline_ms = self._deadline(timeout)
        criteria = criteria_of(
            topic, key=key, message_id=message_id, text=text, since=since, until=until, queue=queue,
            from_offset=from_offset, until_offset=until_offset,
        )  # fmt: skip
        check_count("max_messages", max_messages, 1, MESSAGES_MAX)
        return await self._page(criteria, cursor, max_messages, deadline_ms)

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
        key_of("key", key)  # else a None would find every message
        page = await self._query(topic, key=key, since=since, until=until, max_messages=max_messages, timeout=timeout)
        return _whole(page, max_messages, topic, self._milliseconds(timeout))

    async def _view_message(
        self, message_id: str, *, topic: str | None = None, timeout: float | None = None
    ) -> StoredMessage:
        """The message with this id: an offset message id, or a unique id, searched in `topic` or else in every topic.

        Raises MessageNotFound, or why a group that may have it did not answer.
        """
        deadline_ms = self._deadline(timeout)
        found, failure = await self._view_by_offset(message_id, deadline_ms)
        if found is not None and topic in (None, found.topic):
            return found
        for name in [topic] if topic is not None else await self._topic_names(deadline_ms):
            try:
                page = await self._query(name, message_id=message_id, max_messages=1, timeout=self._left_s(deadline_ms))
            except (TopicNotFound, NoRoute):
                if topic is not None:
                    raise
                continue
            if page.messages:
                return page.messages[0]
            _whole(page, 1, name, self._milliseconds(timeout))
        raise failure or MessageNotFound(f"id {message_id[:64]}")

    async def _query_by_id(
        self, topic: str, message_id: str, *, max_messages: int = 64, timeout: float | None = None
    ) -> list[StoredMessage]:
        """Messages of a topic with this unique id, newest first: several if it was stored again, as in a retry topic."""
        key_of("message_id", message_id)
        page = await self._query(topic, message_id=message_id, max_messages=max_messages, timeout=timeout)
        return _whole(page, max_messages, topic, self._milliseconds(timeout))

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

    async def _view_by_offset(
        self, message_id: str, deadline_ms: int
    ) -> tuple[StoredMessage | None, ZenitError | None]:
        """(the message with that id, why a group that may have it did not answer).

        It asks first the group whose master has the address in the id, then the others: a broker that is reached by a name, or
        has moved, has written other addresses than the one it is known by. What is no such id may look like one; so the
        others get little time.
        """
        try:
            host, offset = parse_offset_message_id(message_id)
        except InvalidParameter:
            return None, None
        masters = (await self._masters(deadline_ms)).items()
        failure: ZenitError | None = None
        for broker_name, address in sorted(masters, key=lambda master: not _is_at(master[1], host)):
            until_ms = deadline_ms if _is_at(address, host) else min(deadline_ms, monotonic_ms() + OTHER_GROUP_MS)
            try:
                _, payload = await self._call(address, ViewMessage(PhysicalOffset(offset)), until_ms)
            except MessageNotFound:
                continue
            except ZenitError as error:
                failure = failure or error
                continue
            for message in decode_batch(payload, broker_name):
                if message.offset_message_id == message_id.upper():
                    return message, None
        return None, failure

    async def _page(self, criteria: Criteria, cursor: str | None, max_messages: int, deadline_ms: int) -> QueryPage:
        route = await self._fresh_route(criteria.topic, deadline_ms)
        names = criteria.brokers_of(queues.broker_name for queues in route.queues)
        merge = PageMerge(criteria, cursor, names, max_messages)
        policy, tries = RetryPolicy(), 0
        while (asked := merge.next_request()) is not None:
            broker_name, request = asked
            addresses = addresses_of(route, broker_name)
            try:
                if not addresses:
                    raise NoRoute(criteria.topic, f"no replica of {broker_name} is up")
                left_ms = deadline_ms - monotonic_ms()
                try_ms = policy.try_timeout_ms(left_ms, left_ms)
                address = addresses[tries % len(addresses)]
                reply, payload = await self._call(address, request, monotonic_ms() + try_ms)
            except ZenitError as error:
                tries += 1
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = policy.delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=tries < len(addresses))
                if delay_ms is None:
                    if error.retriable and merge.has_advanced:
                        break
                    raise
                await self._waits.sleep(delay_ms)
                route = await self._fresh_route(criteria.topic, deadline_ms)
                continue
            tries = 0
            merge.on_reply(broker_name, reply, decode_batch(payload, broker_name))
        return merge.page()


def _whole(page: QueryPage, max_messages: int, topic: str, timeout_ms: int) -> list[StoredMessage]:
    """The messages of a page that the timeout did not end. Raises RequestTimeout."""
    if page.cursor is not None and len(page.messages) < max_messages:
        raise RequestTimeout(
            f"the messages of topic {topic}; `query` continues where it was, by its cursor", timeout_ms
        )
    return list(page.messages)


def _is_at(address: str, host: HostAddress) -> bool:
    """Whether "host:port" is that of an id. False for a name: what it resolves to now says nothing of then."""
    name, _, port = address.rpartition(":")
    try:
        return HostAddress.parse(name.strip("[]"), int(port)) == host
    except InvalidParameter:
        return False
