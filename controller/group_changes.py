"""Writes changes of groups into ZooKeeper: one at a time for each group, each decided when its turn comes.

    submit -> (its turn) decide: from the present state -> the worker: audit record, conditional write, read -> settle

Changes of a group on hold wait until its release. So two changes of one group never race each other, and one that
waited behind an election is decided from the node that the election made: it is refused if it named an earlier
version. The result of a write is reported with the present node; a write without an answer is not repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ..model.errors import ZenitError
from ..model.groups.group import NO_VERSION, GroupNode, KnownGroup
from ..model.plain_dataclass import dataclass
from .group_store import GroupStore, Outcome, Written
from .store_worker import StoreWorker


@dataclass(frozen=True, slots=True)
class Write:
    """Write this node on condition of this version; NO_VERSION: the group's first. `record`: to be stored before that."""

    node: GroupNode
    version: int
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of a write. `known`: the present node; None: there is none; an error: it could not be read."""

    outcome: Outcome
    known: KnownGroup | ZenitError | None


@dataclass(frozen=True, slots=True)
class Change:
    """`decide`: the write, or None if nothing is to be written; may raise a ZenitError. `settle`: gets the result.

    `refuse`: gets what `decide` raised, or why the write was not even tried.
    """

    decide: Callable[[], Write | None]
    settle: Callable[[Attempt], None]
    refuse: Callable[[ZenitError], None]


class GroupChanges:
    """The present changes and those that wait. Loop thread."""

    def __init__(self, store: GroupStore, worker: StoreWorker) -> None:
        self._store = store
        self._worker = worker
        self._waiting: dict[str, deque[Change]] = {}
        self._under_way: dict[str, Change] = {}
        self._on_hold: set[str] = set()
        self._closed: ZenitError | None = None

    def hold(self, broker_name: str) -> None:
        """Puts the group on hold: its changes wait from now on."""
        self._on_hold.add(broker_name)

    def release(self, broker_name: str) -> None:
        """Ends the hold: its changes take their turns."""
        self._on_hold.discard(broker_name)
        self._go_on(broker_name)

    def submit(self, broker_name: str, change: Change, *, first: bool = False) -> None:
        """Queues a change; before the others that wait if it is `first`. Refused after `close`."""
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
        """Refuses all waiting ones; the result of a write in progress is not reported."""
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
    """Worker thread. Raises ZooKeeperUnavailable if the record may not be stored: then nothing was written."""
    if write.record is not None:
        store.append_record(write.record)
    outcome = store.create(write.node) if write.version == NO_VERSION else store.write(write.node, write.version)
    if isinstance(outcome, Written):
        return Attempt(outcome, KnownGroup(write.node, outcome.version))
    try:
        return Attempt(outcome, store.read(write.node.broker_name))
    except ZenitError as error:
        return Attempt(outcome, error)
