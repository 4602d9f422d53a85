"""A query over the brokers of a topic: what is asked of each, in which order messages come out, and where a page ends. Pure.

Each broker gives its messages newest first; of the next ones of all brokers the latest stored comes first. A page ends with a
*cursor*, a text that says how far each broker's log has been used: below which physical offset the rest begins. It needs no
memory at any broker, and holds after a failover, a restart, and retention. A broker gives all messages of a batch together, and
a page may end among them: the cursor then says how many of them it took.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from ...model.clock import datetime_of_ms, ms_of_datetime
from ...model.errors import InvalidParameter
from ...model.names import check_topic
from ...model.queue import MessageQueue
from ...record.kernel import StoredMessage
from ...remoting.commands import QueryMessages, QueryReply

NO_END: Final = 1 << 62
CURSOR_LENGTH_MAX: Final = 1 << 16
REPLY_MESSAGES_MAX: Final = 1024
_CURSOR: Final = "the cursor of a page of the same query"
_OFFSET_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class QueryPage:
    """`messages`: newest first. `cursor`: for the next page; None: there are no more.

    `examined`: how many messages the brokers looked at for it. `reached`: to which time of storing they have come; None:
    nothing was looked at.
    """

    messages: Sequence[StoredMessage]
    cursor: str | None
    examined: int
    reached: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What is looked for: see `Admin.query`."""

    topic: str
    key: str = ""
    unique: bool = False
    contains: bytes = b""
    begin_ms: int = 0
    end_ms: int = NO_END
    queue: MessageQueue | None = None
    queue_begin: int = 0
    queue_end: int = NO_END

    def request(self, place: _BrokerPlace, max_messages: int) -> QueryMessages:
        """What is asked of a broker."""
        return QueryMessages(
            self.topic,
            self.key,
            min(max_messages, REPLY_MESSAGES_MAX),
            self.begin_ms,
            self.end_ms,
            self.unique,
            place.below,
            place.file,
            place.entry,
            self.contains,
            -1 if self.queue is None else self.queue.queue_id,
            self.queue_begin,
            self.queue_end,
        )

    def brokers_of(self, names: Iterable[str]) -> list[str]:
        """Those to ask. Raises InvalidParameter if the queue's is not among them."""
        known = sorted(names)
        if self.queue is None:
            return known
        if self.queue.broker_name not in known:
            raise InvalidParameter("queue", str(self.queue), f"a queue of {', '.join(known)}")
        return [self.queue.broker_name]

    def mark(self) -> int:
        """Tells two queries apart in their cursors."""
        return zlib.crc32(repr(self).encode())


def criteria_of(
    topic: str,
    *,
    key: str | None,
    message_id: str | None,
    text: str | bytes | None,
    since: datetime | None,
    until: datetime | None,
    queue: MessageQueue | None,
    from_offset: int | None,
    until_offset: int | None,
) -> Criteria:
    """Raises InvalidName, InvalidParameter."""
    check_topic(topic)
    if key is not None and message_id is not None:
        raise InvalidParameter("message_id", message_id[:64], "no key besides it: a message id is enough")
    if queue is None and (from_offset is not None or until_offset is not None):
        raise InvalidParameter("queue", None, "the queue that from_offset and until_offset are of")
    if queue is not None and (not isinstance(queue, MessageQueue) or queue.topic != topic):
        raise InvalidParameter("queue", str(queue), f"one of Admin.queues({topic!r})")
    if text is not None and key is None and message_id is None and since is None and from_offset is None:
        expected = "a time, or a queue and from_offset: a query by text reads every message back to there"
        raise InvalidParameter("since", None, expected)
    begin_ms = 0 if since is None else _ms_of("since", since)
    end_ms = NO_END if until is None else _ms_of("until", until)
    if end_ms < begin_ms:
        raise InvalidParameter("until", until, f"a time that is not before since ({since})")
    queue_begin = 0 if from_offset is None else _offset_of("from_offset", from_offset)
    queue_end = NO_END if until_offset is None else _offset_of("until_offset", until_offset)
    if queue_end < queue_begin:
        raise InvalidParameter("until_offset", until_offset, f"an offset that is not below from_offset ({from_offset})")
    return Criteria(
        topic=topic,
        key=key_of("message_id", message_id) if message_id is not None else "" if key is None else _word_of(key),
        unique=message_id is not None,
        contains=b"" if text is None else _bytes_of(text),
        begin_ms=begin_ms,
        end_ms=end_ms,
        queue=queue,
        queue_begin=queue_begin,
        queue_end=queue_end,
    )


def _word_of(key: str) -> str:
    if isinstance(key, str) and " " in key:
        raise InvalidParameter("key", key[:64], "one word: a message's keys are separated by blanks")
    return key_of("key", key)


def key_of(name: str, key: str) -> str:
    """A key or an id to look for. Raises InvalidParameter."""
    if not isinstance(key, str) or not key:
        raise InvalidParameter(name, repr(key)[:64], "a text that is not empty")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(name, ascii(key)[:64], "text that UTF-8 can carry") from None
    return key


def _bytes_of(text: str | bytes) -> bytes:
    if not isinstance(text, (str, bytes)) or not text:
        raise InvalidParameter("text", repr(text)[:64], "a text or bytes, not empty")
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidParameter("text", ascii(text)[:64], "text that UTF-8 can carry, or bytes") from None


def _ms_of(name: str, moment: datetime) -> int:
    if not isinstance(moment, datetime):
        raise InvalidParameter(name, moment, "a datetime")
    return ms_of_datetime(moment)


def _offset_of(name: str, offset: int) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _OFFSET_MAX:
        raise InvalidParameter(name, offset, "a queue offset, 0 or more")
    return min(offset, NO_END)


@dataclass(frozen=True, slots=True)
class _BrokerPlace:
    """In one broker's log: everything at or behind `below` has been used. 0: nothing is left. `taken`: that many messages, too,
    of the record that begins just before `below`: a batch, of which a page took a part."""

    below: int = NO_END
    file: int = 0
    entry: int = 0
    taken: int = 0

    def after(self, message: StoredMessage, following: StoredMessage) -> _BrokerPlace:
        """The place once this message has been taken, too, and that one is next."""
        at = message.physical_offset
        if following.physical_offset != at:
            return replace(self, below=at, taken=0)
        return replace(self, below=at + 1, taken=self.taken + 1 if self.below == at + 1 else 1)

    def moved(self, reply: QueryReply) -> _BrokerPlace:
        """Where this answer to a request from here on ends."""
        return _BrokerPlace(reply.below, reply.file, reply.entry, self.taken if reply.below == self.below else 0)

    def left_of(self, messages: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
        """The answer to a request from here on, without what was taken before."""
        taken = self.taken
        for message in messages:
            if taken and message.physical_offset == self.below - 1:
                taken -= 1
            else:
                yield message


@dataclass(slots=True)
class _Source:
    """One broker: its messages from `used` on are to come; those down to `read` lie in `ready`. The page began at `begin`."""

    begin: _BrokerPlace
    used: _BrokerPlace
    read: _BrokerPlace
    ready: deque[StoredMessage] = field(default_factory=deque)

    def take(self) -> StoredMessage:
        message = self.ready.popleft()
        self.used = self.used.after(message, self.ready[0]) if self.ready else self.read
        return message


class PageMerge:
    """Makes one page of what the brokers answer."""

    def __init__(self, criteria: Criteria, cursor: str | None, brokers: Iterable[str], max_messages: int) -> None:
        """Raises InvalidParameter if the cursor is not of such a query."""
        self._criteria = criteria
        self._max_messages = max_messages
        places = {} if cursor is None else _decode(cursor, criteria.mark())
        self._sources = {
            name: _Source(place, place, place)
            for name in sorted(
                {*brokers, *places}
            )  # one that no longer serves the topic has to be asked for what it kept
            for place in (places.get(name, _BrokerPlace()),)
        }
        self._messages: list[StoredMessage] = []
        self._examined = 0
        self._reached_ms = 0

    @property
    def has_advanced(self) -> bool:
        """Whether the next page begins elsewhere than this one did."""
        return any(source.used != source.begin for source in self._sources.values())

    def next_request(self) -> tuple[str, QueryMessages] | None:
        """The next broker to ask, and what; None: the page is full, or nothing is left."""
        if len(self._messages) >= self._max_messages:
            return None
        for name, source in self._sources.items():
            if not source.ready and source.read.below > 0:
                return name, self._criteria.request(source.read, self._max_messages - len(self._messages))
        return None

    def on_reply(self, broker: str, reply: QueryReply, messages: Iterable[StoredMessage]) -> None:
        """Takes an answer."""
        source = self._sources[broker]
        self._examined += reply.examined
        self._reached_ms = reply.reached_ms or self._reached_ms
        source.ready.extend(source.read.left_of(messages))
        source.read = source.read.moved(reply)
        if not source.ready:
            source.used = source.read
        self._take_ready()

    def _take_ready(self) -> None:
        """Takes messages while the next one of every broker is known."""
        while len(self._messages) < self._max_messages:
            if any(not source.ready and source.read.below > 0 for source in self._sources.values()):
                return
            ready = [(source.ready[0].stored_at_ms, name) for name, source in self._sources.items() if source.ready]
            if not ready:
                return
            self._messages.append(self._sources[max(ready)[1]].take())

    def page(self) -> QueryPage:
        """What there is now."""
        places = {name: source.used for name, source in self._sources.items()}
        is_over = all(place.below <= 0 for place in places.values())
        return QueryPage(
            self._messages,
            None if is_over else _encode(self._criteria.mark(), places),
            self._examined,
            datetime_of_ms(self._reached_ms) if self._reached_ms else None,
        )


def _encode(mark: int, places: dict[str, _BrokerPlace]) -> str:
    rows = {
        name: [place.below, place.file, place.entry, *([place.taken] if place.taken else [])]
        for name, place in sorted(places.items())
    }
    text = json.dumps([1, mark, rows], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, mark: int) -> dict[str, _BrokerPlace]:
    """Raises InvalidParameter."""
    try:
        if len(cursor) > CURSOR_LENGTH_MAX:
            raise ValueError
        found: Any = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        version, its_mark, rows = found
        if version != 1 or its_mark != mark:
            raise ValueError
        places = {}
        for name, (below, file, entry, *taken) in rows.items():
            numbers = (below, file, entry, *taken)
            if len(taken) > 1 or not all(type(number) is int and 0 <= number <= _OFFSET_MAX for number in numbers):
                raise ValueError
            places[name] = _BrokerPlace(*numbers)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidParameter("cursor", str(cursor)[:64], _CURSOR) from None
    return places
