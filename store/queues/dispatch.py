"""The protocols of dispatchers: new runs of records go, in order, to consume queues, key index and state tables. Pure.

The same dispatchers serve live appends and recovery: after a start the log is replayed to them from the lowest `reflected`
on. A run may be dispatched twice; they skip what they have.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ...model.plain_dataclass import dataclass
from ...model.queue import PhysicalOffset, QueueOffset


@dataclass(slots=True)
class Run:
    """Contiguous records of one queue in the log: physical bytes [begin, end), queue offsets from `queue_offset` on.

    `units`: 20 bytes a record, as in the consume queue. `hashes`, `key_offsets`: index keys (uint32, int64), [keys_begin,
    keys_end). `records`: the bytes themselves. All views are valid during the call only.
    """

    topic: str
    queue_id: int
    queue_offset: QueueOffset
    count: int
    begin: PhysicalOffset
    end: PhysicalOffset
    store_timestamp_ms: int
    units: memoryview
    hashes: memoryview
    key_offsets: memoryview
    keys_begin: int
    keys_end: int
    records: memoryview
    sys_flag: int = 0  # of the last record; ENDS_WAIT and SEQUENCED if any of them has it


class Dispatcher(Protocol):
    """Something that is derived from the log."""

    def on_run(self, run: Run) -> None:
        """Takes a run of new (or replayed) records. Loop thread only; must not block."""

    def reflected(self) -> PhysicalOffset:
        """Everything below this physical offset is durable here; a restart replays from there."""

    def persist(self) -> PhysicalOffset:
        """Makes the present state durable and returns the new `reflected`. Worker thread; the loop continues meanwhile."""


@runtime_checkable
class ConfirmedDispatcher(Dispatcher, Protocol):
    """A dispatcher whose durable state is outside the log and cannot be cut with it.

    In a replicated store that state must reflect confirmed records only. There, other dispatchers are asked to persist only
    at a stop that finds everything confirmed.
    """

    def persist_confirmed(self, confirmed: PhysicalOffset) -> PhysicalOffset:
        """Persists a state that reflects nothing at or behind `confirmed`, if there is one; returns `reflected`.

        Called instead of `persist`, at each checkpoint, by the same thread. A copy of the state that is not fully confirmed
        at one call is written at a later one.
        """


@runtime_checkable
class TopicDispatcher(Dispatcher, Protocol):
    """A dispatcher for a few topics: it does not get live runs of others, which keeps it off the hot path."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose runs it gets."""

    @property
    def run_flags(self) -> int:
        """It also gets the runs of other topics whose `sys_flag` has one of these bits."""

    def advance(self, end: PhysicalOffset) -> None:
        """Everything below `end` that concerns it was dispatched. Loop thread, after each write."""


@runtime_checkable
class SettledDispatcher(Dispatcher, Protocol):
    """A dispatcher that can be rebuilt from the log, and learns the log's extent before a replay."""

    def settle(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:
        """The log is [log_begin, log_end). A dispatcher that reflects more than that starts over."""
