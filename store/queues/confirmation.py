"""How far a replicated store may be read: below the confirm offset, up to which every counted replica has the log.

The queues hold more than readers may see. Until the first `confirm` nothing is hidden: such a store has no replicas.

    written    |----- run A -----|-- run B --|-- run C --|
    confirm                             ^                  A is visible; B and C wait, each as a whole

For a reader, `next_offset` is the queue's end. Waiting runs are kept in log order and released when the confirm offset
passes them. There are no runs for what was in the log at the first `confirm`: until all of that is confirmed, the ends are
looked up in the queues themselves. The loop thread changes it; any thread may ask. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable

from ...model.queue import PhysicalOffset
from .queue_places import QueuePlaces

QueueKey = tuple[str, int]


class Confirmation:
    """`offset`: everything below may be read; None without replication. It only grows.

    `remembered`: the confirm offset in the last checkpoint of an earlier process. It stays in the checkpoint until it has
    been reported (`forget_remembered`): a log that ends below it has lost confirmed bytes.
    """

    __slots__ = ("_arrivals", "_hidden", "_inherited_end", "_pending", "_waiting", "offset", "remembered")

    def __init__(self, remembered: int = 0) -> None:
        self.offset: int | None = None
        self.remembered = remembered
        self._inherited_end = 0
        self._pending: deque[tuple[int, QueueKey, int]] = (
            deque()
        )  # (end of the run, queue, queue offset behind the run)
        self._hidden: dict[QueueKey, int] = {}  # {queue with waiting runs: queue offset at which readers stop}
        self._waiting: dict[QueueKey, int] = {}  # {the same queue: number of its waiting runs}
        self._arrivals: dict[QueueKey, None] = {}

    def to_remember(self) -> int:
        """The confirm offset for the checkpoint. Any thread."""
        return max(self.offset or 0, self.remembered)

    def end(self, written: PhysicalOffset) -> PhysicalOffset:
        """The physical offset at which readers of the log stop."""
        return written if self.offset is None else PhysicalOffset(min(self.offset, written))

    def next_offset(self, queue: QueuePlaces) -> int:
        """The queue offset behind the last readable message. Any thread."""
        offset = self.offset
        if offset is None:
            return queue.next_offset
        if offset < self._inherited_end:
            units = range(queue.first_offset, queue.next_offset)
            return units.start + bisect_left(units, x=True, key=lambda n: queue.end_of(n) > offset)
        return min(self._hidden.get(queue.key, queue.next_offset), queue.next_offset)

    def on_run(self, key: QueueKey, queue_offset: int, count: int, end: int) -> None:
        """Messages [queue_offset, queue_offset + count) of a queue are in the log, below `end`. `offset` must not be None."""
        assert self.offset is not None
        if end <= self.offset and key not in self._hidden:
            self._arrivals[key] = None
            return
        self._hidden.setdefault(key, queue_offset)
        self._waiting[key] = self._waiting.get(key, 0) + 1
        self._pending.append((end, key, queue_offset + count))

    def confirm(self, offset: int, *, written: int, queues: Callable[[], Iterable[QueueKey]]) -> None:
        """Everything below `offset` may be read; a lower offset than before is ignored. `queues` lists all queues."""
        if self.offset is None:
            self._inherited_end = written
        elif offset <= self.offset:
            return
        if (self.offset or 0) < self._inherited_end:
            self._arrivals.update(dict.fromkeys(queues()))
        self.offset = offset
        pending = self._pending
        while pending and pending[0][0] <= offset:
            _, key, behind = pending.popleft()
            self._arrivals[key] = None
            self._hidden[key] = behind
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._hidden[key], self._waiting[key]

    def forget(self, topic: str) -> None:
        """The queues of a topic were deleted."""
        self._pending = deque(entry for entry in self._pending if entry[1][0] != topic)
        for key in [key for key in self._hidden if key[0] == topic]:
            del self._hidden[key], self._waiting[key]

    def forget_queue(self, key: QueueKey) -> None:
        """One queue was emptied."""
        if self._hidden.pop(key, None) is not None:
            del self._waiting[key]
            self._pending = deque(entry for entry in self._pending if entry[1] != key)

    def take_arrivals(self) -> list[QueueKey]:
        """The queues that have more readable messages than at the last call."""
        arrivals = list(self._arrivals)
        self._arrivals.clear()
        return arrivals
