"""A query for single messages, and a page of its result. Pure.

A query walks the log of one store from its newest record to its oldest, and ends where its page is full or its time is over.
It goes on from a *place*: below a physical offset. All replicas of a group have one log, so a place found at one of them holds
at each other one, and after retention. What a place tells besides of an index file only saves time, at the store that told it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from ..model.errors import CorruptRecordError, RemoteProtocolError
from ..model.properties import KEYS, UNIQUE_KEY
from ..record.codes import COMPRESSED_BIT, SYS_FLAG_AT
from ..record.kernel import decode_record

ANY_QUEUE: Final = -1
NO_END: Final = 1 << 62  # behind every time, queue offset and physical offset


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Everything at or behind physical offset `below` has been looked at. `file`, `entry`: of the index, 0 = not known."""

    below: int = NO_END
    file: int = 0
    entry: int = 0

    @classmethod
    def end(cls) -> Self:
        """Nothing is left."""
        return cls(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuery:
    """Messages of a topic, newest first.

    `key` "" for any; `unique`: it is a unique id. `contains`: bytes of the plain body. Within [begin_ms, end_ms] of store
    times, and in one queue (or ANY_QUEUE) within [queue_begin, queue_end). `max_messages`, `max_bytes`: of one page, which
    has at least one message.
    """

    topic: str
    key: str = ""
    unique: bool = False
    contains: bytes = b""
    begin_ms: int = 0
    end_ms: int = NO_END
    queue_id: int = ANY_QUEUE
    queue_begin: int = 0
    queue_end: int = NO_END
    start: LogPlace = LogPlace()
    max_messages: int = 64
    max_bytes: int = 1 << 24

    def accepts(self, record: bytes) -> bool:
        """Whether this whole record is one of the messages. A damaged one is not."""
        if self.contains and not record[SYS_FLAG_AT + 3] & COMPRESSED_BIT and self.contains not in record:
            return False
        try:
            message = decode_record(record)
            if message.topic != self.topic or not self.begin_ms <= message.stored_at_ms <= self.end_ms:
                return False
            if self.queue_id not in (ANY_QUEUE, message.queue_id):
                return False
            if not self.queue_begin <= message.queue_offset < self.queue_end:
                return False
            return self._has_key(message.properties) and (not self.contains or self.contains in message.body)
        except (CorruptRecordError, RemoteProtocolError):
            return False

    def _has_key(self, properties: dict[str, str]) -> bool:
        if not self.key:
            return True
        if self.unique:
            return properties.get(UNIQUE_KEY) == self.key
        return self.key in properties.get(KEYS, "").split(" ")


@dataclass(slots=True)
class Page:
    """What was found in one go. `place`: where to go on. `examined`: how many records were looked at, the last of which was
    stored at `reached_ms` (0: none was)."""

    query: StoreQuery
    place: LogPlace
    records: list[bytes] = field(default_factory=list)
    examined: int = 0
    reached_ms: int = 0
    size_bytes: int = 0

    def has_room(self, records: Sequence[bytes]) -> bool:
        """Whether they fit, too."""
        return not self.records or self.size_bytes + sum(map(len, records)) <= self.query.max_bytes

    def add(self, records: Sequence[bytes]) -> None:
        """Adds the messages of one record; those of a batch come together, however many they are."""
        self.records += records
        self.size_bytes += sum(map(len, records))

    @property
    def is_full(self) -> bool:
        """Whether it has as many messages as were wanted."""
        return len(self.records) >= self.query.max_messages
