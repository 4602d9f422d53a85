"""Tells everybody who derives something from the log of runs that were just written to it.

Order: units to the queues (one write a queue where that is right), keys to the index, the run to every other dispatcher.
A master's turn and a slave's chunk come this way alike, so that a slave needs no rebuild to become master. Loop thread.
"""

from __future__ import annotations

from typing import Final

from ...model.names import STATE_TOPICS
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.record_kernel import RunKernel
from ..index.key_index import KeyIndex, is_indexed
from ..opening.store_opening import Opened
from .confirmation import Confirmation
from .consume_queue import ConsumeQueue
from .dispatch import Run
from .queue_table import goes_to_queue

TOPIC_EVENTS: Final = STATE_TOPICS[0]
UNITS_WAIT: Final = (
    "disk full: queue units or index keys wait; free space, then writes go on by themselves; an index file takes"
    " 400 MiB by default (store.index_entries)"
)


class RunTarget:
    """The queue that runs go to."""

    __slots__ = ("queue", "queue_id", "topic")
    queue: ConsumeQueue
    queue_id: int
    topic: str


# target, queue offset, count, begin, end, time, units begin, units end, keys begin, keys end, at (in the bytes), flags:
# sysFlag of the last record, ENDS_WAIT and SEQUENCED of any of them
WrittenRun = tuple[RunTarget, int, int, int, int, int, int, int, int, int, int, int]


class RunDispatch:
    """Belongs to one open store. `messages`: how many were told, so far."""

    def __init__(self, opened: Opened, confirmation: Confirmation) -> None:
        self._queues, self._index = opened.queues, opened.index
        self._others = opened.others
        self._topics: frozenset[str] | None = frozenset()  # that anybody wants; None: all
        self._flags = 0
        for _, topics, flags, _ in opened.others:
            self._topics = None if topics is None or self._topics is None else self._topics | topics
            self._flags |= flags
        self._confirmation = confirmation
        self._arrivals: dict[tuple[str, int], None] = {}
        self.messages = 0

    @property
    def is_blocked(self) -> bool:
        """Whether units or keys wait for a full disk."""
        return self._queues.is_blocked or (self._index is not None and self._index.is_blocked)

    def dispatch(self, runs: list[WrittenRun], kernel: RunKernel, data: memoryview, *, grouped: bool) -> None:
        """`data`: what `at` counts in. `grouped`: all runs are visible records of queues whose units need no store time,
        and the runs of one queue follow one another in it. Raises OSError.
        """
        units = memoryview(kernel.units)
        end = runs[-1][4]
        if grouped and len(runs) > 1:
            self._put_grouped(runs, kernel)
        else:
            for target, queue_offset, _, _, _, now_ms, units_begin, units_end, _, _, _, flags in runs:
                if goes_to_queue(flags):
                    self._queues.put(target.queue, queue_offset, units[units_begin:units_end], now_ms)
                    self._arrivals[target.queue.key] = None
        self._queues.advance(end)
        if self._index is not None:
            self._index_runs(self._index, runs, kernel)
            self._index.advance(end)
        messages = 0
        for run in runs:
            messages += run[2]
        self.messages += messages
        if self._confirmation.offset is not None:
            self._await_confirmation(runs)
        if self._others:
            self._tell_others(runs, kernel, units, data)

    def _put_grouped(self, runs: list[WrittenRun], kernel: RunKernel) -> None:
        """One write for each queue: the runs of a queue follow one another in it, if not in the log."""
        for target, queue_offset, units in kernel.units_by_target(runs):
            self._queues.put(target.queue, queue_offset, units, 0)
            self._arrivals[target.queue.key] = None

    @staticmethod
    def _index_runs(index: KeyIndex, runs: list[WrittenRun], kernel: RunKernel) -> None:
        hashes, offsets = kernel.hashes, kernel.key_offsets
        begin = end = now_ms = 0  # keys of neighbouring runs of one store time go in together
        for run in runs:
            if run[8] == run[9] or (run[11] and not is_indexed(run[11])):
                continue
            if run[5] != now_ms or run[8] != end:
                if begin < end:
                    index.put(hashes, offsets, begin, end, now_ms)
                begin, now_ms = run[8], run[5]
            end = run[9]
        if begin < end:
            index.put(hashes, offsets, begin, end, now_ms)

    def _await_confirmation(self, runs: list[WrittenRun]) -> None:
        self._arrivals.clear()
        for target, queue_offset, count, _, end, _, _, _, _, _, _, flags in runs:
            if goes_to_queue(flags):
                self._confirmation.on_run(target.queue.key, queue_offset, count, end)

    def _tell_others(self, runs: list[WrittenRun], kernel: RunKernel, units: memoryview, data: memoryview) -> None:
        end = PhysicalOffset(runs[-1][4])
        every, wanted = self._topics, self._flags
        if every is not None:
            runs = [run for run in runs if run[0].topic in every or run[11] & wanted]
        for dispatcher, topics, own_flags, advance in self._others:
            for target, queue_offset, count, begin, run_end, now_ms, ub, ue, kb, ke, at, flags in runs:
                if topics is None or target.topic in topics or flags & own_flags:
                    dispatcher.on_run(
                        Run(target.topic, target.queue_id, QueueOffset(queue_offset), count, PhysicalOffset(begin),
                            PhysicalOffset(run_end), now_ms, units[ub:ue], kernel.hashes, kernel.key_offsets,
                            kb, ke, data[at : at + run_end - begin], flags)
                    )  # fmt: skip
            if advance is not None:
                advance(end)

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues that have more to read than at the last call."""
        if self._confirmation.offset is not None:
            return self._confirmation.take_arrivals()
        arrivals = list(self._arrivals)
        self._arrivals.clear()
        return arrivals
