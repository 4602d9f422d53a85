"""Dispatches new runs of records to everything that derives something from the log.

Order: units to the queues (one write per queue if that is allowed), keys to the index, the run to every other dispatcher. A
master's turn and a slave's chunk are dispatched in the same way, so a slave needs no rebuild to become master. Loop thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...model.names import STATE_TOPICS
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.kernel import RunKernel, WrittenRun, light_units
from ...record.sys_flag import INNER_BATCH
from ..index.key_index import KeyIndex, is_indexed
from ..opening.store_opening import Opened
from .confirmation import Confirmation
from .dispatch import Run
from .queue_engine import LightUnit, goes_to_queue, names_lights
from .queue_places import QueuePlaces

TOPIC_EVENTS: Final = STATE_TOPICS[0]
UNITS_WAIT: Final = "disk full: queue units or index keys wait; free space, then writes go on by themselves"


class RunTarget:
    """The queue that a run belongs to."""

    __slots__ = ("queue", "queue_id", "topic")
    queue: QueuePlaces
    queue_id: int
    topic: str


class RunDispatch:
    """The dispatch of one open store. `messages`: how many were dispatched so far."""

    def __init__(self, opened: Opened, confirmation: Confirmation) -> None:
        self._queues, self._index = opened.queues, opened.index
        self._others = opened.others
        self._topics: frozenset[str] | None = frozenset()  # topics that some dispatcher wants; None: all
        self._flags = 0
        for _, topics, flags, _ in opened.others:
            self._topics = None if topics is None or self._topics is None else self._topics | topics
            self._flags |= flags
        self._confirmation = confirmation
        self._arrivals: dict[tuple[str, int], None] = {}
        self.messages = 0

    @property
    def is_blocked(self) -> bool:
        """Whether units or keys wait because the disk is full."""
        return self._queues.is_blocked or (self._index is not None and self._index.is_blocked)

    def dispatch(self, runs: list[WrittenRun], kernel: RunKernel, data: memoryview, *, grouped: bool) -> None:
        """`data`: the buffer that `at` refers to.

        `grouped`: all runs are visible records of queues whose units need no store time, and the runs of one queue follow
        one another in that queue. Raises OSError.
        """
        units = memoryview(kernel.units)
        end = runs[-1].end
        if grouped and len(runs) > 1:
            self._put_grouped(runs, kernel)
        else:
            for run in runs:
                if goes_to_queue(run.sys_flag):
                    queue: QueuePlaces = run.target.queue
                    found = units[run.units_begin : run.units_end]
                    if run.sys_flag & INNER_BATCH:
                        self._queues.put_batch(queue, run.queue_offset, found, run.store_timestamp_ms, run.count)
                    else:
                        self._queues.put(queue, run.queue_offset, found, run.store_timestamp_ms)
                    self._arrivals[queue.key] = None
        lights = self._put_lights(runs, units, data) if kernel.has_lights else {}
        self._queues.advance(end)
        if self._index is not None:
            self._index_runs(self._index, runs, kernel)
            self._index.advance(end)
        messages = 0
        for run in runs:
            messages += run.count
        self.messages += messages
        if self._confirmation.offset is not None:
            self._await_confirmation(runs, lights)
        if self._others:
            self._tell_others(runs, kernel, units, data)

    def _put_grouped(self, runs: list[WrittenRun], kernel: RunKernel) -> None:
        """One write per queue: its runs follow one another in the queue, though not in the log. All are plain queues."""
        put = self._queues.plain.put
        for target, queue_offset, units in kernel.units_by_target(runs):
            put(target.queue, queue_offset, units, 0)
            self._arrivals[target.queue.key] = None

    @staticmethod
    def _index_runs(index: KeyIndex, runs: list[WrittenRun], kernel: RunKernel) -> None:
        hashes, offsets = kernel.hashes, kernel.key_offsets
        begin = end = now_ms = 0  # keys of adjacent runs with one store time are added together
        for run in runs:
            keys_begin, keys_end, flags = run.keys_begin, run.keys_end, run.sys_flag
            if keys_begin == keys_end or (flags and not is_indexed(flags)):
                continue
            if run.store_timestamp_ms != now_ms or keys_begin != end:
                if begin < end:
                    index.put(hashes, offsets, begin, end, now_ms)
                begin, now_ms = keys_begin, run.store_timestamp_ms
            end = keys_end
        if begin < end:
            index.put(hashes, offsets, begin, end, now_ms)

    def _put_lights(self, runs: list[WrittenRun], units: memoryview, data: memoryview) -> dict[int, list[LightUnit]]:
        """{the end of a run: the units of the light queues that its records name}."""
        found: dict[int, list[LightUnit]] = {}
        for run in runs:
            if names_lights(run.sys_flag, run.target.topic):
                records = data[run.at : run.at + run.end - run.begin]
                lights = found[run.end] = light_units(records, units[run.units_begin : run.units_end])
                self._queues.put_lights(lights, run.store_timestamp_ms)
                self._arrivals.update(dict.fromkeys([(name, 0) for name, _, _ in lights]))
        return found

    def _await_confirmation(self, runs: list[WrittenRun], lights: Mapping[int, list[LightUnit]]) -> None:
        self._arrivals.clear()
        for run in runs:
            if goes_to_queue(run.sys_flag):
                self._confirmation.on_run(run.target.queue.key, run.queue_offset, run.count, run.end)
            for name, queue_offset, _ in lights.get(run.end, ()):
                self._confirmation.on_run((name, 0), queue_offset, 1, run.end)

    def _tell_others(self, runs: list[WrittenRun], kernel: RunKernel, units: memoryview, data: memoryview) -> None:
        end = PhysicalOffset(runs[-1].end)
        every, wanted = self._topics, self._flags
        if every is not None:
            runs = [run for run in runs if run.target.topic in every or run.sys_flag & wanted]
        told: list[Run | None] = [None] * len(runs)  # made for the first that wants it
        for dispatcher, topics, own_flags, advance in self._others:
            for index, run in enumerate(runs):
                target: RunTarget = run.target
                if topics is None or target.topic in topics or run.sys_flag & own_flags:
                    known = told[index]
                    if known is None:
                        known = told[index] = Run(
                            target.topic,
                            target.queue_id,
                            QueueOffset(run.queue_offset),
                            run.count,
                            PhysicalOffset(run.begin),
                            PhysicalOffset(run.end),
                            run.store_timestamp_ms,
                            units[run.units_begin : run.units_end],
                            kernel.hashes,
                            kernel.key_offsets,
                            run.keys_begin,
                            run.keys_end,
                            data[run.at : run.at + run.end - run.begin],
                            run.sys_flag,
                        )
                    dispatcher.on_run(known)
            if advance is not None:
                advance(end)

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues that have more to read than at the last call."""
        if self._confirmation.offset is not None:
            return self._confirmation.take_arrivals()
        arrivals = list(self._arrivals)
        self._arrivals.clear()
        return arrivals
