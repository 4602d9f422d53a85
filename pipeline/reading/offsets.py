"""Offsets of many queues at once: ranges, their limits and their splits. Pure.

A range is `[start, end)`: the end of one batch is the start of the next. As JSON: {"topic": {"broker": {"0": 17}}}, keys
sorted (queues by number), integers only, so that equal offsets are equal texts. A broker's queues may have an entry
"incarnation" beside them: the topic's incarnation at that broker, which changes if the topic is deleted and created again.
The topics may have an entry "@cluster" beside them: the id of the cluster that the offsets belong to; no topic can have
such a name.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...model.cluster_id import check_cluster_id
from ...model.errors import InvalidParameter, OffsetsBackwards

QUEUES_MAX: Final = 100_000
PARTITIONS_MAX: Final = 100_000
JSON_LENGTH_MAX: Final = 16 * 1024 * 1024
OFFSET_MAX: Final = (1 << 63) - 1
EARLIEST_MARK: Final = -2  # in a user's offsets, as in Kafka's source
LATEST_MARK: Final = -1
INCARNATION: Final = "incarnation"
CLUSTER: Final = "@cluster"
_SHAPE: Final = 'JSON of the shape {"topic": {"broker": {"0": 17}}}'


@dataclass(frozen=True, slots=True, order=True)
class QueueKey:
    """A queue, with the names of its columns."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"


Offsets = dict[QueueKey, int]
Lives = dict[tuple[str, str], int]
"""{(topic, broker): the topic's incarnation there}; a missing one is not known."""
NO_LIVES: Final[Mapping[tuple[str, str], int]] = {}
OffsetsDocument = dict[str, Any]
"""{topic: {broker: {queue: offset}}}, with the other entries."""


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """The messages [start, end) of one queue: what one task reads. Raises OffsetsBackwards if start is beyond end.

    `incarnation`: of the topic, 0 = not known; `cluster_id`: of the cluster, "" = not known.
    """

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int
    incarnation: int = 0
    cluster_id: str = ""

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise OffsetsBackwards(str(self.key), self.start, self.end)

    @property
    def key(self) -> QueueKey:
        """The queue."""
        return QueueKey(self.topic, self.broker, self.queue_id)

    @property
    def rows(self) -> int:
        """The number of offsets in it."""
        return self.end - self.start


# ---- JSON


def parse_offsets(name: str, text: str, *, lowest: int = 0) -> Offsets:
    """The offsets in a text. `name`: the option, for the error. Raises InvalidParameter."""
    return offsets_of(_document(name, text), name=name, lowest=lowest)


def parse_lives(name: str, text: str) -> Lives:
    """The incarnations of topics in a text of offsets. Raises InvalidParameter."""
    return lives_of(_document(name, text), name=name)


def _document(name: str, text: str) -> object:
    if len(text) > JSON_LENGTH_MAX:
        raise InvalidParameter(name, f"{len(text)} characters", f"at most {JSON_LENGTH_MAX}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter(name, text[:200], _SHAPE) from None


def offsets_of(document: object, *, name: str = "offsets", lowest: int = 0) -> Offsets:
    """The offsets of a decoded document. Raises InvalidParameter for any other shape, and below `lowest`."""
    offsets: Offsets = {}
    for topic, brokers in _topics(document, name):
        for broker, queues in _items(brokers, name):
            for queue_id, offset in _items(queues, name):
                if queue_id == INCARNATION:
                    continue
                if not (queue_id.isascii() and queue_id.isdecimal() and len(queue_id) <= 9):
                    raise InvalidParameter(name, queue_id[:64], "a queue's number, as text")
                if type(offset) is not int or not lowest <= offset <= OFFSET_MAX:
                    raise InvalidParameter(name, str(offset)[:64], f"a whole number from {lowest} on")
                offsets[QueueKey(topic, broker, int(queue_id))] = offset
                if len(offsets) > QUEUES_MAX:
                    raise InvalidParameter(name, f"more than {QUEUES_MAX} queues", f"at most {QUEUES_MAX}")
    return offsets


def lives_of(document: object, *, name: str = "offsets") -> Lives:
    """The incarnations of topics in a decoded document of offsets. Raises InvalidParameter."""
    lives: Lives = {}
    for topic, brokers in _topics(document, name):
        for broker, queues in _items(brokers, name):
            life = dict(_items(queues, name)).get(INCARNATION, 0)
            if type(life) is not int or not 0 <= life <= OFFSET_MAX:
                raise InvalidParameter(name, str(life)[:64], "a whole number from 0 on")
            if life:
                lives[topic, broker] = life
    return lives


def cluster_of(document: object, *, name: str = "offsets") -> str:
    """The id of the cluster in a decoded document of offsets; "" if it names none. Raises InvalidParameter."""
    cluster_id = dict(_items(document, name)).get(CLUSTER, "")
    if type(cluster_id) is not str:
        raise InvalidParameter(name, str(cluster_id)[:64], f"a cluster's id beside {CLUSTER}")
    return check_cluster_id(cluster_id)


def document_of(
    offsets: Mapping[QueueKey, int], lives: Mapping[tuple[str, str], int] = NO_LIVES, cluster_id: str = ""
) -> OffsetsDocument:
    """The document of offsets, in its canonical order."""
    document: OffsetsDocument = {}
    for key in sorted(offsets):
        document.setdefault(key.topic, {}).setdefault(key.broker, {})[str(key.queue_id)] = offsets[key]
    for topic, brokers in document.items():
        for broker, queues in brokers.items():
            if (topic, broker) in lives:
                queues[INCARNATION] = lives[topic, broker]
    if cluster_id:
        document[CLUSTER] = cluster_id
    return document


def offsets_json(offsets: Mapping[QueueKey, int], lives: Mapping[tuple[str, str], int] = NO_LIVES) -> str:
    """The text of offsets."""
    return json.dumps(document_of(offsets, lives))


def _topics(document: object, name: str) -> Iterable[tuple[str, object]]:
    return (item for item in _items(document, name) if item[0] != CLUSTER)


def _items(document: object, name: str) -> Iterable[tuple[str, object]]:
    if not isinstance(document, dict):
        raise InvalidParameter(name, str(document)[:200], _SHAPE)
    return document.items()


# ---- ranges


def row_count(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> int:
    """How many messages are between; a queue that is not in `start` begins with its first message."""
    return sum(max(0, offset - start.get(key, 0)) for key, offset in end.items())


def ranges_between(
    start: Mapping[QueueKey, int],
    end: Mapping[QueueKey, int],
    lives: Mapping[tuple[str, str], int] = NO_LIVES,
    cluster_id: str = "",
) -> list[QueueRange]:
    """What is to be read, by queue, without queues that have nothing new. A queue not in `start` begins with its first
    message.

    Raises OffsetsBackwards if a start is beyond its end: rows would be left out silently.
    """
    found = [
        QueueRange(
            *(key.topic, key.broker, key.queue_id, start.get(key, 0), end[key]),
            incarnation=lives.get((key.topic, key.broker), 0),
            cluster_id=cluster_id,
        )
        for key in sorted(end)
    ]
    return [item for item in found if item.rows]


def within_rows(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int], rows_max: int) -> Offsets:
    """The end, reduced to about `rows_max` rows in all, in proportion to what each queue has.

    Every queue that has rows gets at least one, so that none starves; only for this the sum may exceed `rows_max`.
    """
    return within_bytes(start, end, rows_max, dict.fromkeys(end, 1))


def within_bytes(
    start: Mapping[QueueKey, int],
    end: Mapping[QueueKey, int],
    bytes_max: int,
    row_bytes: Mapping[QueueKey, int],
) -> Offsets:
    """The same for bytes. `row_bytes`: the assumed size of a row of each queue, at least 1."""
    rows = {key: end[key] - start.get(key, 0) for key in sorted(end) if end[key] > start.get(key, 0)}
    if sum(count * row_bytes[key] for key, count in rows.items()) <= bytes_max:
        return dict(end)
    room = max(0, bytes_max - sum(row_bytes[key] for key in rows))  # beyond one row of each queue
    beyond = {key: (count - 1) * row_bytes[key] for key, count in rows.items()}
    total = max(1, sum(beyond.values()))
    shares = {key: 1 + size * room // total // row_bytes[key] for key, size in beyond.items()}
    left = bytes_max - sum(count * row_bytes[key] for key, count in shares.items())
    for key in sorted(rows, key=lambda key: (-(beyond[key] * room % (total * row_bytes[key])), key)):
        if left >= row_bytes[key] and shares[key] < rows[key]:
            shares[key] += 1
            left -= row_bytes[key]
    return {key: start.get(key, 0) + shares[key] if key in shares else offset for key, offset in end.items()}


def split_ranges(ranges: Iterable[QueueRange], *, partitions_min: int = 0, rows_max: int = 0) -> list[QueueRange]:
    """The same messages in more ranges: each of at most `rows_max` (0 = any number), and at least `partitions_min` of them
    if there are so many messages. The longest are cut first, each into equal parts. In order.

    Raises InvalidParameter if there would be more than PARTITIONS_MAX.
    """
    whole = sorted(ranges)
    parts = [max(1, -(-item.rows // rows_max)) if rows_max else 1 for item in whole]
    if sum(parts) > PARTITIONS_MAX:
        raise InvalidParameter("maxRecordsPerPartition", rows_max, f"enough for at most {PARTITIONS_MAX} partitions")
    longest = [(-item.rows / count, index) for index, (item, count) in enumerate(zip(whole, parts, strict=True))]
    heapq.heapify(longest)
    for _ in range(partitions_min - sum(parts)):
        if not longest or longest[0][0] >= -1:
            break  # one message each
        index = longest[0][1]
        parts[index] += 1
        heapq.heapreplace(longest, (-whole[index].rows / parts[index], index))
    return [piece for item, count in zip(whole, parts, strict=True) for piece in _pieces(item, count)]


def _pieces(item: QueueRange, count: int) -> Iterable[QueueRange]:
    cuts = [item.start + item.rows * number // count for number in range(count + 1)]
    for start, end in itertools.pairwise(cuts):
        yield replace(item, start=start, end=end)
