"""Changes of groups on their way into ZooKeeper: one at a time for each group, each decided when its turn comes.

    submit -> (its turn) decide: from what is known then -> the worker: audit record, conditional write, read -> settle

Those of a group on hold wait until its release. So two changes of one group never race each other, and one that
waited behind an election is decided from the node that the election made: it is refused where it named an earlier
version. What the write came to is told with the node as it is now; a write without an answer is not repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..model.errors import ZenitError
from ..model.groups.group import NO_VERSION, GroupNode, KnownGroup
from .group_store import GroupStore, Outcome, Written
from .store_worker import StoreWorker


@dataclass(frozen=True, slots=True)
class Write:
    """Write this node on condition of this version; NO_VERSION: the group's first. `record`: to be kept before that."""

    node: GroupNode
    version: int
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a write. `known`: the node as it is now; None: there is none; an error: it could not be read."""

    outcome: Outcome
    known: KnownGroup | ZenitError | None


@dataclass(frozen=True, slots=True)
class Change:
    """`decide`: the write, or None where nothing is to be written; may raise a ZenitError. `settle`: what came of it.

    `refuse`: what `decide` raised, or why the write was not even tried.
    """

    decide: Callable[[], Write | None]
    settle: Callable[[Attempt], None]
    refuse: Callable[[ZenitError], None]


class GroupChanges:
    """The changes under way and those that wait. Loop thread."""

    def __init__(self, store: GroupStore, worker: StoreWorker) -> None:
        self._store = store
        self._worker = worker
        self._waiting: dict[str, deque[Change]] = {}
        self._under_way: dict[str, Change] = {}
        self._on_hold: set[str] = set()
        self._closed: ZenitError | None = None

    def hold(self, broker_name: str) -> None:
        """Its changes wait from now on."""
        self._on_hold.add(broker_name)

    def release(self, broker_name: str) -> None:
        """They take their turns."""
        self._on_hold.discard(broker_name)
        self._go_on(broker_name)

    def submit(self, broker_name: str, change: Change, *, first: bool = False) -> None:
        """Takes its turn; before the others that wait where it is `first`. Refused once they were closed."""
        if self._closed is not None:
            change.refuse(self._closed)
            return
        waiting = self._waiting.setdefault(broker_name, deque())
        if first:
            waiting.appendleft(change)
        else:
            waiting.append(change)
        self._go_on(broker_name)

    def close(self, error: ZenitError) -> None:
        """Refuses all of them; what a write under way comes to is told to nobody."""
        self._closed = error
        waiting = [change for changes in self._waiting.values() for change in changes]
        refused = [*self._under_way.values(), *waiting]
        self._under_way.clear()
        self._waiting.clear()
        for change in refused:
            change.refuse(error)

    def _go_on(self, broker_name: str) -> None:
        if broker_name in self._on_hold:
            return
        while broker_name not in self._under_way and (waiting := self._waiting.get(broker_name)):
            self._begin(broker_name, waiting.popleft())
        if not self._waiting.get(broker_name):
            self._waiting.pop(broker_name, None)

    def _begin(self, broker_name: str, change: Change) -> None:
        try:
            write = change.decide()
            if write is None:
                return
            self._worker.ask(partial(carry_out, self._store, write), partial(self._on_done, broker_name))
        except ZenitError as error:
            change.refuse(error)
        else:
            self._under_way[broker_name] = change

    def _on_done(self, broker_name: str, result: Attempt | ZenitError) -> None:
        if self._closed is not None:
            return
        change = self._under_way.pop(broker_name)
        if isinstance(result, ZenitError):
            change.refuse(result)
        else:
            change.settle(result)
        self._go_on(broker_name)


def carry_out(store: GroupStore, write: Write) -> Attempt:
    """Worker thread. Raises ZooKeeperUnavailable where the record may not be kept: then nothing was written."""
    if write.record is not None:
        store.append_record(write.record)
    outcome = store.create(write.node) if write.version == NO_VERSION else store.write(write.node, write.version)
    if isinstance(outcome, Written):
        return Attempt(outcome, KnownGroup(write.node, outcome.version))
    try:
        return Attempt(outcome, store.read(write.node.broker_name))
    except ZenitError as error:
        return Attempt(outcome, error)
