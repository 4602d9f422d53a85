"""What is popped: the queues of all pop groups, and the key that their receipt handles are signed with. Pure; loop thread.

Changed only from the log, like the topic table (see there). Leases end by the monotonic clock of this process: a wall clock
that jumps hands out nothing early. A broker that follows the log counts from when it applied the pop; one that starts has only
the wall clock to go by, and holds a lease for its whole invisible time at most; one that its owner renews it holds for that
time, since the owner needs a moment to be heard.

What was acknowledged a moment ago is remembered: to acknowledge it once more succeeds.

A lite topic's queue is the light queue of its name. The events name it by the parent and the lite topic, so one event is of
many lite topics of a parent, as it is of many queues of another topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...model.errors import StoreFormatError
from ...model.plain_dataclass import dataclass
from ...model.topics.light_queues import LIGHT_PREFIX, lite_prefix, lite_queue, lite_topic_of
from .lease_times import LeaseTimes
from .packed_rows import pack_rows, unpack_rows
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
RENEW_AHEAD_MS: Final = 5000
"""So long before its end a lease that its owner renews is looked at, or a third of its time before."""

QueueKey = tuple[str, str, int]
"""(group, topic, queue id)."""
Place = int | str
"""Where in a topic: the id of a queue, or a lite topic."""
Bits = tuple[Place, int, int, int]
"""(place, first offset, time of the pop, bits): some messages of a check point."""

_HELD: Final = ("pops", "acked", "key")
_ACKED_WIDTH: Final = 3
_UNCOUNTED_WIDTH: Final = 7  # of a changed row that says whether it counts
_RENEWED_WIDTH: Final = 8  # and whether its owner goes on renewing it
_PAIRS_MAX: Final = 4096
_NO_COUNTS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Popped:
    """One check point to be. `passed`: (offset, key hash) of messages that an ordered pop passed over; `next_offset`: the
    first one of the queue that nobody looked at."""

    place: Place
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
    """A lease that is over at `due_ms` (monotonic), or may be renewed before."""

    checkpoint: PopCheckpoint
    due_ms: int


class PopTable:
    """`entries`: check points, and messages to be handed out again, of all queues together. `key`: b"" until the log has
    one. `on_freed(key)`: told of each lite topic's queue of which nothing is leased any more."""

    def __init__(self) -> None:
        self.on_freed: Callable[[QueueKey], None] = _tell_nobody
        self.key = b""
        self.entries = 0
        self._queues: dict[QueueKey, PopQueue] = {}
        self._lite_counts: dict[str, dict[str, int]] = {}  # parent -> {group: how many of its lite topics it has}
        self._looks = LeaseTimes()  # leases with an owner, before their end
        self._ends = LeaseTimes()
        self._acked: dict[tuple[QueueKey, Name], int] = {}  # bits that were acknowledged, the latest last
        self._rest: Document = {}
        self._now_ms = self._monotonic_ms = 0
        self._pairs: dict[tuple[int, str], tuple[int, str]] = {}  # what many leases have in common
        self._pair = (0, "")

    # ---- events

    @staticmethod
    def event_popped(group: str, topic: str, pops: Sequence[Popped]) -> Document:
        """These go out."""
        rows = [
            *(
                [
                    *(one.place, encode_offsets(one.offsets), one.pop_ms, one.invisible_ms, one.next_offset),
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
        group: str,
        topic: str,
        place: Place,
        name: Name,
        changes: Sequence[tuple[int, int, int]],
        *,
        counts: bool = True,
        renews: bool = True,
    ) -> Document:
        """Some of a check point are leased from now on for another time. `changes`: (index, time of the change, invisible
        time) of each, ms; `counts`: that it was handed out is an attempt; `renews`: whoever renewed it goes on."""
        rows = [[place, *name, *change, int(counts), int(renews)] for change in changes]
        return {"event": CHANGED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_renewed(group: str, topic: str, rows: Sequence[tuple[Place, int, int]]) -> Document:
        """These begin anew. `rows`: (place, first offset, time of the pop)."""
        return {"event": RENEWED, "group": group, "topic": topic, "rows": rows}

    @staticmethod
    def event_ended(group: str, topic: str, rows: Sequence[tuple[Place, int]]) -> Document:
        """These messages cannot be handed out any more: they expired, or are lost. `rows`: (place, offset)."""
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
                key = key_of(group, topic, row[0] if type(row[0]) is str else int(row[0]))
                queue = self._queues.get(key)
                before = 0 if queue is None else queue.entries
                self._apply(kind, key, row, event)
                queue = self._queues.get(key)
                self.entries += (0 if queue is None else queue.entries) - before
                if type(row[0]) is str and queue is not None and not queue.is_leased:
                    self.on_freed(key)
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError("pop events", f"{str(event)[:200]}: {error!r}") from error

    def _apply(self, kind: str, key: QueueKey, row: Sequence[Any], event: Mapping[str, Any]) -> None:
        if kind == POPPED:
            self._on_popped(key, row)
            return
        queue = self._queues.get(key)
        if queue is None:
            return  # the queue was deleted meanwhile
        if kind == ENDED:
            self._settle(queue, queue.on_ended(int(row[1])))
            return
        name = int(row[1]), int(row[2])
        checkpoint = queue.checkpoint(name)
        if checkpoint is None:
            return  # its leases are over
        if kind == RENEWED:
            if checkpoint.renewed_ms < 0:
                checkpoint.renewed_ms = self._monotonic_ms
            self._schedule(checkpoint, renewed=True)
        elif kind == ACKED:
            self._remember(key, name, int(row[3]))
            queue.on_acked(checkpoint, int(row[3]))
        elif kind == RETURNED:
            queue.on_returned(checkpoint, int(row[3]), counts=bool(event["counts"]))
        else:
            counts = len(row) < _UNCOUNTED_WIDTH or bool(row[6])
            renews = len(row) < _RENEWED_WIDTH or bool(row[7])
            one = queue.on_changed(checkpoint, int(row[3]), int(row[4]), int(row[5]), counts=counts, renews=renews)
            if one is not None:
                self._schedule(one)
        self._settle(queue, checkpoint)

    def _on_popped(self, key: QueueKey, row: Sequence[Any]) -> None:
        _, encoded, pop_ms, invisible_ms, next_offset, owner, attempts, keys, passed = row
        offsets = decode_offsets(encoded)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PopQueue(key, offsets[0])
            self._count_lite(key, 1)
        shared_ms, shared_owner = self._same(int(invisible_ms), str(owner))
        checkpoint = PopCheckpoint(
            queue,
            offsets,
            int(pop_ms),
            shared_ms,
            owner=shared_owner,
            attempts=tuple(map(int, attempts)),
            keys=tuple(map(int, keys)),
        )
        pairs = [(int(offset), int(hash_)) for offset, hash_ in passed]
        if queue.on_popped(checkpoint, next_offset=int(next_offset), passed=pairs):
            self._schedule(checkpoint)

    def _same(self, invisible_ms: int, owner: str) -> tuple[int, str]:
        """One pair of objects for leases that have them in common."""
        if self._pair != (invisible_ms, owner):
            if len(self._pairs) >= _PAIRS_MAX:
                self._pairs.clear()
            pair = invisible_ms, owner
            self._pair = self._pairs.setdefault(pair, pair)
        return self._pair

    def _schedule(self, checkpoint: PopCheckpoint, *, renewed: bool = False) -> None:
        """It begins now; one that was popped before this broker started, then, as far as the wall clock can be trusted."""
        invisible_ms = checkpoint.invisible_ms
        is_whole = renewed or checkpoint.owner or not self._now_ms
        passed_ms = 0 if is_whole else min(max(0, self._now_ms - checkpoint.pop_ms), invisible_ms)
        due_ms = self._monotonic_ms + invisible_ms - passed_ms
        self._unschedule(checkpoint)
        if checkpoint.owner:
            self._looks.add(checkpoint, due_ms - _ahead_ms(checkpoint))
        else:
            self._ends.add(checkpoint, due_ms)

    def _unschedule(self, checkpoint: PopCheckpoint) -> None:
        slot, checkpoint.slot = checkpoint.slot, None
        if slot is not None:
            (self._looks if self._looks.has(slot) else self._ends).remove(slot)

    def _settle(self, queue: PopQueue, checkpoint: PopCheckpoint | None) -> None:
        """Some of it may be handled; nobody looks at it any more if all is."""
        if checkpoint is not None and queue.checkpoint(checkpoint.name) is not checkpoint:
            self._unschedule(checkpoint)

    def _count_lite(self, key: QueueKey, change: int) -> None:
        lite = lite_topic_of(key[1]) if key[1].startswith(LIGHT_PREFIX) else None
        if lite is not None:
            counts = self._lite_counts.setdefault(lite[0], {})
            counts[key[0]] = counts.get(key[0], 0) + change
            if not counts[key[0]]:
                del counts[key[0]]

    def _remember(self, key: QueueKey, name: Name, bits: int) -> None:
        self._acked[key, name] = self._acked.pop((key, name), 0) | bits
        if len(self._acked) > ACKED_MAX:
            del self._acked[next(iter(self._acked))]

    def on_buried(self, key: QueueKey, offset: int, name: Name | None) -> None:
        """A message of the queue is among the group's dead letters. `name`: of its check point, if it was leased."""
        queue = self._queues.get(key)
        if queue is not None:
            before = queue.entries
            self._settle(queue, queue.on_ended(offset, name))
            self.entries += queue.entries - before
            if key[1].startswith(LIGHT_PREFIX) and not queue.is_leased:
                self.on_freed(key)

    def on_taken_back(self, key: QueueKey, offsets: Iterable[int], *, next_offset: int) -> None:
        """Another broker had the store, and these were leased there: they are available, after one attempt. `next_offset`:
        where a queue of which nothing was ever popped goes on."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PopQueue(key, next_offset)
            self._count_lite(key, 1)
        before = queue.entries
        for offset in offsets:
            queue.take_back(offset)
        self.entries += queue.entries - before

    def on_moved(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """An operator moved the group in a queue: nothing of it is leased any more, and it goes on there."""
        key = (group, topic, queue_id)
        before = self._queues.get(key)
        if before is not None:
            queue = PopQueue(key, offset)
            queue.last_pop_ms, queue.promised_ms = before.last_pop_ms, before.promised_ms  # no name is given twice
            self._queues[key] = queue
            self._end_all(before)

    def on_topic_deleted(self, topic: str) -> None:
        """Forgets a topic's queues, and those of its lite topics."""
        begin = lite_prefix(topic)
        self._forget([key for key in self._queues if key[1] == topic or key[1].startswith(begin)])

    def on_group_deleted(self, group: str) -> None:
        """Forgets a group's queues."""
        self._forget([key for key in self._queues if key[0] == group])

    def on_lite_collected(self, parent: str, lite_topics: Iterable[str]) -> None:
        """Forgets the queues of these lite topics, in all groups."""
        groups = list(self._lite_counts.get(parent, ()))
        keys = [key_of(group, parent, lite_topic) for lite_topic in lite_topics for group in groups]
        self._forget([key for key in keys if key in self._queues])

    def _forget(self, keys: list[QueueKey]) -> None:
        for key in keys:
            self._end_all(self._queues.pop(key))
            self._count_lite(key, -1)

    def _end_all(self, queue: PopQueue) -> None:
        self.entries -= queue.entries
        for checkpoint in queue.all_checkpoints():
            self._unschedule(checkpoint)

    # ---- questions

    def queue(self, key: QueueKey) -> PopQueue | None:
        """None where nothing was ever popped from it."""
        return self._queues.get(key)

    def queues_of(self, group: str) -> Iterator[tuple[QueueKey, PopQueue]]:
        """Of one group."""
        return ((key, queue) for key, queue in self._queues.items() if key[0] == group)

    def has_left(self, key: QueueKey, begin: int, end: int) -> bool:
        """Whether a group has something to receive or to acknowledge of a queue that has [begin, end) now. What
        retention took is not left, whoever had it."""
        queue = self._queues.get(key)
        if queue is None or begin >= end:
            return begin < end
        return not queue.is_idle or max(begin, queue.next) < end

    def light_queues(self) -> list[str]:
        """Those of which something was popped; some several times."""
        return [key[1] for key in self._queues.copy() if key[1].startswith(LIGHT_PREFIX)]

    def light_queues_of(self, group: str) -> list[str]:
        """Those from which a group popped."""
        return [key[1] for key in self._queues if key[0] == group and key[1].startswith(LIGHT_PREFIX)]

    def lite_counts(self, parent: str) -> Mapping[str, int]:
        """{group: how many of the parent's lite topics it has received from}."""
        return self._lite_counts.get(parent, _NO_COUNTS)

    def all_queues(self) -> Iterator[tuple[QueueKey, PopQueue]]:
        """Of all groups."""
        return iter(self._queues.items())

    def acked_bits(self, key: QueueKey, name: Name) -> int:
        """What of a check point is acknowledged, as far as that is remembered."""
        return self._acked.get((key, name), 0)

    def take_due(self, monotonic_ms: int, *, count_max: int) -> list[Due]:
        """Leases that are over, and those with an owner that are soon. The caller stages what follows, or gives them back
        (`put_back`)."""
        over = [Due(one, at_ms) for one, at_ms in self._ends.take(monotonic_ms, count_max)]
        soon = self._looks.take(monotonic_ms, count_max - len(over))
        return over + [Due(one, at_ms + _ahead_ms(one)) for one, at_ms in soon]

    def put_back(self, due: Due) -> None:
        """It is due again at its time, unless it has ended meanwhile."""
        checkpoint = due.checkpoint
        if checkpoint.slot is None and checkpoint.queue.checkpoint(checkpoint.name) is checkpoint:
            self._ends.add(checkpoint, due.due_ms)

    # ---- the snapshot

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content; `begin` follows. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name not in _HELD}
        try:
            self.key = bytes.fromhex(document.get("key") or "")
            for group, topic, queue_id, content in document.get("pops") or ():
                key = (str(group), str(topic), int(queue_id))
                self._queues[key] = PopQueue.load(key, content)
                self._count_lite(key, 1)
            for group, topic, queue_id, texts in document.get("acked") or ():
                key = (str(group), str(topic), int(queue_id))
                for begin, pop_ms, bits in unpack_rows(texts, _ACKED_WIDTH):
                    self._remember(key, (begin, pop_ms), bits)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError(FILE_NAME, f"pops: {error!r}") from error

    def begin(self, *, now_ms: int, monotonic_ms: int) -> None:
        """Sets the ends of loaded leases."""
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        for queue in self._queues.values():
            self.entries += queue.entries
            for checkpoint in queue.all_checkpoints():
                self._schedule(checkpoint)

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        rows = [[*key, queue.document()] for key, queue in self._queues.copy().items()]
        acked: dict[QueueKey, list[tuple[int, int, int]]] = {}
        for (key, name), bits in self._acked.copy().items():
            acked.setdefault(key, []).append((*name, bits))
        packed = [[*key, pack_rows(of_queue)] for key, of_queue in acked.items()]
        return {**self._rest, "key": self.key.hex(), "acked": packed, "pops": rows}


def key_of(group: str, topic: str, place: Place) -> QueueKey:
    """The queue at a place in a topic."""
    if isinstance(place, int):
        return group, topic, place
    return group, lite_queue(topic, place), 0


def place_of(key: QueueKey) -> tuple[str, Place]:
    """(topic, place) of a queue: the reverse of `key_of`."""
    lite = lite_topic_of(key[1]) if key[1].startswith(LIGHT_PREFIX) else None
    return (key[1], key[2]) if lite is None else lite


def _tell_nobody(key: QueueKey) -> None:
    """Until the handlers are wired."""


def _ahead_ms(checkpoint: PopCheckpoint) -> int:
    return min(RENEW_AHEAD_MS, checkpoint.invisible_ms // 3)
