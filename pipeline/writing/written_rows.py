"""Reads back the rows of a batch written with delivery=dedup, to compare a repeated batch with them.

The pin of the query says from where on there may be rows of its batch (batch_pins). The property PSEQ of each row says
which task wrote it, and its index among the task's rows in its queue. A digest of each row is kept. A process that runs
several tasks of a batch reads each queue once, and later only new messages. Any thread.
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

BATCH_SHIFT: Final = 32  # a sequence is (batch id << 32) + index of the task's row in the queue
DIGEST_BYTES: Final = 8
BATCHES_MAX: Final = 8  # whose rows a process remembers
PINS_MAX: Final = 256

_OF_ATTEMPTS: Final = (SEQUENCE, UNIQUE_KEY)  # properties in which two attempts at one row differ


def producer_name(identity: str, partition_id: int) -> str:
    """The producer name of a task of a query."""
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
    """The pin of a query for a topic after this batch was begun; a process asks once per attempt.

    `attempt`: this one; the pin names the first of the batch. Raises BatchOutdated if a later batch was begun,
    TopicNotFound, NoRoute, and errors of the brokers.
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
    attempt: str,  # noqa: ARG001  # part of the cache key: another attempt asks again
    timeout_ms: int,
) -> Finish:
    """Which batch of a query was completely written last, at the begin of an attempt; a process asks once per `attempt`.

    `name`: of `finish_name`. Raises BatchOutdated if that is a later one.
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
    """Stores that a batch is completely written, so that no new rows of it are accepted.

    `rows`: its number of rows. Raises BatchChanged if another attempt finished the batch with fewer or more, BatchOutdated
    if a later batch is finished.
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
    """The pin at the begin of a batch: with the old pin's queues, unless the topic was recreated since."""
    positions = TopicPositions(options)
    positions.mean(cluster_id)
    held = positions.look(() if pin is None else tuple(map(queue_key, pin.queues)))
    lives = {} if pin is None else dict(pin.lives)
    is_anew = any(held.lives.get((topic, broker), life) != life for broker, life in lives.items())
    queues = shard_layout(route) if pin is None or is_anew else pin.queues
    if not queues:
        raise NoRoute(topic, "no queue takes messages")
    # A pin without a batch is from an older version: rows of its batch may be anywhere.
    ends = held.minimum if pin is not None and pin.batch == NO_BATCH else held.end
    return begun(queues, batch_id, attempt, ends, held.lives)


def reading(options: WriteOptions, topic: str) -> ReadOptions:
    """The options for reading a topic to compare its rows."""
    given = {"subscribe": topic, "columns": "body,properties,flag", "requestTimeoutMs": str(options.request_timeout_ms)}
    there = {name: text for name, text in (("namesrv", options.namesrv), ("key", options.key)) if text}
    parsed = ReadOptions.parse(given | there).for_batch()
    return replace(parsed, columns=(*parsed.columns, SYS_FLAG))


def record_digests(payload: bytes) -> bytes:
    """The digests of records that are to be sent, concatenated."""
    return b"".join(
        row_digest(message.body, message.flag, message.properties.items()) for message in decode_batch(payload, "")
    )


def row_digest(body: bytes, flag: int, properties: Iterable[tuple[str, str]]) -> bytes:
    """DIGEST_BYTES that identify a row: of all its content, without what names the attempt."""
    own = sorted((name, value) for name, value in properties if name not in _OF_ATTEMPTS)
    return hashlib.blake2b(f"{flag} {own!r} ".encode() + body, digest_size=DIGEST_BYTES).digest()


class WrittenRows:
    """The stored rows of one batch of a query in one topic."""

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
        """Reads what came since the last call. Raises BatchChanged if rows of the batch may be gone, and errors of reading."""
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
        """The digests of a task's rows in a queue, in order, DIGEST_BYTES each."""
        with self._lock:
            return bytes(self._digests.get((queue, partition_id), b""))

    def counts(self) -> dict[int, int]:
        """The number of rows of each task in all queues."""
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
        """Takes the rows of the batch: records whose PSEQ says so, and which the broker has marked as sequenced."""
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
    """(task, batch, index of the task's row in the queue) in a record's sequence; None for one of another query."""
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
    """The object of this process."""
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
    """Checks that a repeated batch is the one that was written: no task of an earlier attempt wrote more rows.

    `attempt`: this one; `topics`: of its rows; None: all that the query writes. `written`: topics for which tasks had rows;
    `came_again`: tasks found rows stored before. `rows`: how many each task wrote or found written. Raises BatchChanged,
    and errors of requests.
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
    """The topics for which a query has begun this batch; brokers of an older version do not report versions, so all of
    theirs.
    """
    prefix, version = pin_name(identity, ""), batch_id + 1
    return [
        row["query"].removeprefix(prefix)
        for row in calls.queries()
        if row["query"].startswith(prefix) and row.get("version", version) == version
    ]


def _pins_of(calls: PipelineCalls, identity: str, batch_id: int, topics: Iterable[str]) -> dict[str, Pin]:
    """The pins of a query for some topics, if they are of this batch."""
    texts = {topic: calls.query_offsets(pin_name(identity, topic)) for topic in topics}
    pins = {topic: parse_pin(topic, text) for topic, text in texts.items() if text is not None}
    return {topic: pin for topic, pin in pins.items() if pin.batch == batch_id}
