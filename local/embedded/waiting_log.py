"""Messages that a group could not handle, until they come again: a log of their own, and a heap of their times.

A waiting record names its queue and its time in its properties (broker/delay/timing). When the time has come, a copy goes to
the group's retry topic, and the file `delivered` notes the record by its queue offset. A kill between the two delivers once
more.
Guarded by the engine's lock.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import replace
from typing import Final

from ...broker.delay.rewriting import delivered_record
from ...broker.delay.timing import DelayRules, waiting_properties
from ...broker.waiting.copies import real_queue
from ...model.clock import Clock
from ...model.names import TIMER_TOPIC
from ...model.properties import TIMER_OUT_MS
from ...model.queue import QueueOffset
from ...record.kernel import StoredMessage, decode_batch
from ...record.new_record import NewRecord
from ...store.message_store import Placed
from .log_store import LogStore
from .queue_logs import QueueLogs

FILE_NAME: Final = "delivered"
AT_ONCE: Final = 256  # copies in one turn
KEPT_MAX: Final = 8192  # notes, before those that are of no use any more are left out
_NOTE_BYTES: Final = 8
_READ_BYTES: Final = 4 << 20


class WaitingLog:
    """As the handlers know the delays of a broker: `rules` and `stage_delayed`."""

    def __init__(self, logs: QueueLogs, store: LogStore, rules: DelayRules, clock: Clock, *, host_bytes: int) -> None:
        """Reads what waits. Raises OSError, StoreFormatError."""
        self.rules = rules
        self._logs, self._store, self._clock, self._host_bytes = logs, store, clock, host_bytes
        self._path = os.path.join(logs.directory, FILE_NAME)
        self._delivered = self._noted()
        self._kept_max = KEPT_MAX
        self._heap: list[tuple[int, int]] = []  # (due, queue offset)
        self._load()

    def stage_delayed(self, record: NewRecord, deliver_at_ms: int) -> Placed:
        """The record waits until then. Raises StoreNotWriteable, StorePoisoned, InvalidParameter."""
        self.rules.check(deliver_at_ms, self._clock.now_ms())
        properties = record.properties
        assert not isinstance(properties, bytes)  # the handlers of failed messages have them as texts
        waits = {**properties, **waiting_properties(record.topic, record.queue_id, deliver_at_ms)}
        placed = self._store.stage_record(replace(record, topic=TIMER_TOPIC, queue_id=0, properties=waits))
        heapq.heappush(self._heap, (deliver_at_ms, placed.queue_offset))
        return placed

    def deliver_due(self) -> None:
        """Each message whose time has come goes to its queue. Raises StoreNotWriteable, StorePoisoned."""
        now_ms = self._clock.now_ms()
        for _ in range(AT_ONCE):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            offset = self._heap[0][1]
            for message in self._read(offset, 1):
                topic, queue_id = real_queue(message.properties)
                copy = delivered_record(message, topic, queue_id, self._host_bytes)
                self._store.stage_own(copy, topic=topic, queue_id=queue_id, count=1)
            heapq.heappop(self._heap)
            self._note(offset)

    def _load(self) -> None:
        log = self._logs.find(TIMER_TOPIC, 0)
        at = 0 if log is None else log.begin
        while log is not None and at < log.next_offset:
            messages = self._read(at, log.next_offset - at)
            for message in messages:
                if message.queue_offset not in self._delivered:
                    due_ms = int(message.properties.get(TIMER_OUT_MS, "0"))
                    self._heap.append((due_ms, message.queue_offset))
            at = messages[-1].queue_offset + 1 if messages else log.next_offset
        heapq.heapify(self._heap)
        self._forget_old()

    def _read(self, offset: int, count: int) -> list[StoredMessage]:
        found = self._store.get_messages(TIMER_TOPIC, 0, QueueOffset(offset), max_messages=count, max_bytes=_READ_BYTES)
        return list(decode_batch(b"".join(found.slices)))

    # ---- the notes

    def _noted(self) -> set[int]:
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return set()
        whole = len(data) // _NOTE_BYTES * _NOTE_BYTES  # a kill may leave a part of the last one
        return {int.from_bytes(data[at : at + _NOTE_BYTES], "big") for at in range(0, whole, _NOTE_BYTES)}

    def _note(self, offset: int) -> None:
        self._delivered.add(offset)
        if len(self._delivered) > self._kept_max:
            self._forget_old()
            return
        with open(self._path, "ab") as file:
            file.write(offset.to_bytes(_NOTE_BYTES, "big"))

    def _forget_old(self) -> None:
        """Files in which nothing waits any more go, and the notes about them."""
        log = self._logs.find(TIMER_TOPIC, 0)
        if log is None:
            return
        oldest = min((offset for _, offset in self._heap), default=log.next_offset)
        place = self._store.position_of(TIMER_TOPIC, 0, QueueOffset(oldest))
        log.drop_files_below(log.end if place is None else place)
        self._delivered = {offset for offset in self._delivered if offset >= log.begin}
        self._kept_max = max(KEPT_MAX, 2 * len(self._delivered))
        temporary = f"{self._path}.new"
        with open(temporary, "wb") as file:
            file.write(b"".join(offset.to_bytes(_NOTE_BYTES, "big") for offset in sorted(self._delivered)))
        os.replace(temporary, self._path)
