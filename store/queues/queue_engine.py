"""What the store asks of its consume queues, whatever keeps them: an engine is one implementation of these protocols.

    QueueEngine    all queues of a store; a Dispatcher      files: queue_table      RocksDB: rows/row_table
    QueuePlaces    one queue: which record is message n            consume_queue             rows/row_queue
    UnitSource     units as they are kept, by place                unit_files                rows/row_source

Nobody asks which engine it is (`engine_choice` chooses). A unit is 20 bytes everywhere (queue_places). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from ...model.queue import PhysicalOffset
from ...model.topics.light_queues import takes_light_queues
from ...record.kernel import light_units
from ...record.sys_flag import INNER_BATCH, LIGHT, TRANSACTION_COMMIT, TRANSACTION_MASK
from .dispatch import Run
from .queue_places import UNIT_BYTES, QueuePlaces

QUEUE_FOLDER: Final = "consumequeue"
NO_UNIT: Final = b"\xff" * UNIT_BYTES
"""What a UnitSource gives for a unit that is not kept: retention has deleted it, or its topic was deleted."""

QueueKey = tuple[str, int]

LightUnit = tuple[str, int, bytes]
"""(light queue, offset in it, unit): queue 0 of the topic that its name is."""


def goes_to_queue(sys_flag: int) -> bool:
    """Whether a record with this sysFlag is visible in its queue: plain and committed ones are."""
    return sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)


def names_lights(sys_flag: int, topic: str) -> bool:
    """Whether a run of records with these flags puts units into light queues. A record that holds a batch does not."""
    return (
        bool(sys_flag & LIGHT) and not sys_flag & INNER_BATCH and goes_to_queue(sys_flag) and takes_light_queues(topic)
    )


def lights_of(run: Run) -> list[LightUnit]:
    """The units that a run puts into light queues, in the log's order."""
    return light_units(run.records, run.units) if names_lights(run.sys_flag, run.topic) else []


def single_units(run: Run) -> Iterator[tuple[str, int, int, bytes]]:
    """(topic, queue id, queue offset, unit) of each of a run's records, in its own queue and in its light ones."""
    if goes_to_queue(run.sys_flag):
        for at in range(run.count):
            unit = bytes(run.units[at * UNIT_BYTES : (at + 1) * UNIT_BYTES])
            yield run.topic, run.queue_id, run.queue_offset + at, unit
        for name, queue_offset, unit in lights_of(run):
            yield name, 0, queue_offset, unit


def with_deliver_times(units: memoryview, store_timestamp_ms: int, delay_ms: int) -> bytearray:
    """Units of the schedule topic, with the delivery time as tags code, as in RocketMQ."""
    patched = bytearray(units)
    code = (store_timestamp_ms + delay_ms).to_bytes(8, "big")
    for at in range(12, len(patched), UNIT_BYTES):
        patched[at : at + 8] = code
    return patched


@dataclass(frozen=True, slots=True)
class WrongUnit:
    """The unit at this queue offset, `held`, does not point to its record.

    `unit`: the correct one, except for a delayed message's time. `count`: how many messages its record holds.
    """

    topic: str
    queue_id: int
    queue_offset: int
    unit: bytes
    held: bytes
    store_timestamp_ms: int
    count: int = 1


class UnitSource(Protocol):
    """Reads units as they are kept, by descriptors of its own: one thread each, any thread. Raises OSError."""

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue exists; False for one of a deleted topic."""

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """The units at these places; NO_UNIT for each that is not kept."""


class QueueEngine(Protocol):
    """{(topic, queue id): queue}. Loop thread, except where a method says otherwise. They raise StoreFormatError, OSError."""

    @property
    def directory(self) -> str:
        """Where the queues are, for messages about them."""

    # ---- the start

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:
        """Sets where the log ended when the store was opened; units behind that are dropped. `reflected`: below it all units
        are on the disk, as far as the checkpoint knows. `is_whole`: we stopped cleanly, so every unit is a message's."""

    def cut(self, log_end: PhysicalOffset, runs_from: Callable[[int], Iterable[Run]]) -> None:
        """Called instead of `begin`: removes, durably, all units of records that end above `log_end`, and takes back deletions
        of topics above it. `runs_from(offset)`: the log from there on. May be repeated after a crash."""

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Creates queues that continue at these offsets, durably."""

    def work_in(self, run_in_worker: Callable[[Callable[[], None]], object]) -> None:
        """From now on slow work that is due goes there."""

    # ---- finding

    def get(self, topic: str, queue_id: int) -> QueuePlaces | None:
        """A queue that exists, or None."""

    def get_or_create(self, topic: str, queue_id: int) -> QueuePlaces:
        """The queue; a new one exists once it has a unit. `topic` must be a checked name."""

    def private(self, topic: str, queue_id: int) -> AbstractContextManager[QueuePlaces | None]:
        """A copy of a queue at this moment, for a reader of its own. Any thread."""

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether the queue's kept units still begin there, or the queue is gone. Any thread."""

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` needs no disk: the queue is loaded, or does not exist."""

    @property
    def count(self) -> int:
        """The number of queues."""

    @property
    def lights(self) -> Collection[str]:
        """The names of all light queues."""

    def kept(self) -> tuple[int, int]:
        """(number of queues on the disk, number of their files)."""

    def listed(self) -> list[QueueKey]:
        """All queues, sorted."""

    def source(self) -> UnitSource:
        """For one other thread. Works before `begin`, too."""

    # ---- dispatch

    def put(self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Takes the units of one run, or of several if the queue does not keep times. They are readable after `advance`; on a
        full disk they wait."""

    def put_lights(self, units: list[LightUnit], store_timestamp_ms: int) -> None:
        """The same for the light queues of records of one store time."""

    def advance(self, end: int) -> None:
        """All units below `end` were put."""

    def on_replayed(self, end: int) -> None:
        """The replay at a start came to the log's end."""

    @property
    def complete_below(self) -> PhysicalOffset:
        """Before a replay: the queues that are read reflect the log up to there, deletions of topics too."""

    def on_run(self, run: Run) -> None:
        """`put`, `put_lights` and `advance` if the run's records are visible, else `advance`."""

    def fill_in(self, run: Run) -> None:
        """Takes the units of records that were damaged and are whole again, if their queue has only filler in their place.

        Records of a deleted topic stay out of the queues of a new topic of the same name.
        """

    def set_right(self, wrong: WrongUnit) -> bool:
        """Replaces a damaged unit if it is still there; returns whether it was."""

    @property
    def is_blocked(self) -> bool:
        """Whether units wait for disk space."""

    def retry_unwritten(self, end: int) -> None:
        """Writes the waiting units as far as the disk has room; `end`: the end of the dispatched log."""

    def reflected(self) -> PhysicalOffset:
        """The units of all records below this offset are on disk."""

    def persist(self) -> PhysicalOffset:
        """Persists a whole round. Worker thread."""

    def persist_some(self, files_max: int) -> bool:
        """Makes some of what was written before the round began durable; returns whether some is left. Worker thread."""

    # ---- removing

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """Starts an expiry: `expire_some` then removes units of records below `log_begin`, and light queues without others."""

    def expire_some(self, queues_max: int) -> bool:
        """Checks `queues_max` queues with something to remove; returns whether some are left."""

    def delete_topic(self, topic: str) -> None:
        """Deletes the queues of a topic. Its records stay in the log until they expire."""

    def delete_light(self, name: str, confirmed: int, *, below: int | None = None) -> None:
        """Removes the units of a light queue, or those of records below the physical offset `below`, though the log has
        their records: a replay brings back what it reads again.

        The queue itself goes if no offset could then be used again, by what is `confirmed` of the log; else retention takes
        it."""

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same for a deletion that ends at byte `at` of the log and may still be cut from it."""

    def purge(self, confirmed: int) -> None:
        """Deletions up to `confirmed` can no longer be cut. Worker thread."""

    def close(self) -> None:
        """Closes all files."""


class StoreQueues(QueueEngine, Protocol):
    """All queues of a store, those of batches too (batches/all_queues)."""

    @property
    def plain(self) -> QueueEngine:
        """The engine of the plain queues."""

    @property
    def had_batches(self) -> bool:
        """Whether there were batch queues, as the store's facts said when it was opened."""

    @property
    def are_batches_lost(self) -> bool:
        """Whether there were batch queues, and all are gone: they are made again from the whole log."""

    @property
    def has_batches(self) -> bool:
        """Whether there are batch queues. Any thread."""

    def batches_kept(self) -> tuple[int, int]:
        """(number of batch queues on the disk, number of their files)."""

    def read_records_by(self, read: Callable[[int, int], bytes | None]) -> None:
        """`read(offset, size)`: the record there, if it can be read and is whole. The last unit of a batch queue is then held
        against its record when the queue is loaded."""

    def get_or_create_batched(self, topic: str, queue_id: int) -> QueuePlaces:
        """The batch queue; a new one exists once it has a unit. A plain queue that has messages stays one, and is returned."""

    def put_batch(
        self, queue: QueuePlaces, queue_offset: int, unit: memoryview | bytes, store_timestamp_ms: int, count: int
    ) -> None:
        """Takes the batch of a record, messages [queue_offset, queue_offset + count), with its unit of 20 bytes."""
