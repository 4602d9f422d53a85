"""One queue as a pop group has it: what is leased, what is to be handed out again, and from where on nobody looked. Pure.

    offset   ... done | leased | done | available | leased | leased | not looked at yet ...
                  first_open --^                                     ^-- next

A *check point* is what went out of one queue in one reply: some offsets, leased until the same time. It is named by its first
offset and the time of the pop, which is later for each pop of the queue, whatever the clock does. What is not acknowledged in
time is available again, in its place, with one attempt more. In an ordered group a message whose sharding key is busy is
passed over: it is available from then on, with no attempt.

Each change is one event of the log, named by absolute values: an event that is applied once more changes nothing that a
later one does not set right, so a replay may begin before the snapshot's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final

Name = tuple[int, int]
"""(first offset, time of the pop) of a check point.""" """Messages of one check point."""
OFFSETS_MAX: Final = 32
"""Messages of one check point."""
NO_KEYS: Final[tuple[int, ...]] = ()


class PopCheckpoint:
    """`offsets`: of its messages; `acked`: bit n for the n-th; `attempts`: how often each was handed out before, () = never;
    `keys`: hashes of their sharding keys, () where the group is not ordered; `due_ms`: monotonic, when the lease ends; `owner`:
    the client whose heartbeats renew it, ""."""

    __slots__ = ("acked", "attempts", "due_ms", "invisible_ms", "keys", "offsets", "owner", "pop_ms")

    def __init__(
        self,
        offsets: Sequence[int],
        pop_ms: int,
        invisible_ms: int,
        due_ms: int,
        *,
        owner: str = "",
        attempts: tuple[int, ...] = (),
        keys: tuple[int, ...] = NO_KEYS,
        acked: int = 0,
    ) -> None:
        self.offsets = offsets
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.due_ms = due_ms
        self.owner = owner
        self.attempts = attempts
        self.keys = keys
        self.acked = acked

    @property
    def name(self) -> Name:
        """What events call it."""
        return self.offsets[0], self.pop_ms

    @property
    def is_done(self) -> bool:
        """All are acknowledged, or otherwise ended."""
        return self.acked == (1 << len(self.offsets)) - 1

    @property
    def open_count(self) -> int:
        """How many are leased still."""
        return len(self.offsets) - self.acked.bit_count()

    def open_indices(self) -> Iterator[int]:
        """Of those that are leased still."""
        acked = self.acked
        return (index for index in range(len(self.offsets)) if not acked >> index & 1)

    def attempts_of(self, index: int) -> int:
        """How often the `index`-th was handed out before."""
        return self.attempts[index] if self.attempts else 0

    def key_of(self, index: int) -> int:
        """Hash of its sharding key; 0 where the group is not ordered."""
        return self.keys[index] if self.keys else 0


class PopQueue:
    """`available`: {offset: attempts before}; `keys`: {offset: hash of the sharding key} of these, in an ordered group."""

    __slots__ = ("_order", "available", "busy", "checkpoints", "is_ordered", "keys", "last_pop_ms", "next")

    def __init__(self, next_offset: int) -> None:
        self.next = next_offset
        self.available: dict[int, int] = {}
        self.checkpoints: dict[Name, PopCheckpoint] = {}
        self.is_ordered = False
        self.keys: dict[int, int] = {}
        self.busy: dict[int, int] = {}  # hash of a sharding key: how many messages of it are leased
        self.last_pop_ms = 0
        self._order: list[int] = []  # a heap of what is available; what is not any more stays until it comes first

    # ---- what the log says

    def on_popped(self, checkpoint: PopCheckpoint, *, next_offset: int, passed: Iterable[tuple[int, int]] = ()) -> bool:
        """These are leased; `passed`: (offset, key hash) of those that were passed over since their key was busy. False if
        it was known."""
        self.next = max(self.next, next_offset)
        self.last_pop_ms = max(self.last_pop_ms, checkpoint.pop_ms)
        for offset in checkpoint.offsets:
            self.available.pop(offset, None)
            self.keys.pop(offset, None)
        if checkpoint.name in self.checkpoints:
            return False
        for offset, key in passed:
            if offset not in self.available:
                self._add(offset, 0)
            self.keys[offset] = key
        self.checkpoints[checkpoint.name] = checkpoint
        if checkpoint.keys:
            self.is_ordered = True
            for key in checkpoint.keys:
                self.busy[key] = self.busy.get(key, 0) + 1
        return True

    def on_acked(self, name: Name, bits: int) -> int:
        """The n-th of a check point is handled, for each bit; returns how many leases that ended."""
        checkpoint = self.checkpoints.get(name)
        if checkpoint is None:
            return 0
        ended = bits & ~checkpoint.acked & ((1 << len(checkpoint.offsets)) - 1)
        self._end(checkpoint, ended)
        return ended.bit_count()

    def on_returned(self, name: Name, bits: int, *, counts: bool) -> list[tuple[int, int]]:
        """The n-th of a check point is available again, for each bit of `bits` that is not acknowledged; `counts`: as one
        attempt. Returns (offset, attempts before) of each."""
        checkpoint = self.checkpoints.get(name)
        if checkpoint is None:
            return []
        returned = []
        ended = bits & ~checkpoint.acked & ((1 << len(checkpoint.offsets)) - 1)
        for index in checkpoint.open_indices():
            if ended >> index & 1:
                offset, attempts = checkpoint.offsets[index], checkpoint.attempts_of(index) + counts
                self._add(offset, attempts)
                if checkpoint.keys:
                    self.keys[offset] = checkpoint.keys[index]
                returned.append((offset, attempts))
        self._end(checkpoint, ended)
        return returned

    def on_changed(self, name: Name, index: int, pop_ms: int, invisible_ms: int, due_ms: int) -> PopCheckpoint | None:
        """The lease of one message goes on as a check point of its own; None where it was not leased."""
        checkpoint = self.checkpoints.get(name)
        if checkpoint is None or index >= len(checkpoint.offsets) or checkpoint.acked >> index & 1:
            return None
        attempts, keys = checkpoint.attempts_of(index), checkpoint.keys[index : index + 1]
        one = PopCheckpoint(
            (checkpoint.offsets[index],),
            pop_ms,
            invisible_ms,
            due_ms,
            owner=checkpoint.owner,
            attempts=(attempts,) if attempts else (),
            keys=keys,
        )
        self._end(checkpoint, 1 << index)
        return one if self.on_popped(one, next_offset=self.next) else None

    def on_ended(self, offset: int) -> int:
        """A message that was available, or leased, is no longer the group's to handle; returns how many that were, 0 or 1."""
        self.keys.pop(offset, None)
        if self.available.pop(offset, None) is not None:
            return 1
        for checkpoint in self.checkpoints.values():
            if checkpoint.offsets[0] <= offset <= checkpoint.offsets[-1] and offset in checkpoint.offsets:
                bit = 1 << checkpoint.offsets.index(offset)
                if not checkpoint.acked & bit:
                    self._end(checkpoint, bit)
                    return 1
        return 0

    def _add(self, offset: int, attempts: int) -> None:
        if offset not in self.available:
            heappush(self._order, offset)
        self.available[offset] = attempts

    def _end(self, checkpoint: PopCheckpoint, bits: int) -> None:
        if checkpoint.keys:
            for index, key in enumerate(checkpoint.keys):
                if bits >> index & 1 and key in self.busy:
                    self.busy[key] -= 1
                    if not self.busy[key]:
                        del self.busy[key]
        checkpoint.acked |= bits
        if checkpoint.is_done:
            del self.checkpoints[checkpoint.name]

    # ---- questions

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
        leased = (checkpoint.offsets[next(checkpoint.open_indices())] for checkpoint in self.checkpoints.values())
        return min(self.next, min(leased, default=self.next), min(self.available, default=self.next))

    @property
    def leased(self) -> int:
        """How many messages are leased."""
        return sum(checkpoint.open_count for checkpoint in self.checkpoints.values())

    # ---- the snapshot

    def document(self) -> dict[str, Any]:
        """Any thread."""
        return {
            "next": self.next,
            "lastPopMs": self.last_pop_ms,
            "ordered": self.is_ordered,
            "available": sorted(self.available.copy().items()),
            "keys": sorted(self.keys.copy().items()),
            "checkpoints": [
                [
                    encode_offsets(one.offsets),
                    one.acked,
                    one.pop_ms,
                    one.invisible_ms,
                    one.owner,
                    one.attempts,
                    one.keys,
                ]
                for one in self.checkpoints.copy().values()
            ],
        }

    @staticmethod
    def load(document: Mapping[str, Any], *, due_of: Callable[[int, int], int]) -> PopQueue:
        """The reverse. `due_of(pop_ms, invisible_ms)`: monotonic. Raises TypeError, ValueError, KeyError."""
        queue = PopQueue(int(document["next"]))
        queue.last_pop_ms = int(document["lastPopMs"])
        queue.is_ordered = bool(document["ordered"])
        for offset, attempts in document["available"]:
            queue._add(int(offset), int(attempts))
        queue.keys = {int(offset): int(key) for offset, key in document["keys"]}
        for encoded, acked, pop_ms, invisible_ms, owner, attempts, keys in document["checkpoints"]:
            checkpoint = PopCheckpoint(
                decode_offsets(encoded),
                int(pop_ms),
                int(invisible_ms),
                due_of(int(pop_ms), int(invisible_ms)),
                owner=str(owner),
                attempts=tuple(map(int, attempts)),
                keys=tuple(map(int, keys)),
                acked=int(acked),
            )
            if not checkpoint.is_done:
                queue.checkpoints[checkpoint.name] = checkpoint
                for index in checkpoint.open_indices():
                    if checkpoint.keys:
                        key = checkpoint.keys[index]
                        queue.busy[key] = queue.busy.get(key, 0) + 1
        return queue


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
