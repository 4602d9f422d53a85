"""The dispatch of new runs of records, in order, to consume queues, key index and state tables. Pure.

The same dispatchers serve live appends and recovery: after a start the log is replayed to them from the lowest
`reflected` on, and a run may be told twice (they skip what they hold).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...model.queue import PhysicalOffset, QueueOffset


@dataclass(slots=True)
class Run:
    """Records of one queue that lie back to back in the log: physical bytes [begin, end), queue offsets from `queue_offset`.

    `units`: 20 bytes a record, as the consume queue holds them. `hashes`, `key_offsets`: index keys (uint32, int64),
    [keys_begin, keys_end). `records`: the bytes themselves. All views are valid during the call only.
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
    sys_flag: int = 0  # of the last record; ENDS_WAIT and SEQUENCED of any of them


class Dispatcher(Protocol):
    """One thing that is derived from the log."""

    def on_run(self, run: Run) -> None:
        """Takes a run of new (or replayed) records. Loop thread only; must not block."""

    def reflected(self) -> PhysicalOffset:
        """Everything below this physical offset is held durably here; a restart replays from there."""

    def persist(self) -> PhysicalOffset:
        """Makes what is held durable (worker thread, while the loop goes on) and returns the new `reflected`."""


@runtime_checkable
class ConfirmedDispatcher(Dispatcher, Protocol):
    """One whose durable state is no part of the log and cannot be cut with it: in a replicated store it must reflect
    confirmed records only. Any other is not asked to persist there, but at a stop that finds everything confirmed.
    """

    def persist_confirmed(self, confirmed: PhysicalOffset) -> PhysicalOffset:
        """Makes a state durable that reflects nothing at or behind `confirmed`, if there is one; returns `reflected`.

        Called instead of `persist`, each checkpoint, by the same thread: a copy taken at one call, not yet confirmed as
        a whole, is written at a later one.
        """


@runtime_checkable
class TopicDispatcher(Dispatcher, Protocol):
    """One that a few topics concern: live runs of others are not told, which keeps them off the hot path."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics it is told."""

    @property
    def run_flags(self) -> int:
        """It is told of other topics' runs too whose `sys_flag` has one of these bits."""

    def advance(self, end: PhysicalOffset) -> None:
        """Everything below `end` that concerns it has been told. Loop thread, after each write."""


@runtime_checkable
class SettledDispatcher(Dispatcher, Protocol):
    """One that can be made again from the log, and is told before a replay what that log is."""

    def settle(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:
        """The log was found to be [log_begin, log_end). Whoever reflects more than that starts over."""
