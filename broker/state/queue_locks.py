"""Queue locks: which member of a group owns a queue, to consume it in order. Pure; owned by the loop thread.

The log records the *owner* of a queue: each change of owner is an event, so that a restart, and the next
master, know it. The *lease* is how long the owner may be silent. It is counted on this process's monotonic clock, and
a renewal changes nothing in the log:

    free --lock--> owned --renewed before the lease is over--> owned, with a whole lease again
      ^              |
      +--------------+  unlocked, or its client signed off: at once; otherwise when the lease is over, not sooner

So the queue of a client that vanished has no owner once its lease is over. From then on that client is fenced: it
renews nothing and commits nothing until it has locked again, which begins at the offset committed by then. A
queue whose owner has no lease here was inherited, from before a restart or from a former master: it is reserved for that
owner for one whole lease after this broker became master.

`lock`, `unlock`, `leave` and `lapsed` decide and change nothing. The shell stages a decision's events, then adopts it.
An adopted decision counts for the next one, although the log has it only at the end of the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from ...model.errors import StoreFormatError
from ...model.plain_dataclass import dataclass
from .topic_table import Document
from .unknown_events import unknown_event

LOCKED: Final = "locked"
UNLOCKED: Final = "unlocked"
RENEWED: Final = "renewed"
LEASE_MS: Final = 60_000
EVENT_QUEUES_MAX: Final = 256  # limits an event to a small record, however many queues it is about

Queue = tuple[str, int]  # topic, queue id
Lock = tuple[str, str, int]  # group, topic, queue id


@dataclass(frozen=True, slots=True)
class LockDecision:
    """`kept`: queues the client already had; `taken`, `freed`: changes of owner."""

    client_id: str = ""
    kept: tuple[Lock, ...] = ()
    taken: tuple[Lock, ...] = ()
    freed: tuple[Lock, ...] = ()

    def events(self) -> Iterator[Document]:
        """The changes, as events of the log."""
        for kind, locks in ((UNLOCKED, self.freed), (LOCKED, self.taken)):
            for group, queues in _by_group(locks).items():
                for begin in range(0, len(queues), EVENT_QUEUES_MAX):
                    part = [list(queue) for queue in queues[begin : begin + EVENT_QUEUES_MAX]]
                    yield {"event": kind, "group": group, "client": self.client_id, "queues": part}


@dataclass(slots=True)
class QueueLockTable:
    """The owners, and their leases while this broker is master. `lease_ms`: how long an owner may be silent."""

    lease_ms: int = LEASE_MS
    _owners: dict[Lock, str] = field(default_factory=dict)  # as the log says; values are replaced, never changed
    _adopted: dict[Lock, str | None] = field(default_factory=dict)  # decided, and not yet dispatched from the log
    _leases: dict[Lock, int] = field(default_factory=dict)  # when the lease of the present owner ends
    _rest: Document = field(default_factory=dict)

    # ---- the log

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name != "lockTable"}
        try:
            for group, topics in (document.get("lockTable") or {}).items():
                for topic, clients in topics.items():
                    for queue_id, client_id in clients.items():
                        self._owners[group, topic, int(queue_id)] = str(client_id)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError("queueLocks.json", f"lockTable: {error}") from error

    def document(self) -> Document:
        """The content for the snapshot: {group: {topic: {queue id: client id}}}. Any thread."""
        table: dict[str, dict[str, dict[str, str]]] = {}
        for (group, topic, queue_id), client_id in sorted(self._owners.copy().items()):
            table.setdefault(group, {}).setdefault(topic, {})[str(queue_id)] = client_id
        return {**self._rest, "lockTable": table}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        kind, group, client_id, queues = (event.get(name) for name in ("event", "group", "client", "queues"))
        if kind == RENEWED:
            return
        if kind not in (LOCKED, UNLOCKED) or not isinstance(client_id, str) or not isinstance(queues, list):
            raise unknown_event("lock", event)
        locks = _locks_of(str(group), queues)
        self._rest = {**self._rest, "dataVersion": version}
        owner = client_id if kind == LOCKED else None
        for lock in locks:
            if owner is None:
                self._owners.pop(lock, None)
            else:
                self._owners[lock] = owner
            if lock in self._adopted and self._adopted[lock] == owner:
                del self._adopted[lock]

    def on_topic_deleted(self, topic: str) -> None:
        """The topic's queues are deleted, and their owners."""
        self._forget([lock for lock in self._owners if lock[1] == topic])

    def on_group_deleted(self, group: str) -> None:
        """The group is deleted, and its owners."""
        self._forget([lock for lock in self._owners if lock[0] == group])

    def _forget(self, locks: list[Lock]) -> None:
        for lock in locks:
            del self._owners[lock]
            self._leases.pop(lock, None)

    # ---- questions

    def owner(self, group: str, topic: str, queue_id: int) -> str | None:
        """The client id of the queue's owner; None = nobody."""
        lock = (group, topic, queue_id)
        return self._adopted[lock] if lock in self._adopted else self._owners.get(lock)

    def first_not_of(self, group: str, client_id: str, queues: Iterable[Queue]) -> Queue | None:
        """The first of these queues that the client does not own."""
        return next((queue for queue in queues if self.owner(group, *queue) != client_id), None)

    # ---- deciding, where this broker leads

    def lock(self, now_ms: int, group: str, client_id: str, queues: Iterable[Queue], *, renews: bool) -> LockDecision:
        """Which of these queues the client gets. `renews`: only those it owns, without a gap. `now_ms`: monotonic."""
        kept, taken = [], []
        for queue in dict.fromkeys(queues):
            lock = (group, *queue)
            owner = self.owner(*lock)
            is_over = owner is None or self._end_ms(lock, now_ms) <= now_ms
            if owner == client_id and not (renews and is_over):
                kept.append(lock)
            elif is_over and not renews:
                taken.append(lock)
        return LockDecision(client_id, kept=tuple(kept), taken=tuple(taken))

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> LockDecision:
        """Releases those of these queues that the client owns."""
        locks = [(group, *queue) for queue in dict.fromkeys(queues)]
        return LockDecision(client_id, freed=tuple(lock for lock in locks if self.owner(*lock) == client_id))

    def leave(self, client_id: str) -> LockDecision:
        """Releases everything that the client owns."""
        return LockDecision(client_id, freed=tuple(lock for lock in self._locks() if self.owner(*lock) == client_id))

    def lapsed(self, now_ms: int) -> list[LockDecision]:
        """Releases the queues whose lease is over; an inherited lease begins at the first call."""
        freed: dict[str, list[Lock]] = {}
        for lock in self._locks():
            owner = self.owner(*lock)
            if owner is not None and self._end_ms(lock, now_ms) <= now_ms:
                freed.setdefault(owner, []).append(lock)
        return [LockDecision(owner, freed=tuple(locks)) for owner, locks in freed.items()]

    def adopt(self, decision: LockDecision, now_ms: int) -> None:
        """The decision's events are staged: it counts from now on."""
        for lock in decision.freed:
            self._adopted[lock] = None
            self._leases.pop(lock, None)
        for lock in decision.taken:
            self._adopted[lock] = decision.client_id
        for lock in (*decision.kept, *decision.taken):
            self._leases[lock] = now_ms + self.lease_ms

    def on_deposed(self) -> None:
        """This broker is no longer master: the next master counts the leases."""
        self._leases.clear()

    def _end_ms(self, lock: Lock, now_ms: int) -> int:
        return self._leases.setdefault(lock, now_ms + self.lease_ms)

    def _locks(self) -> Sequence[Lock]:
        return sorted({*self._owners, *self._adopted}) if self._owners or self._adopted else ()


def renewal_of(group: str, client_id: str) -> Document:
    """An event that changes nothing: its arrival in the log shows that this broker is still master."""
    return {"event": RENEWED, "group": group, "client": client_id}


def _locks_of(group: str, queues: list[Any]) -> list[Lock]:
    """The owners of an event. Raises StoreFormatError."""
    locks: list[Lock] = []
    for queue in queues:
        match queue:
            case [str(topic), int(queue_id)]:
                locks.append((group, topic, queue_id))
            case _:
                raise StoreFormatError("lock events", f"no queue: {str(queue)[:200]}")
    return locks


def _by_group(locks: Iterable[Lock]) -> dict[str, list[Queue]]:
    groups: dict[str, list[Queue]] = {}
    for group, topic, queue_id in locks:
        groups.setdefault(group, []).append((topic, queue_id))
    return groups
