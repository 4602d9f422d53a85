"""Long polling: pulls that found nothing wait here for a message, bounded in number, bytes and time.

Pure and owned by the loop thread: `park` adds a pull; `waiting_on` lists the pulls on a queue with new messages, and
`release` removes one that can be answered; `expired` removes those past their deadline. `Waiting` is what the
shell attaches to a parked pull.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from ...model.errors import BrokerBusy

Waiting = TypeVar("Waiting")

RETRY_MS: Final = 1_000
PULL_BYTES: Final = 600  # the cost of a parked pull, without its filter
_HEAP_SLACK: Final = 1_024


@dataclass(slots=True, eq=False)
class Parked(Generic[Waiting]):
    """A pull that waits at `queue_offset`; `deadline_ms` is monotonic.

    `is_woken`: more may be read in its queue, and it will be checked next. `is_scanning`: it does not wait for a message, but
    for its next turn to look for one that matches its filter; below physical offset `read_below` a worker has read for it
    what was not in memory. One that may not wait is answered after one look. `has_waited`: it reached the queue's
    end.
    """

    topic: str
    queue_id: int
    queue_offset: int
    deadline_ms: int
    size_bytes: int
    waiting: Waiting
    is_parked: bool = True
    may_wait: bool = True
    has_waited: bool = False
    is_woken: bool = False
    is_scanning: bool = False
    read_below: int = 0


class PullHold(Generic[Waiting]):
    """Parked pulls by queue, and a heap of their deadlines."""

    __slots__ = ("_bytes_max", "_count_max", "_heap", "_queues", "_sequence", "count", "size_bytes")

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._queues: dict[
            tuple[str, int], dict[Parked[Waiting], None]
        ] = {}  # released pulls stay until their time or a sweep
        self._heap: list[tuple[int, int, Parked[Waiting]]] = []  # the released stay until their time or a sweep
        self._sequence = 0
        self.count = 0
        self.size_bytes = 0

    def park(
        self, waiting: Waiting, *, topic: str, queue_id: int, queue_offset: int, deadline_ms: int, filter_bytes: int = 0
    ) -> Parked[Waiting]:
        """Parks a pull. `filter_bytes`: the size of its filter. Raises BrokerBusy if a limit is reached."""
        size_bytes = PULL_BYTES + filter_bytes
        if self.count >= self._count_max or self.size_bytes + size_bytes > self._bytes_max:
            raise BrokerBusy(RETRY_MS, f"{self.count} pulls are waiting")
        parked = Parked(topic, queue_id, queue_offset, deadline_ms, size_bytes, waiting)
        self._queues.setdefault((topic, queue_id), {})[parked] = None
        self.count += 1
        self.size_bytes += size_bytes
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, parked))
        if len(self._heap) > 2 * self.count + _HEAP_SLACK:
            self._heap = [entry for entry in self._heap if entry[2].is_parked]
            heapify(self._heap)
        return parked

    def hasten(self, parked: Parked[Waiting], deadline_ms: int) -> None:
        """Moves its deadline forward, if the new one is earlier."""
        if deadline_ms < parked.deadline_ms:
            parked.deadline_ms = deadline_ms
            self._sequence += 1
            heappush(self._heap, (deadline_ms, self._sequence, parked))

    def waiting_on(self, topic: str, queue_id: int) -> list[Parked[Waiting]]:
        """All pulls on a queue, oldest first; they stay parked."""
        return list(self._queues.get((topic, queue_id), ()))

    def waiting_on_topic(self, topic: str) -> list[Parked[Waiting]]:
        """All pulls on any queue of a topic; they stay parked."""
        return [parked for (name, _), queue in self._queues.items() if name == topic for parked in queue]

    def all_waiting(self) -> list[Parked[Waiting]]:
        """All; they stay parked."""
        return [parked for queue in self._queues.values() for parked in queue]

    def release(self, parked: Parked[Waiting]) -> None:
        """Removes a parked pull; does nothing if it was removed before."""
        if not parked.is_parked:
            return
        parked.is_parked = False
        self.count -= 1
        self.size_bytes -= parked.size_bytes
        key = (parked.topic, parked.queue_id)
        queue = self._queues[key]
        del queue[parked]
        if not queue:
            del self._queues[key]

    def expired(self, now_ms: int) -> list[Parked[Waiting]]:
        """Removes all whose deadline has passed, in order of their deadlines."""
        due: list[Parked[Waiting]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            parked = heappop(self._heap)[2]
            if parked.is_parked:
                self.release(parked)
                due.append(parked)
        return due
