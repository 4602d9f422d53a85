"""Reads back the rows of a batch written with delivery=dedup, to compare a repeated batch with them.

The pin of the query says from where on rows of its batch lie (batch_pins); each of them says in its property PSEQ which task
wrote it, and as which row of the task in its queue. Of each row a digest is kept. A process that runs several tasks of a batch
reads each queue once, and only what came since when it looks again. Any thread.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...client.administration.pipeline_calls import PipelineCalls
from ...client.connection.connection import Connection
from ...client.connection.waiting import Blocking, run_blocking
from ...client.sending.queue_choice import shard_layout
from ...model.errors import BatchChanged, BatchOutdated, DataLost, NoRoute, OffsetOutOfRange
from ...model.properties import SEQUENCE, UNIQUE_KEY
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ...record.kernel import decode_batch
from ...record.sys_flag import SEQUENCED
from ..column_names import SYS_FLAG
from ..options.options import ReadOptions, WriteOptions
from ..reading.offsets import QueueRange
from ..reading.queue_reader import read_range
from ..reading.topic_positions import TopicPositions
from .batch_pins import (
    NO_BATCH,
    Finish,
    Pin,
    begun,
    finish_text,
    parse_finish,
    parse_pin,
    pin_name,
    pin_text,
    queue_key,
)

BATCH_SHIFT: Final = 32  # a sequence is (batch id << 32) + n-th row of the task in the queue
DIGEST_BYTES: Final = 8
BATCHES_MAX: Final = 8  # of which a process remembers what was written
PINS_MAX: Final = 256

_OF_ATTEMPTS: Final = (SEQUENCE, UNIQUE_KEY)  # properties in which two attempts at one row differ


def producer_name(identity: str, partition_id: int) -> str:
    """The producer that a task of a query is."""
    return f"spark/{identity}/{partition_id}"


@lru_cache(maxsize=PINS_MAX)
def begun_batch(
    connection: Connection,
    options: WriteOptions,
    cluster_id: str,
    *,
    identity: str,
    topic: str,
    batch_id: int,
    attempt: str,
) -> Pin:
    """The pin of a query for a topic once this batch was begun; a process asks once for each attempt.

    `attempt`: of this one; the pin names the first of the batch. Raises BatchOutdated where a later batch was begun,
    TopicNotFound, NoRoute, and what the brokers refuse.
    """
    timeout_ms = options.request_timeout_ms
    calls = PipelineCalls(connection, timeout_ms=timeout_ms)
    route = run_blocking(connection.routes.refresh(topic, Blocking(connection.remoting), timeout_ms=timeout_ms))
    name = pin_name(identity, topic)
    text = calls.query_offsets(name)
    pin = None if text is None else parse_pin(topic, text)
    if pin is None or pin.batch < batch_id:
        fresh = _begin(pin, route, topic, reading(options, topic), cluster_id, batch_id, attempt)
        pin = parse_pin(topic, calls.keep_query_offsets(name, pin_text(fresh)))
    if pin.batch > batch_id:
        raise BatchOutdated(identity, batch_id, pin.batch)
    return pin


@lru_cache(maxsize=PINS_MAX)
def finished_batch(
    connection: Connection,
    name: str,
    *,
    identity: str,
    batch_id: int,
    attempt: str,  # noqa: ARG001  # another one asks anew
    timeout_ms: int,
) -> Finish:
    """Which batch of a query was written whole last, as it is when an attempt begins; a process asks once for each `attempt`.

    `name`: of `finish_name`. Raises BatchOutdated where that is a later one.
    """
    finish = parse_finish(name, PipelineCalls(connection, timeout_ms=timeout_ms).query_offsets(name))
    if finish.batch > batch_id:
        raise BatchOutdated(identity, batch_id, finish.batch)
    return finish


def finish_batch(
    connection: Connection,
    name: str,
    *,
    identity: str,
    batch_id: int,
    rows: int,
    timeout_ms: int,
) -> None:
    """A batch is written whole, and nothing new may come of it any more.

    `rows`: how many it has. Raises BatchChanged where another attempt finished the batch with fewer or more, BatchOutdated
    where a later batch is finished.
    """
    calls = PipelineCalls(connection, timeout_ms=timeout_ms)
    finish = parse_finish(name, calls.keep_query_offsets(name, finish_text(Finish(batch_id, rows))))
    if finish.batch > batch_id:
        raise BatchOutdated(identity, batch_id, finish.batch)
    if finish.rows != rows:
        raise BatchChanged(
            identity, batch_id, f"it was written whole with {finish.rows} rows, and {rows} were written now"
        )


def _begin(
    pin: Pin | None, route: TopicRoute, topic: str, options: ReadOptions, cluster_id: str, batch_id: int, attempt: str
) -> Pin:
    """The pin as it is when a batch begins: with the queues that it had, but for a topic that was made anew since."""
    positions = TopicPositions(options)
    positions.mean(cluster_id)
    held = positions.look(() if pin is None else tuple(map(queue_key, pin.queues)))
    lives = {} if pin is None else dict(pin.lives)
    is_anew = any(held.lives.get((topic, broker), life) != life for broker, life in lives.items())
    queues = shard_layout(route) if pin is None or is_anew else pin.queues
    if not queues:
        raise NoRoute(topic, "no queue takes messages")
    # A pin without a batch was written by an older version: what its batch wrote may lie anywhere.
    ends = held.minimum if pin is not None and pin.batch == NO_BATCH else held.end
    return begun(queues, batch_id, attempt, ends, held.lives)


def reading(options: WriteOptions, topic: str) -> ReadOptions:
    """How a topic is read where rows of it are compared."""
    given = {"subscribe": topic, "columns": "body,properties,flag", "requestTimeoutMs": str(options.request_timeout_ms)}
    parsed = ReadOptions.parse(given | ({"namesrv": options.namesrv} if options.namesrv else {})).for_batch()
    return replace(parsed, columns=(*parsed.columns, SYS_FLAG))


def record_digests(payload: bytes) -> bytes:
    """The digests of records that are to be sent, one behind the other."""
    return b"".join(
        row_digest(message.body, message.flag, message.properties.items()) for message in decode_batch(payload, "")
    )


def row_digest(body: bytes, flag: int, properties: Iterable[tuple[str, str]]) -> bytes:
    """DIGEST_BYTES that tell rows apart: of all that is written, but what names the attempt."""
    own = sorted((name, value) for name, value in properties if name not in _OF_ATTEMPTS)
    return hashlib.blake2b(f"{flag} {own!r} ".encode() + body, digest_size=DIGEST_BYTES).digest()


class WrittenRows:
    """Those of one batch of a query in one topic."""

    def __init__(self, options: ReadOptions, cluster_id: str, identity: str, batch_id: int, pin: Pin) -> None:
        self._options = options
        self._cluster_id = cluster_id
        self._identity = identity
        self._batch_id = batch_id
        self._lives = dict(pin.lives)
        self._next = dict(zip(pin.queues, pin.begins, strict=True))
        self._digests: dict[tuple[MessageQueue, int], bytearray] = {}
        self._positions = TopicPositions(options)
        self._positions.mean(cluster_id)
        self._lock = threading.Lock()

    def look(self) -> None:
        """Reads what came since it was read last. Raises BatchChanged where rows of the batch may be gone, and why they cannot
        be read."""
        with self._lock:
            held = self._positions.look(tuple(map(queue_key, self._next)))
            for queue, offset in self._next.items():
                life = self._lives.get(queue.broker_name, 0)
                if held.lives.get((queue.topic, queue.broker_name), life) != life:
                    reason = f"topic {queue.topic} was deleted and made again since it began"
                    raise BatchChanged(self._identity, self._batch_id, reason)
                behind = held.end.get(queue_key(queue), 0)
                if behind > offset:
                    self._read(queue, offset, behind)
                    self._next[queue] = behind

    def digests(self, queue: MessageQueue, partition_id: int) -> bytes:
        """Of the rows that a task has in a queue, in their order, DIGEST_BYTES each."""
        with self._lock:
            return bytes(self._digests.get((queue, partition_id), b""))

    def counts(self) -> dict[int, int]:
        """How many rows each task has in all queues."""
        counts: dict[int, int] = {}
        with self._lock:
            for (_, partition_id), digests in self._digests.items():
                counts[partition_id] = counts.get(partition_id, 0) + len(digests) // DIGEST_BYTES
        return counts

    def _read(self, queue: MessageQueue, begin: int, end: int) -> None:
        life = self._lives.get(queue.broker_name, 0)
        item = QueueRange(queue.topic, queue.broker_name, queue.queue_id, begin, end, life, self._cluster_id)
        try:
            for batch in read_range(self._options, item):
                self._add(queue, batch)
        except (DataLost, OffsetOutOfRange) as error:
            reason = f"it cannot be told which, messages that were stored since it began have expired ({error})"
            raise BatchChanged(self._identity, self._batch_id, reason) from error

    def _add(self, queue: MessageQueue, batch: pa.RecordBatch) -> None:
        """Takes the rows of the batch: records that say so, and of which the broker says that they are of a sequence."""
        is_sequenced = pc.not_equal(pc.bit_wise_and(batch.column(SYS_FLAG), SEQUENCED), 0)
        names = pc.map_lookup(batch.column("properties"), pa.scalar(SEQUENCE), "first")
        is_ours = pc.fill_null(pc.starts_with(names, producer_name(self._identity, 0)[:-1]), False)
        own = batch.filter(pc.and_(is_sequenced, is_ours))
        columns = (own.column(name).to_pylist() for name in ("body", "flag", "properties"))
        for body, flag, properties in zip(*columns, strict=True):
            found = _place(dict(properties)[SEQUENCE], self._identity)
            if found is None or found[1] != self._batch_id:
                continue
            partition_id, _, number = found
            digests = self._digests.setdefault((queue, partition_id), bytearray())
            if number * DIGEST_BYTES == len(digests):
                digests += row_digest(body, flag, properties)


def _place(sequence: str, identity: str) -> tuple[int, int, int] | None:
    """(task, batch, n-th row of the task in the queue) that a record says; None for one of another query."""
    name, _, digits = sequence.rpartition(":")
    who, _, partition = name.rpartition("/")
    if f"{who}/" != producer_name(identity, 0)[:-1] or not partition.isdigit():
        return None
    number = int(digits, 16)
    return int(partition), number >> BATCH_SHIFT, number & ((1 << BATCH_SHIFT) - 1)


@lru_cache(maxsize=BATCHES_MAX)
def written_rows(
    options: WriteOptions, topic: str, cluster_id: str, identity: str, batch_id: int, pin: Pin
) -> WrittenRows:
    """The process's."""
    return WrittenRows(reading(options, topic), cluster_id, identity, batch_id, pin)


def check_whole_batch(
    connection: Connection,
    options: WriteOptions,
    cluster_id: str,
    *,
    identity: str,
    batch_id: int,
    attempt: str,
    topics: Sequence[str] | None,
    written: Collection[str],
    rows: Mapping[int, int],
    came_again: bool,
) -> None:
    """A batch that came again is the one that was written: no task of an earlier attempt wrote more than its rows.

    `attempt`: this one; `topics`: where its rows are; None: in all that the query writes. `written`: those that tasks had rows
    for; `came_again`: they found that it did. `rows`: how many each task wrote or found written. Raises BatchChanged, and why
    it cannot be told.
    """
    calls = PipelineCalls(connection, timeout_ms=options.request_timeout_ms)
    if topics is None:
        topics = _begun_topics(calls, identity, batch_id)
    unseen = _pins_of(calls, identity, batch_id, [topic for topic in topics if topic not in written])
    if not came_again and all(pin.attempt == attempt for pin in unseen.values()):
        return
    ours = unseen | _pins_of(calls, identity, batch_id, [topic for topic in topics if topic in written])
    there: dict[int, int] = {}
    for topic, pin in ours.items():
        found = written_rows(options, topic, cluster_id, identity, batch_id, pin)
        found.look()
        for partition_id, count in found.counts().items():
            there[partition_id] = there.get(partition_id, 0) + count
    for partition_id, count in sorted(there.items()):
        if count > rows.get(partition_id, 0):
            reason = f"task {partition_id} has {count} rows in the topics, and {rows.get(partition_id, 0)} come now"
            raise BatchChanged(identity, batch_id, reason)


def _begun_topics(calls: PipelineCalls, identity: str, batch_id: int) -> list[str]:
    """The topics for which a query has begun this batch; a broker of an older version does not tell for which."""
    prefix, version = pin_name(identity, ""), batch_id + 1
    return [
        row["query"].removeprefix(prefix)
        for row in calls.queries()
        if row["query"].startswith(prefix) and row.get("version", version) == version
    ]


def _pins_of(calls: PipelineCalls, identity: str, batch_id: int, topics: Iterable[str]) -> dict[str, Pin]:
    """Those of a query for some topics, where they are of this batch."""
    texts = {topic: calls.query_offsets(pin_name(identity, topic)) for topic in topics}
    pins = {topic: parse_pin(topic, text) for topic, text in texts.items() if text is not None}
    return {topic: pin for topic, pin in pins.items() if pin.batch == batch_id}
