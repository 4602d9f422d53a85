"""The plan of a replay: what it sends, in which chunks, and its progress. Pure.

A chunk takes the next few offsets of each queue, so that all queues advance together, as they once did. The content of
chunk n follows only from the ranges and from `share`, which are fixed when the replay begins. So a chunk that is sent again
is identical, and the broker recognizes it by the sink's identity of it: (replay, chunk).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any, Final

from ....model.errors import ArchiveDamaged, ReplayChanged, ReplayElsewhere
from ...reading.offsets import QueueKey, QueueRange
from .spans import Spans, count, union

VERSION: Final = 1
STATE_BYTES_MAX: Final = 64 << 20
RANGES_MAX: Final = 1_000_000
CHUNK_ROWS: Final = 500_000
CHUNK_SECONDS: Final = 5  # of a chunk, if a rate is given
PARTITIONS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay: what it sends, and its progress.

    `identity`: its name for the sink; `digest`: of its options; `share`: how many offsets of one queue a chunk has;
    `next_chunk`: the first chunk that is not sent; `sent`: rows of the chunks before; `cluster_id`: of the cluster that
    they were sent to, "" = not known.
    """

    identity: str
    digest: str
    ranges: tuple[QueueRange, ...]
    share: int
    partitions: int
    next_chunk: int = 0
    sent: int = 0
    cluster_id: str = ""

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return max((-(-count(spans) // self.share) for spans in self._queues().values()), default=0)

    @property
    def rows(self) -> int:
        """All offsets of the ranges, also those whose messages a filter drops."""
        return sum(each.rows for each in self.ranges)

    @property
    def left(self) -> int:
        """Offsets of the chunks that are not sent yet."""
        taken = self.next_chunk * self.share
        return sum(max(0, count(spans) - taken) for spans in self._queues().values())

    def chunk(self, number: int) -> list[QueueRange]:
        """The ranges of chunk `number`, in the order of the queues."""
        lives = {each.key: each.incarnation for each in self.ranges}
        return [
            QueueRange(key.topic, key.broker, key.queue_id, begin, end, lives[key])
            for key, spans in self._queues().items()
            for begin, end in part(spans, number * self.share, self.share)
        ]

    def check(self, name: str, path: str, *, digest: str, cluster_id: str) -> None:
        """Checks that this replay has these options and this cluster. Raises ReplayChanged, ReplayElsewhere."""
        if self.digest != digest:
            raise ReplayChanged(name, path)
        if self.cluster_id and cluster_id and self.cluster_id != cluster_id:
            raise ReplayElsewhere(name, path, self.cluster_id, cluster_id)

    def done(self, rows: int) -> Replay:
        """The replay after its next chunk, of `rows` rows, is sent."""
        return replace(self, next_chunk=self.next_chunk + 1, sent=self.sent + rows)

    def _queues(self) -> dict[QueueKey, Spans]:
        found: dict[QueueKey, list[tuple[int, int]]] = {}
        for each in sorted(self.ranges):
            found.setdefault(each.key, []).append((each.start, each.end))
        return {key: union(spans) for key, spans in found.items()}


def part(spans: Spans, first: int, length: int) -> Spans:
    """`length` offsets of a set, from the `first`-th on; fewer if the set ends before."""
    found = []
    for begin, end in spans:
        if first < end - begin and length > 0:
            taken = min(length, end - begin - first)
            found.append((begin + first, begin + first + taken))
            length -= taken
            first = 0
        else:
            first = max(0, first - (end - begin))
    return tuple(found)


def new_replay(
    identity: str, digest: str, ranges: Iterable[QueueRange], *, rows_per_second: float, cluster_id: str = ""
) -> Replay:
    """A replay that has sent nothing. `rows_per_second`: 0 = no limit."""
    listed = tuple(sorted(each for each in ranges if each.rows))
    queues = len({each.key for each in listed}) or 1
    chunk_rows = min(CHUNK_ROWS, int(rows_per_second * CHUNK_SECONDS)) if rows_per_second else CHUNK_ROWS
    share, partitions = max(1, chunk_rows // queues), min(PARTITIONS_MAX, queues)
    return Replay(identity, digest, listed, share, partitions, cluster_id=cluster_id)


def digest_of(options: Mapping[str, Any]) -> str:
    """32 hexadecimal digits for the options of a replay."""
    return sha256(json.dumps(options, sort_keys=True, default=list).encode()).hexdigest()[:32]


def encode_replay(state: Replay) -> bytes:
    """Encodes a replay's state."""
    document = asdict(state) | {
        "version": VERSION,
        "ranges": [
            [each.topic, each.broker, each.queue_id, each.start, each.end, each.incarnation] for each in state.ranges
        ],
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def decode_replay(data: bytes, path: str) -> Replay:
    """Decodes the state from a file's bytes. Raises ArchiveDamaged."""
    if len(data) > STATE_BYTES_MAX:
        raise ArchiveDamaged(path, f"more than {STATE_BYTES_MAX} bytes")
    try:
        document = json.loads(data)
        if document.pop("version") != VERSION:
            raise ValueError
        ranges = document.pop("ranges")
        state = Replay(ranges=tuple(_range(each) for each in _bounded(ranges)), **document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ArchiveDamaged(path, "it holds no replay of this version") from None
    numbers = (state.share, state.partitions, state.next_chunk, state.sent)
    texts = (state.identity, state.digest, state.cluster_id)
    if not all(type(number) is int and number >= 0 for number in numbers) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ArchiveDamaged(path, "it holds no replay of this version")
    if not state.share or not state.partitions:
        raise ArchiveDamaged(path, "it holds no replay of this version")
    return state


def _bounded(ranges: Sequence[Any]) -> Sequence[Any]:
    if not isinstance(ranges, list) or len(ranges) > RANGES_MAX:
        raise ValueError
    return ranges


def _range(value: Any) -> QueueRange:
    topic, broker, queue_id, start, end, *life = value  # older versions have no incarnation here
    if not (isinstance(topic, str) and isinstance(broker, str)) or len(life) > 1:
        raise ValueError
    if not all(type(number) is int and number >= 0 for number in (queue_id, start, end, *life)) or start > end:
        raise ValueError
    return QueueRange(topic, broker, queue_id, start, end, *life)
