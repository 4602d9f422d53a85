"""The history of replica groups: their events, on their way into ZooKeeper and back. Loop thread, but `keep`.

    tell -> keep: waiting here -> a tick: one write of one group -> /zenit/{cluster}/events/{broker_name}

An election never waits for it: an event is written after what it is about, and at most one such call is with the worker at a
time. What a controller had not written when it died is found by the next one: a group whose node has a later epoch than
its history. The oldest events of a group go once there are too many (group_store).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from ..model.clock import Clock
from ..model.errors import BrokerBusy, ZenitError
from ..model.events.event import Event, decode_line, event_line, plain_fact, whole_lines
from ..model.events.table import ELECTED
from ..model.groups.group import GroupNode
from .group.group_events import FOUND_LATER, election_facts
from .group_store import GroupStore
from .store_worker import StoreWorker

log = logging.getLogger(__name__)

WAITING_MAX: Final = 2000
TICK_MS: Final = 100

_T = TypeVar("_T")

Nodes = Callable[[], dict[str, GroupNode]]


class GroupHistory:
    """`node`: the controller's address, as its events name it."""

    def __init__(self, worker: StoreWorker, clock: Clock, *, node: str) -> None:
        self._worker = worker
        self._clock = clock
        self._node = node
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=WAITING_MAX)
        self._unchecked: deque[str] = deque()
        self._nodes: Nodes = dict
        self._is_writing = False

    def keep(self, event: Event) -> None:
        """Takes an event of a group; any thread. Beyond WAITING_MAX, while ZooKeeper is down, the oldest go."""
        self._waiting.append((event.group, event_line(event, role="controller", node=self._node).encode()))

    def check(self, nodes: Nodes) -> None:
        """This controller leads from now on: the groups' histories are compared with their nodes, which are what `nodes`
        gives then."""
        self._nodes = nodes
        self._unchecked = deque(nodes())

    def on_tick(self, store: GroupStore | None) -> None:
        """Begins the next call, if none is under way. `store` None: there is no session with ZooKeeper."""
        if self._is_writing or store is None:
            return
        if self._waiting:
            group = self._waiting[0][0]
            lines = tuple(line for name, line in tuple(self._waiting) if name == group)
            self._ask(partial(store.add_events, group, lines), partial(self._on_written, group, lines))
        elif self._unchecked:
            name = self._unchecked[0]
            self._ask(partial(store.events, name), partial(self._on_read, name))

    # ---- inside

    def _ask(self, work: Callable[[], _T], then: Callable[[_T | ZenitError], None]) -> None:
        """Where too many calls wait already, a later tick tries again."""
        with suppress(BrokerBusy):
            self._worker.ask(work, then)
            self._is_writing = True

    def _on_written(self, group: str, lines: tuple[bytes, ...], result: ZenitError | None) -> None:
        """What could not be written stays, and the next tick tries again; `with_lines` keeps no event twice."""
        self._is_writing = False
        if not isinstance(result, ZenitError):
            written = {(group, line) for line in lines}
            for _ in range(len(self._waiting)):
                waiting = self._waiting.popleft()
                if waiting not in written:
                    self._waiting.append(waiting)

    def _on_read(self, name: str, result: bytes | ZenitError) -> None:
        self._is_writing = False
        if isinstance(result, ZenitError):
            return
        if self._unchecked and self._unchecked[0] == name:
            self._unchecked.popleft()
        node = self._nodes().get(name)
        if node is not None and node.master is not None and last_election(result) < node.epoch:
            log.info("an election that is not in the history of its group group=%s epoch=%s", name, node.epoch)
            facts = election_facts(node, old_master=None, why=FOUND_LATER)
            plain = tuple((field, plain_fact(value)) for field, value in facts.items())
            self.keep(Event(ELECTED, self._clock.now_ms(), plain))


def last_election(history: bytes) -> int:
    """The highest epoch of an election that a history tells of; 0 if it tells of none."""
    told = [decode_line(line) for line in whole_lines(history)]
    return max((_epoch(one) for one in told if one is not None and one["event"] == ELECTED.name), default=0)


def _epoch(event: Mapping[str, object]) -> int:
    epoch = event.get("epoch")
    return epoch if isinstance(epoch, int) else 0
