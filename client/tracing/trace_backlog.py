"""Trace records that wait to be sent, and how they are combined into trace messages. Pure.

The backlog is bounded in entries and in the bytes that it keeps alive; beyond that, entries are dropped and counted, so
that a trace never slows what it describes. Records are made when they are packed, not when they are noted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from ...model.errors import TraceDamaged
from ...model.plain_dataclass import dataclass
from .trace_format import TraceRecord, encode_trace

ENTRIES_MAX: Final = 10_000
BYTES_MAX: Final = 32 * 1024 * 1024
RECORDS_MAX: Final = 100  # of a trace message, and so its keys
BODY_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Noted:
    """The records of some messages, created when they are taken; `size_bytes` stay in memory until then."""

    records: Iterator[TraceRecord]
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """A trace message. `keys`: the ids of the messages that it describes; `damaged`: records that could not be encoded."""

    body: bytes
    keys: tuple[str, ...]
    count: int
    damaged: int


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """Records since the start, one for each message that was sent, delivered or consumed.

    `waiting`: not stored yet; `dropped`: noted too fast, or not taken by a broker.
    """

    waiting: int
    stored: int
    dropped: int


class TraceBacklog:
    """The waiting notes. Not thread-safe: its owner holds a lock."""

    __slots__ = ("_bytes_max", "_entries", "_entries_max", "_size_bytes")

    def __init__(self, *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: deque[Noted] = deque()
        self._size_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._entries

    def add(self, noted: Noted) -> bool:
        """Adds notes; False if there is no room."""
        if len(self._entries) >= self._entries_max or self._size_bytes + noted.size_bytes > self._bytes_max:
            return False
        self._entries.append(noted)
        self._size_bytes += noted.size_bytes
        return True

    def take(self) -> Noted | None:
        """The oldest notes; None if nothing waits."""
        if not self._entries:
            return None
        noted = self._entries.popleft()
        self._size_bytes -= noted.size_bytes
        return noted


def pack(records: Iterator[TraceRecord]) -> TraceMessage | None:
    """As many of the next records as fit into one trace message; None if there are none. The rest stays in the iterator."""
    parts: list[bytes] = []
    keys: dict[str, None] = {}
    size_bytes = damaged = 0
    for record in records:
        try:
            part = encode_trace((record,))
        except TraceDamaged:
            damaged += 1
        else:
            parts.append(part)
            keys[record.message_id] = None
            size_bytes += len(part)
        if len(parts) + damaged >= RECORDS_MAX or size_bytes >= BODY_BYTES_MAX:
            break
    if not parts and not damaged:
        return None
    return TraceMessage(b"".join(parts), tuple(keys), len(parts), damaged)
