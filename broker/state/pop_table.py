"""What is popped: the queues of all pop groups, and the key that their receipt handles are signed with. Pure; loop thread.

Changed only from the log, like the topic table (see there). Leases end by the monotonic clock of this process: a wall clock
that jumps hands out nothing early. A broker that follows the log counts from when it applied the pop; one that starts has only
the wall clock to go by, and holds a lease for its whole invisible time at most.

What was acknowledged a moment ago is remembered: to acknowledge it once more succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from ...model.errors import StoreFormatError
from .pop_queue import Name, PopCheckpoint, PopQueue, decode_offsets, encode_offsets
from .topic_table import Document
from .unknown_events import unknown_event

POPPED: Final = "popped"
ACKED: Final = "acked"
RETURNED: Final = "returned"
CHANGED: Final = "changed"
RENEWED: Final = "renewed"
ENDED: Final = "ended"
SIGNED: Final = "signed"
POP_EVENTS: Final = (POPPED, ACKED, RETURNED, CHANGED, RENEWED, ENDED, SIGNED)

FILE_NAME: Final = "popLeases.json"
ACKED_MAX: Final = 20_000

QueueKey = tuple[str, str, int]
"""(group, topic, queue id)."""
Bits = tuple[int, int, int, int]
"""(queue id, first offset, time of the pop, bits): some messages of a check point."""

_HELD: Final = ("pops", "acked", "key")


@dataclass(frozen=True, slots=True)
class Popped:
    """One check point to be. `passed`: (offset, key hash) of messages that an ordered pop passed over; `next_offset`: the
    first one of the queue that nobody looked at."""

    queue_id: int
    offsets: Sequence[int]
    pop_ms: int
    invisible_ms: int
    next_offset: int
    owner: str = ""
    attempts: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    passed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """A lease whose time has come, or that is to be renewed."""

    queue: QueueKey
    checkpoint: PopCheckpoint


class PopTable:
    """`entries`: check points, and messages to be handed out again, of all queues together. `key`: b"" until the log has
    one."""

    def __init__(self) -> None:
        self.key = b""
        self.entries = 0
        self._queues: dict[QueueKey, PopQueue] = {}
        self._due: list[tuple[int, int, QueueKey, Name]] = []
        self._sequence = 0
        self._acked: dict[tuple[QueueKey, Name], int] = {}  # bits that were acknowledged, the latest last
        self._rest: Document = {}
        self._now_ms = self._monotonic_ms = 0

    # ---- events

    @staticmethod
    def event_popped(group: str, topic: str, pops: Sequence[Popped]) -> Document:
        """These go out."""
        rows = [
            *(
                [
                    *(one.queue_id, encode_offsets(one.offsets), one.pop_ms, one.invisible_ms, one.next_offset),
                    *(one.owner, one.attempts, one.keys, one.passed),
                ]
                for one in pops
            )
        ]
        return {"event": POPPED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_acked(group: str, topic: str, rows: Sequence[Bits]) -> Document:
        """These are handled."""
        return {"event": ACKED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_returned(group: str, topic: str, rows: Sequence[Bits], *, counts: bool) -> Document:
        """These are to be handed out again; `counts`: that was an attempt."""
        return {"event": RETURNED, "group": group, "topic": topic, "rows": rows, "counts": counts}

    @staticmethod
    def event_changed(
        group: str, topic: str, queue_id: int, name: Name, index: int, lease: tuple[int, int]
    ) -> Document:
        """One is leased from now on for another time. `lease`: (time of the change, invisible time), ms."""
        return {"event": CHANGED, "group": group, "topic": topic, "rows": [[queue_id, *name, index, *lease]]}

    @staticmethod
    def event_renewed(group: str, topic: str, rows: Sequence[tuple[int, int, int]]) -> Document:
        """These begin anew. `rows`: (queue id, first offset, time of the pop)."""
        return {"event": RENEWED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_ended(group: str, topic: str, rows: Sequence[tuple[int, int]]) -> Document:
        """These messages cannot be handed out any more: they expired, or are lost. `rows`: (queue id, offset)."""
        return {"event": ENDED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_signed(key: bytes) -> Document:
        """The key that handles are signed with from now on; the first one in the log counts."""
        return {"event": SIGNED, "key": key.hex()}

    def on_event(self, event: Mapping[str, Any], *, now_ms: int, monotonic_ms: int, is_live: bool) -> None:
        """Applies one event of the log. `is_live`: it was written now, not before this broker started. Raises
        StoreFormatError."""
        self._now_ms = 0 if is_live else now_ms
        self._monotonic_ms = monotonic_ms
        kind = event.get("event")
        try:
            if kind == SIGNED:
                self.key = self.key or bytes.fromhex(event["key"])
                return
            if kind not in POP_EVENTS:
                raise unknown_event("pop", event)
            group, topic = str(event["group"]), str(event["topic"])
            for row in event["rows"]:
                key = (group, topic, int(row[0]))
                before = self._size(key)
                self._apply(kind, key, row, event)
                self.entries += self._size(key) - before
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError("pop events", f"{str(event)[:200]}: {error!r}") from error

    def _size(self, key: QueueKey) -> int:
        queue = self._queues.get(key)
        return 0 if queue is None else len(queue.checkpoints) + len(queue.available)

    def _apply(self, kind: str, key: QueueKey, row: Sequence[Any], event: Mapping[str, Any]) -> None:
        if kind == POPPED:
            self._on_popped(key, row)
            return
        queue = self._queues.get(key)
        if queue is None:
            return  # the queue was deleted meanwhile
        if kind == ENDED:
            queue.on_ended(int(row[1]))
            return
        name = int(row[1]), int(row[2])
        if kind == RENEWED:
            checkpoint = queue.checkpoints.get(name)
            if checkpoint is not None:
                checkpoint.due_ms = self._monotonic_ms + checkpoint.invisible_ms
                self._schedule(key, checkpoint)
            return
        known = queue.checkpoints.get(name)
        if kind == ACKED:
            queue.on_acked(name, int(row[3]))
        elif kind == RETURNED:
            queue.on_returned(name, int(row[3]), counts=bool(event["counts"]))
        elif kind == CHANGED:
            index, pop_ms, invisible_ms = int(row[3]), int(row[4]), int(row[5])
            one = queue.on_changed(name, index, pop_ms, invisible_ms, self._due_of(pop_ms, invisible_ms))
            if one is not None:
                self._schedule(key, one)
        if known is not None and kind == ACKED:
            self._remember(key, name, int(row[3]))

    def _on_popped(self, key: QueueKey, row: Sequence[Any]) -> None:
        _, encoded, pop_ms, invisible_ms, next_offset, owner, attempts, keys, passed = row
        checkpoint = PopCheckpoint(
            decode_offsets(encoded),
            int(pop_ms),
            int(invisible_ms),
            self._due_of(int(pop_ms), int(invisible_ms)),
            owner=str(owner),
            attempts=tuple(map(int, attempts)),
            keys=tuple(map(int, keys)),
        )
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PopQueue(checkpoint.offsets[0])
        pairs = [(int(offset), int(hash_)) for offset, hash_ in passed]
        if queue.on_popped(checkpoint, next_offset=int(next_offset), passed=pairs):
            self._schedule(key, checkpoint)

    def _due_of(self, pop_ms: int, invisible_ms: int) -> int:
        """Monotonic. Of what was popped before this broker started, as far as the wall clock can be trusted."""
        passed_ms = min(max(0, self._now_ms - pop_ms), invisible_ms) if self._now_ms else 0
        return self._monotonic_ms + invisible_ms - passed_ms

    def _schedule(self, key: QueueKey, checkpoint: PopCheckpoint) -> None:
        self._sequence += 1
        heappush(self._due, (checkpoint.due_ms, self._sequence, key, checkpoint.name))

    def _remember(self, key: QueueKey, name: Name, bits: int) -> None:
        self._acked[key, name] = self._acked.pop((key, name), 0) | bits
        if len(self._acked) > ACKED_MAX:
            del self._acked[next(iter(self._acked))]

    def on_buried(self, key: QueueKey, offset: int) -> None:
        """A message of the queue is among the group's dead letters."""
        queue = self._queues.get(key)
        if queue is not None:
            before = self._size(key)
            queue.on_ended(offset)
            self.entries += self._size(key) - before

    def on_moved(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """An operator moved the group in a queue: nothing of it is leased any more, and it goes on there."""
        key = (group, topic, queue_id)
        before = self._queues.get(key)
        if before is not None:
            self.entries -= self._size(key)
            queue = self._queues[key] = PopQueue(offset)
            queue.last_pop_ms = before.last_pop_ms  # no name is given twice

    def on_topic_deleted(self, topic: str) -> None:
        """Forgets a topic's queues."""
        self._forget([key for key in self._queues if key[1] == topic])

    def on_group_deleted(self, group: str) -> None:
        """Forgets a group's queues."""
        self._forget([key for key in self._queues if key[0] == group])

    def _forget(self, keys: list[QueueKey]) -> None:
        for key in keys:
            self.entries -= self._size(key)
            del self._queues[key]

    # ---- questions

    def queue(self, key: QueueKey) -> PopQueue | None:
        """None where nothing was ever popped from it."""
        return self._queues.get(key)

    def queues_of(self, group: str) -> Iterator[tuple[QueueKey, PopQueue]]:
        """Of one group."""
        return ((key, queue) for key, queue in self._queues.items() if key[0] == group)

    def all_queues(self) -> Iterator[tuple[QueueKey, PopQueue]]:
        """Of all groups."""
        return iter(self._queues.items())

    def acked_bits(self, key: QueueKey, name: Name) -> int:
        """What of a check point is acknowledged, as far as that is remembered."""
        return self._acked.get((key, name), 0)

    def take_due(self, monotonic_ms: int, *, renew_ahead_ms: int, count_max: int) -> list[Due]:
        """Leases whose time has come, and `renew_ahead_ms` before that (at most a third of their time) those that have an
        owner. The caller stages what follows, or gives them back (`put_back`)."""
        taken: list[Due] = []
        while self._due and len(taken) < count_max:
            at_ms, _, key, name = self._due[0]
            if at_ms > monotonic_ms + renew_ahead_ms:
                break
            queue = self._queues.get(key)
            checkpoint = None if queue is None else queue.checkpoints.get(name)
            if checkpoint is None or checkpoint.due_ms != at_ms:
                heappop(self._due)
                continue
            ahead_ms = min(renew_ahead_ms, checkpoint.invisible_ms // 3) if checkpoint.owner else 0
            if at_ms > monotonic_ms + ahead_ms:
                break
            heappop(self._due)
            taken.append(Due(key, checkpoint))
        return taken

    def put_back(self, due: Due) -> None:
        """It is due again at its time."""
        self._schedule(due.queue, due.checkpoint)

    # ---- the snapshot

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content; `begin` follows. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name not in _HELD}
        try:
            self.key = bytes.fromhex(document.get("key") or "")
            for group, topic, queue_id, content in document.get("pops") or ():
                queue = PopQueue.load(content, due_of=lambda _, invisible_ms: int(invisible_ms))
                self._queues[str(group), str(topic), int(queue_id)] = queue
            for group, topic, queue_id, begin, pop_ms, bits in document.get("acked") or ():
                self._remember((str(group), str(topic), int(queue_id)), (int(begin), int(pop_ms)), int(bits))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError(FILE_NAME, f"pops: {error!r}") from error

    def begin(self, *, now_ms: int, monotonic_ms: int) -> None:
        """Sets the ends of loaded leases."""
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        for key, queue in self._queues.items():
            self.entries += self._size(key)
            for checkpoint in queue.checkpoints.values():
                checkpoint.due_ms = self._due_of(checkpoint.pop_ms, checkpoint.invisible_ms)
                self._schedule(key, checkpoint)

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        rows = [[*key, queue.document()] for key, queue in self._queues.copy().items()]
        acked = [[*key, *name, bits] for (key, name), bits in self._acked.copy().items()]
        return {**self._rest, "key": self.key.hex(), "acked": acked, "pops": rows}
