"""The committed offset of each group in each queue, as consumerOffset.json holds it. Pure.

Changed only from the log, like the topic table (see there). A reset begins an *era* of the group in its queues. A commit
names its era, and changes nothing if that is not the present one. So no commit undoes a reset.

Offsets in light queues are an exception: they are forgotten, by each replica for itself, where no message will ever have them.

The offsets of one (topic, group) are one small dict that is replaced at each commit, so that another thread may copy the
table while the loop continues.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...model.errors import StoreFormatError
from ...model.topics.light_queues import is_light_queue
from .topic_table import Document
from .unknown_events import unknown_event

COMMITTED: Final = "committed"
RESET: Final = "reset"
STARTED: Final = "started"
UNKNOWN: Final = -1  # no offset was ever committed
ANY_ERA: Final = -1  # the era of senders that name none

OFFSETS_TABLE: Final = "offsetTable"
LIGHT_GROUPS_TABLE: Final = (
    "lmqOffsetTable"  # RocketMQ's, of groups that have the name of a light queue: {pair: offset}
)
OWN_TABLES: Final = (OFFSETS_TABLE, "sinceTable", "eraTable", LIGHT_GROUPS_TABLE)
_NOTHING: Final[Mapping[int, int]] = {}

Row = tuple[str, int, int]
"""(topic, queue id, offset)."""
Progress = tuple[str, int, int, int]
"""(topic, queue id, offset, era)."""


class OffsetTable:
    """Consumer offsets: the next queue offset that a group is to consume, for each queue."""

    __slots__ = ("_eras", "_last_era", "_lights", "_lowered", "_rest", "_since_ms", "_table", "revision")

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Mapping[int, int]] = {}  # (topic, group) -> {queue id: offset}
        self._since_ms: dict[
            tuple[str, str], int
        ] = {}  # (topic, group) -> the group consumes messages stored from then on
        self._eras: dict[tuple[str, str], Mapping[int, int]] = {}  # (topic, group) -> {queue id: era} of those reset
        self._last_era = 0
        self._lights: OrderedDict[tuple[str, str], None] = OrderedDict()  # those in light queues
        self._rest: Document = {}
        self.revision = 0  # how often a group has begun in a topic or moved back
        self._lowered: dict[tuple[str, str], int] = {}  # (topic, group) -> the revision of the last time

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name not in OWN_TABLES}
        try:
            alone = {pair: {0: offset} for pair, offset in (document.get(LIGHT_GROUPS_TABLE) or {}).items()}
            for pair, offsets in {**(document.get(OFFSETS_TABLE) or {}), **alone}.items():
                topic, separator, group = pair.partition("@")
                if separator:
                    self._put(topic, group, {int(queue_id): int(offset) for queue_id, offset in offsets.items()})
            for pair, since_ms in (document.get("sinceTable") or {}).items():
                topic, _, group = pair.partition("@")
                self._since_ms[topic, group] = int(since_ms)
            for pair, eras in (document.get("eraTable") or {}).items():
                topic, _, group = pair.partition("@")
                self._note_eras(topic, group, {int(queue_id): int(era) for queue_id, era in eras.items()})
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError("consumerOffset.json", f"{', '.join(OWN_TABLES)}: {error}") from error

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        offsets = {
            f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in sorted(queues.items())}
            for (topic, group), queues in self._table.copy().items()
        }
        since = {f"{topic}@{group}": at_ms for (topic, group), at_ms in self._since_ms.copy().items()}
        eras = {
            f"{topic}@{group}": {str(queue_id): era for queue_id, era in sorted(queues.items())}
            for (topic, group), queues in self._eras.copy().items()
        }
        return {**self._rest, OFFSETS_TABLE: offsets, "sinceTable": since, "eraTable": eras}

    @staticmethod
    def event_committed(group: str, progress: Sequence[Progress], *, forward_only: bool = False) -> Document:
        """The event that sets a group's offsets, if their era is the queue's and, with `forward_only`, they are higher."""
        return {"event": COMMITTED, "group": group, "offsets": progress, "forwardOnly": forward_only}

    def event_reset(self, group: str, offsets: Sequence[Row], now_ms: int) -> tuple[Document, int]:
        """The event that moves a group to these offsets, and the era that begins with it: higher than any before, and
        than one that a former master may have begun and lost.
        """
        self._last_era = max(self._last_era + 1, now_ms)
        rows = [(*row, self._last_era) for row in offsets]
        return {"event": RESET, "group": group, "offsets": rows}, self._last_era

    @staticmethod
    def event_started(group: str, topic: str, offsets: Sequence[int], since_ms: int) -> Document:
        """The event that records where a group begins: an offset for each queue of the topic.

        The first one counts: later ones, and one after a commit, change nothing. So two members may both stage it.
        """
        rows = [(topic, queue_id, offset) for queue_id, offset in enumerate(offsets)]
        return {"event": STARTED, "group": group, "topic": topic, "offsets": rows, "sinceMs": since_ms}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        kind, (group, rows) = event.get("event"), offsets_of(event)
        self._rest = {**self._rest, "dataVersion": version}
        if kind == STARTED:
            self._on_started(group, str(event.get("topic")), event.get("sinceMs"), rows)
            return
        for topic, queue_id, offset, era in rows:
            if kind == RESET:
                self._note_eras(topic, group, {queue_id: era})
                self._set(topic, group, queue_id, offset)
            elif self.is_of(group, topic, queue_id, era) and not (
                event.get("forwardOnly") and offset <= self.offset(group, topic, queue_id)
            ):
                self._set(topic, group, queue_id, offset)

    def _set(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        before = self._table.get((topic, group))
        if before is None or offset < before.get(queue_id, 0):
            self._note_lowered(topic, group)
        self._put(topic, group, {**(before or _NOTHING), queue_id: offset})

    def _put(self, topic: str, group: str, offsets: Mapping[int, int]) -> None:
        if (topic, group) not in self._table and is_light_queue(topic):
            self._lights[topic, group] = None
        self._table[topic, group] = offsets

    def _note_eras(self, topic: str, group: str, eras: Mapping[int, int]) -> None:
        self._eras[topic, group] = {**self._eras.get((topic, group), _NOTHING), **eras}
        self._last_era = max((self._last_era, *eras.values()))

    def _on_started(self, group: str, topic: str, since_ms: object, rows: list[Progress]) -> None:
        if not isinstance(since_ms, int):
            raise StoreFormatError("offset events", f"a start of group {group[:128]} without its time")
        if (topic, group) not in self._table:
            self._table[topic, group] = {queue_id: offset for _, queue_id, offset, _ in rows}
            self._since_ms[topic, group] = since_ms
            self._note_lowered(topic, group)

    def _note_lowered(self, topic: str, group: str) -> None:
        self.revision += 1
        self._lowered[topic, group] = self.revision

    def on_topic_made(self, topic: str) -> None:
        """A topic was created: groups with offsets in it have yet to consume it."""
        for group in self.groups_in(topic):
            self._note_lowered(topic, group)

    def on_topic_deleted(self, topic: str) -> None:
        """Deletes the offsets of all groups in a topic."""
        self._forget([pair for pair in self._table if pair[0] == topic])

    def on_group_deleted(self, group: str) -> None:
        """Deletes a group's offsets."""
        self._forget([pair for pair in self._table if pair[1] == group])

    def _forget(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            del self._table[pair]
            self._since_ms.pop(pair, None)
            self._eras.pop(pair, None)
            self._lowered.pop(pair, None)
            self._lights.pop(pair, None)

    def forget_lights(self, count: int, is_gone: Callable[[str, int], bool]) -> None:
        """Looks at the next `count` pairs of a light queue and a group. `is_gone(name, offset)`: the queue is not there, and
        made anew it would begin no lower."""
        for _ in range(min(count, len(self._lights))):
            pair = next(iter(self._lights))
            self._lights.move_to_end(pair)
            if is_gone(pair[0], max(self._table[pair].values())):
                self._forget([pair])

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, or UNKNOWN."""
        return self._table.get((topic, group), _NOTHING).get(queue_id, UNKNOWN)

    def era(self, group: str, topic: str, queue_id: int) -> int:
        """The era of the group in the queue; 0 = there was no reset."""
        return self._eras.get((topic, group), _NOTHING).get(queue_id, 0)

    def is_of(self, group: str, topic: str, queue_id: int, era: int) -> bool:
        """True if a commit of that era counts."""
        return era in (ANY_ERA, self.era(group, topic, queue_id))

    def has_begun(self, group: str, topic: str) -> bool:
        """True if the group has committed in any queue of the topic."""
        return bool(self._table.get((topic, group)))

    def committed(self, group: str) -> list[tuple[str, int, int]]:
        """All offsets that a group has committed: [(topic, queue id, offset)], sorted."""
        return sorted(
            (topic, queue_id, offset)
            for (topic, name), offsets in self._table.items()
            if name == group
            for queue_id, offset in offsets.items()
        )

    def since_ms(self, group: str, topic: str) -> int:
        """The group consumes messages stored from this time on; 0 = all, or unknown; -1 = it has not begun."""
        return self._since_ms.get((topic, group), 0) if (topic, group) in self._table else -1

    def topics_of(self, group: str) -> list[str]:
        """Topics in which a group has committed; sorted."""
        return sorted(topic for topic, name in self._table if name == group)

    def groups(self) -> set[str]:
        """Groups that have committed anything."""
        return {group for _, group in self._table}

    def groups_in(self, topic: str) -> list[str]:
        """Groups that have committed in a topic."""
        return [group for name, group in self._table if name == topic]

    def in_topic(self, topic: str, group: str) -> Mapping[int, int] | None:
        """{queue id: committed offset}; None if the group has committed nothing there."""
        return self._table.get((topic, group))

    def pairs_since(self, revision: int | None) -> list[tuple[str, str]]:
        """All (topic, group), or those that began or moved back after a revision."""
        if revision is None:
            return list(self._table)
        return [pair for pair, lowered in self._lowered.items() if lowered > revision]


def offsets_of(event: Mapping[str, Any]) -> tuple[str, list[Progress]]:
    """The group that an event of the log is about, and its offsets. Raises StoreFormatError."""
    kind, group, offsets = event.get("event"), event.get("group"), event.get("offsets")
    if kind not in (COMMITTED, RESET, STARTED) or not isinstance(group, str) or not isinstance(offsets, list):
        raise unknown_event("offset", event)
    return group, _rows(offsets)


def _rows(offsets: list[Any]) -> list[Progress]:
    """The offsets of an event; a row without an era counts in any. Raises StoreFormatError."""
    rows: list[Progress] = []
    for row in offsets:
        match row:
            case [str(topic), int(queue_id), int(offset)]:
                rows.append((topic, queue_id, offset, ANY_ERA))
            case [str(topic), int(queue_id), int(offset), int(era)]:
                rows.append((topic, queue_id, offset, era))
            case _:
                raise StoreFormatError("offset events", f"no offset of a queue: {str(row)[:200]}")
    return rows
