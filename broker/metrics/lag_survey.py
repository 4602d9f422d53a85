"""How far each group is behind, found out a little at a time by the loop, which alone may look into queues.

A round goes over the queues of all topics that a group consumes; a tick does no more of it than BUDGET_NS. A scrape reads what
the last look found. The oldest message that a group has yet to consume in a topic is the one that is first in the log: so
one look at its record, which the scrape's thread takes, tells the lag in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from ...model.clock import monotonic_ns
from ...model.errors import ZenitError
from ...model.plain_dataclass import dataclass
from ...model.queue import QueueOffset
from ...store.message_store import MessageStore
from ..state.state_log import StateLog

log = logging.getLogger(__name__)

BUDGET_NS: Final = 500_000
ROUND_NS: Final = 2_000_000_000
"""From the beginning of a round to that of the next."""
LOOKS: Final = 16
"""Queues between two looks at the clock."""

QueueLag = tuple[int, int, int, int, int]
"""(queue id, first offset, end, committed offset, messages yet to consume)."""


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A group in a topic. `oldest`: the physical offset of the first message that it has yet to consume; None if there is
    none. `leased`, `ready`: messages of a group that pops; `ready` is None for one that pulls."""

    messages: int
    oldest: int | None
    leased: int
    ready: int | None
    queues: tuple[QueueLag, ...]


class LagSurvey:
    """`found`: {(topic, group): what the last look found}; another thread may copy it. `half_due_ms`, `timer_due_ms`: when
    what waits longest is due, None if nothing waits. Loop thread."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        *,
        leads: Callable[[], bool],
        dues: Callable[[], tuple[int | None, int | None]],
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`leads`: only then the tables here are those that count. `dues`: (half_due_ms, timer_due_ms) now."""
        self._store = store
        self._state = state
        self._leads = leads
        self._dues = dues
        self._now_ns = now_ns
        self._work: Iterator[None] | None = None
        self._next_ns = 0
        self.found: dict[tuple[str, str], TopicLag] = {}
        self.half_due_ms: int | None = None
        self.timer_due_ms: int | None = None

    def on_tick(self) -> None:
        """Goes on with the round, or begins the next."""
        now_ns = self._now_ns()
        if not self._leads():
            self.found, self._work = {}, None
            self.half_due_ms = self.timer_due_ms = None
            return
        self.half_due_ms, self.timer_due_ms = self._dues()
        if self._work is None:
            if now_ns < self._next_ns:
                return
            self._next_ns = now_ns + ROUND_NS
            self._work = self._round()
        until_ns = now_ns + BUDGET_NS
        try:
            for looks, _ in enumerate(self._work, 1):
                if looks % LOOKS == 0 and self._now_ns() >= until_ns:
                    return
        except (ZenitError, OSError) as error:  # a queue that cannot be read is no reason to stop serving the others
            log.warning("a round of the lag survey ended early error=%s", error)
        self._work = None

    def _round(self) -> Iterator[None]:
        """A step for each queue of each group."""
        offsets = self._state.offset_table
        pairs = offsets.pairs_since(None)
        for topic, group in pairs:
            config = self._state.topic_table.configs.get(topic)
            if config is None:
                continue
            rows: list[QueueLag] = []
            oldest: int | None = None
            leased, ready = 0, None
            for queue_id in range(config.read_queues):
                row, first = self._look(group, topic, queue_id)
                rows.append(row)
                if first is not None and (oldest is None or first < oldest):
                    oldest = first
                popped = self._state.pop_table.queue((group, topic, queue_id))
                if popped is not None:
                    leased += popped.leased
                    ready = (ready or 0) + max(0, row[2] - max(row[1], popped.next)) + len(popped.available)
                yield
            if offsets.in_topic(topic, group) is not None:  # not deleted meanwhile
                messages = sum(row[4] for row in rows)
                self.found[topic, group] = TopicLag(messages, oldest, leased, ready, tuple(rows))
        for pair in self.found.keys() - set(pairs):
            del self.found[pair]

    def _look(self, group: str, topic: str, queue_id: int) -> tuple[QueueLag, int | None]:
        """One queue, and the place of the first message that the group has yet to consume."""
        store = self._store
        begin, end = int(store.min_offset(topic, queue_id)), int(store.max_offset(topic, queue_id))
        committed = self._state.offset_table.offset(group, topic, queue_id)
        first = max(committed, begin)
        if first >= end:
            return (queue_id, begin, end, committed, 0), None
        return (queue_id, begin, end, committed, end - first), store.position_of(topic, queue_id, QueueOffset(first))
