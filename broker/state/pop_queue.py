"""One queue as a pop group has it: what is leased, what is to be handed out again, and from where on nobody looked. Pure.

    offset   ... done | leased | done | available | leased | leased | not looked at yet ...
                  first_open --^                                     ^-- next

A *check point* is what went out of one queue in one reply: some offsets, leased until the same time. It is named by its first
offset and the time of the pop, which is later for each pop of the queue, whatever the clock does. What is not acknowledged in
time is available again, in its place, with one attempt more. In an ordered group a message whose sharding key is busy is
passed over: it is available from then on, with no attempt.

Each change is one event of the log, named by absolute values: an event that is applied once more changes nothing that a
later one does not set right, so a replay may begin before the snapshot's end. The snapshot is copied while the loop applies
events: first what is handled, then the check points, then what is available. So a message that an event moves on is in at
least one of the copies, and the replay of the event sets right what is in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from .packed_rows import pack_rows, unpack_rows

if TYPE_CHECKING:
    from .lease_times import Slot

Name = tuple[int, int]
"""(first offset, time of the pop) of a check point."""
OFFSETS_MAX: Final = 32
"""Messages of one check point."""

_PLAIN_WIDTH: Final = 4
_AVAILABLE_WIDTH: Final = 2
_NAMED_WIDTH: Final = 3
_ORDER_SPARE: Final = 1024


class PopCheckpoint:
    """`begin`: its first offset; `attempts`: how often each was handed out before, () = never; `keys`: hashes of their sharding
    keys, () where the group is not ordered; `owner`: the client whose heartbeats renew it, "". `slot`: when it is looked
    at. `renewed_ms`: when it was first renewed in this broker's life, monotonic; -1 = not yet. There may be a million: what two
    of them have in common is one object.
    """

    __slots__ = (
        "_others",
        "attempts",
        "begin",
        "invisible_ms",
        "keys",
        "owner",
        "pop_ms",
        "queue",
        "renewed_ms",
        "slot",
    )

    def __init__(
        self,
        queue: PopQueue,
        offsets: Sequence[int],
        pop_ms: int,
        invisible_ms: int,
        *,
        owner: str = "",
        attempts: tuple[int, ...] = (),
        keys: tuple[int, ...] = (),
    ) -> None:
        self.queue = queue
        self.begin = offsets[0]
        self._others: int | tuple[int, ...] = len(offsets) if isinstance(offsets, range) else tuple(offsets)
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.owner = owner
        self.attempts = attempts
        self.keys = keys
        self.slot: Slot | None = None
        self.renewed_ms = -1

    @property
    def name(self) -> Name:
        """What events call it."""
        return self.begin, self.pop_ms

    @property
    def offsets(self) -> Sequence[int]:
        """Of its messages, ascending."""
        others = self._others
        return range(self.begin, self.begin + others) if isinstance(others, int) else others

    @property
    def count(self) -> int:
        """How many messages it has, handled or not."""
        return self._others if isinstance(self._others, int) else len(self._others)

    @property
    def is_plain(self) -> bool:
        """Its messages follow each other, were never handed out before, and nobody renews it."""
        return isinstance(self._others, int) and not (self.owner or self.attempts or self.keys)

    def attempts_of(self, index: int) -> int:
        """How often the `index`-th was handed out before."""
        return self.attempts[index] if self.attempts else 0


class PopQueue:
    """`checkpoints`: by their first offset; `twins`: those whose first offset another one had already; `handled`: of
    which messages are handled, or otherwise ended, where that is not all: bit n for the n-th. `leased`: how many messages
    are. `available`: {offset: attempts before}; `keys`: {offset: hash of the sharding key} of these, in an ordered
    group."""

    __slots__ = (
        "_order",
        "available",
        "busy",
        "checkpoints",
        "handled",
        "is_ordered",
        "key",
        "keys",
        "last_pop_ms",
        "leased",
        "loaded_ms",
        "next",
        "promised_ms",
        "twins",
    )

    def __init__(self, key: tuple[str, str, int], next_offset: int) -> None:
        self.key = key
        self.next = next_offset
        self.available: dict[int, int] = {}
        self.checkpoints: dict[int, PopCheckpoint] = {}
        self.twins: dict[Name, PopCheckpoint] = {}
        self.handled: dict[Name, int] = {}
        self.is_ordered = False
        self.keys: dict[int, int] = {}
        self.busy: dict[int, int] = {}  # hash of a sharding key: how many messages of it are leased
        self.last_pop_ms = 0
        self.loaded_ms = 0  # the snapshot that was loaded knows what became of check points up to this time
        self.promised_ms = 0  # the last time that was given to a check point, in the log or not yet
        self.leased = 0
        self._order: list[int] = []  # a heap of what is available; what is not any more stays until it comes first

    # ---- what the log says

    def on_popped(self, checkpoint: PopCheckpoint, *, next_offset: int, passed: Iterable[tuple[int, int]] = ()) -> bool:
        """These are leased; `passed`: (offset, key hash) of those that were passed over since their key was busy. False if
        it was known."""
        self.next = max(self.next, next_offset)
        known = self.checkpoint(checkpoint.name)
        if known is None and checkpoint.pop_ms <= self.loaded_ms:
            return False  # it was over when the snapshot was taken
        if known is None:
            for offset, key in passed:
                self.keys[offset] = key
                if offset not in self.available:
                    self._add(offset, 0)
            self._put(checkpoint)
        self.last_pop_ms = max(self.last_pop_ms, checkpoint.pop_ms)  # now: a snapshot that has it has the check point
        if self.available:
            offsets = checkpoint.offsets
            for index in indices(self.open_bits(known or checkpoint)):  # what was given back since may be available
                self.available.pop(offsets[index], None)
                self.keys.pop(offsets[index], None)
        self.is_ordered = bool(checkpoint.keys)
        return known is None

    def on_acked(self, checkpoint: PopCheckpoint, bits: int) -> None:
        """The n-th of a check point is handled, for each bit."""
        self._end(checkpoint, bits & self.open_bits(checkpoint))

    def on_returned(self, checkpoint: PopCheckpoint, bits: int, *, counts: bool) -> None:
        """The n-th of a check point is available again, for each bit of `bits` that is not handled; `counts`: as one
        attempt."""
        ended = bits & self.open_bits(checkpoint)
        offsets = checkpoint.offsets
        for index in indices(ended):
            if checkpoint.keys:
                self.keys[offsets[index]] = checkpoint.keys[index]
            self._add(offsets[index], checkpoint.attempts_of(index) + counts)
        self._end(checkpoint, ended)

    def on_changed(
        self,
        checkpoint: PopCheckpoint,
        index: int,
        pop_ms: int,
        invisible_ms: int,
        *,
        counts: bool = True,
        renews: bool = True,
    ) -> PopCheckpoint | None:
        """The lease of one message goes on as a check point of its own; None where it was not leased. Without `counts` its
        end is no attempt, without `renews` it ends when its time is over, whoever renewed it."""
        if not self.open_bits(checkpoint) >> index & 1:
            return None
        offset, attempts = checkpoint.offsets[index], checkpoint.attempts_of(index) - (not counts)
        one = PopCheckpoint(
            self,
            range(offset, offset + 1),
            pop_ms,
            invisible_ms,
            owner=checkpoint.owner if renews else "",
            attempts=(attempts,) if attempts else (),
            keys=checkpoint.keys[index : index + 1],
        )
        is_new = self.on_popped(one, next_offset=self.next)
        self._end(checkpoint, 1 << index)
        return one if is_new else None

    def on_ended(self, offset: int, name: Name | None = None) -> PopCheckpoint | None:
        """A message that was available, or leased, is no longer the group's to handle. `name`: of its check point, where it
        was leased; None = look for it. Returns the check point it was in."""
        self.keys.pop(offset, None)
        if self.available.pop(offset, None) is not None:
            return None
        named = None if name is None else self.checkpoint(name)
        for checkpoint in self.all_checkpoints() if named is None else (named,):
            offsets = checkpoint.offsets
            if offset in offsets:
                bit = 1 << offsets.index(offset)
                if self.open_bits(checkpoint) & bit:
                    self._end(checkpoint, bit)
                    return checkpoint
        return None

    def take_back(self, offset: int) -> None:
        """Another broker had leased it: it is available, after one attempt."""
        if offset not in self.available:
            self._add(offset, 1)

    def _add(self, offset: int, attempts: int) -> None:
        if offset not in self.available:
            heappush(self._order, offset)
        self.available[offset] = attempts
        if len(self._order) > 2 * len(self.available) + _ORDER_SPARE:
            self._order = list(self.available)
            heapify(self._order)

    def _put(self, checkpoint: PopCheckpoint) -> None:
        if checkpoint.begin in self.checkpoints:
            self.twins[checkpoint.name] = checkpoint
        else:
            self.checkpoints[checkpoint.begin] = checkpoint
        self.leased += checkpoint.count
        for key in checkpoint.keys:
            self.busy[key] = self.busy.get(key, 0) + 1

    def _end(self, checkpoint: PopCheckpoint, bits: int) -> None:
        """`bits`: of open ones."""
        if not bits:
            return
        if checkpoint.keys:
            for index in indices(bits):
                key = checkpoint.keys[index]
                self.busy[key] -= 1
                if not self.busy[key]:
                    del self.busy[key]
        self.leased -= bits.bit_count()
        handled = self.handled.get(checkpoint.name, 0) | bits if self.handled else bits
        if handled != (1 << checkpoint.count) - 1:
            self.handled[checkpoint.name] = handled
            return
        if self.checkpoints.get(checkpoint.begin) is checkpoint:
            del self.checkpoints[checkpoint.begin]
        else:
            del self.twins[checkpoint.name]
        if self.handled:
            self.handled.pop(checkpoint.name, None)

    # ---- questions

    def next_pop_ms(self, now_ms: int) -> int:
        """The time by which the next check point of the queue is named: later than all before, staged ones among them."""
        self.promised_ms = max(now_ms, self.last_pop_ms + 1, self.promised_ms + 1)
        return self.promised_ms

    def checkpoint(self, name: Name) -> PopCheckpoint | None:
        """None where nothing of it is leased."""
        found = self.checkpoints.get(name[0])
        if found is not None and found.pop_ms == name[1]:
            return found
        return self.twins.get(name) if self.twins else None

    def all_checkpoints(self) -> Iterator[PopCheckpoint]:
        """Of which something is leased."""
        return chain(self.checkpoints.values(), self.twins.values())

    def open_bits(self, checkpoint: PopCheckpoint) -> int:
        """Which of its messages are leased still. It must be in the queue."""
        whole = (1 << checkpoint.count) - 1
        return whole & ~self.handled.get(checkpoint.name, 0) if self.handled else whole

    @property
    def is_idle(self) -> bool:
        """Nothing is leased, and nothing is to be handed out again."""
        return not (self.checkpoints or self.twins or self.available)

    @property
    def is_leased(self) -> bool:
        """Somebody has some of its messages."""
        return bool(self.checkpoints or self.twins)

    @property
    def entries(self) -> int:
        """Check points, and messages to be handed out again."""
        return len(self.checkpoints) + len(self.twins) + len(self.available)

    def first_available(self, count_max: int) -> list[tuple[int, int]]:
        """(offset, attempts before) of the first ones that are available, in the order of the queue."""
        order = self._order
        found: list[tuple[int, int]] = []
        while order and len(found) < count_max:
            offset = heappop(order)
            if offset in self.available and (not found or offset != found[-1][0]):
                found.append((offset, self.available[offset]))
        for offset, _ in found:
            heappush(order, offset)
        return found

    def first_open(self) -> int:
        """The first offset that is not handled: all below is done."""
        first = min(self.next, min(self.available, default=self.next))
        if not self.handled:
            return min(
                first, min(self.checkpoints, default=first), min((begin for begin, _ in self.twins), default=first)
            )
        for checkpoint in self.all_checkpoints():
            if checkpoint.begin < first:
                bits = self.open_bits(checkpoint)
                first = min(first, checkpoint.offsets[(bits & -bits).bit_length() - 1])
        return first

    # ---- the snapshot

    def document(self) -> dict[str, Any]:
        """Any thread; the order matters (see above)."""
        known_ms = self.last_pop_ms
        handled = list(self.handled.copy().items())
        checkpoints = [*self.twins.copy().values(), *self.checkpoints.copy().values()]
        keys = self.keys.copy()
        available = self.available.copy()
        return {
            "next": self.next,
            "lastPopMs": self.last_pop_ms,
            "knownMs": known_ms,
            "ordered": self.is_ordered,
            "available": pack_rows(available.items()),
            "keys": pack_rows(keys.items()),
            "handled": pack_rows((*name, bits) for name, bits in handled),
            "plain": pack_rows(
                (one.begin, one.count, one.pop_ms, one.invisible_ms) for one in checkpoints if one.is_plain
            ),
            "checkpoints": [
                [encode_offsets(one.offsets), one.pop_ms, one.invisible_ms, one.owner, one.attempts, one.keys]
                for one in checkpoints
                if not one.is_plain
            ],
        }

    @staticmethod
    def load(key: tuple[str, str, int], document: Mapping[str, Any]) -> PopQueue:
        """The reverse. Raises TypeError, ValueError, KeyError."""
        queue = PopQueue(key, int(document["next"]))
        queue.last_pop_ms, queue.loaded_ms = int(document["lastPopMs"]), int(document["knownMs"])
        queue.available = {row[0]: row[1] for row in unpack_rows(document["available"], _AVAILABLE_WIDTH)}
        queue._order = sorted(queue.available)
        queue.keys = {row[0]: row[1] for row in unpack_rows(document["keys"], _AVAILABLE_WIDTH)}
        last_ms = 0
        for begin, count, pop_ms, invisible_ms in unpack_rows(document["plain"], _PLAIN_WIDTH):
            last_ms = last_ms if invisible_ms == last_ms else invisible_ms  # one object, not a million
            queue._put(PopCheckpoint(queue, decode_offsets([begin, count]), pop_ms, last_ms))
        for encoded, pop_ms, invisible_ms, owner, attempts, keys in document["checkpoints"]:
            checkpoint = PopCheckpoint(
                queue,
                decode_offsets(encoded),
                int(pop_ms),
                int(invisible_ms),
                owner=str(owner),
                attempts=tuple(map(int, attempts)),
                keys=tuple(map(int, keys)),
            )
            queue._put(checkpoint)
        for begin, pop_ms, bits in unpack_rows(document["handled"], _NAMED_WIDTH):
            found = queue.checkpoint((begin, pop_ms))
            if found is not None:
                queue._end(found, bits & queue.open_bits(found))
        queue.is_ordered = bool(document["ordered"])
        return queue


def indices(bits: int) -> Iterator[int]:
    """Of the bits that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def encode_offsets(offsets: Sequence[int]) -> list[int]:
    """[first, count] where they follow each other, else [first, count, distances of the others from the first ...]."""
    first, count = offsets[0], len(offsets)
    if offsets[-1] - first == count - 1:
        return [first, count]
    return [first, count, *(offset - first for offset in offsets[1:])]


def decode_offsets(encoded: Sequence[int]) -> Sequence[int]:
    """The reverse. Raises ValueError where that is no ascending list."""
    first, count, *distances = map(int, encoded)
    if not distances:
        if first < 0 or not 1 <= count <= OFFSETS_MAX:
            raise ValueError(f"{count} offsets from {first} on")
        return range(first, first + count)
    offsets = (first, *(first + distance for distance in distances))
    if len(offsets) != count or any(a >= b for a, b in pairwise(offsets)) or first < 0:
        raise ValueError(f"no ascending list of {count} offsets")
    return offsets
