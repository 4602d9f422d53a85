"""How far each group has consumed each queue, as consumerOffset.json holds it.

Changed only from the log, as the topic table is (see there). The offsets of one (topic, group) are one small dict that
is replaced at each commit, so that another thread may copy the table while the loop goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..model.errors import StoreFormatError
from ..model.names import is_system_topic
from ..model.route import TopicConfig
from .topic_table import Document

COMMITTED: Final = "committed"
STARTED: Final = "started"
UNKNOWN: Final = -1  # no offset was ever committed

_NOTHING: Final[Mapping[int, int]] = {}


class OffsetTable:
    """Consumer offsets: the next queue offset that a group is to consume, of each queue."""

    __slots__ = ("_rest", "_since_ms", "_table")

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Mapping[int, int]] = {}  # (topic, group) -> {queue id: offset}
        self._since_ms: dict[tuple[str, str], int] = {}  # (topic, group) -> what it consumes was stored from then on
        self._rest: Document = {}

    def load(self, document: Mapping[str, Any]) -> None:
        """Takes what a snapshot holds. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name not in ("offsetTable", "sinceTable")}
        try:
            for pair, offsets in (document.get("offsetTable") or {}).items():
                topic, separator, group = pair.partition("@")
                if separator:
                    self._table[topic, group] = {int(queue_id): int(offset) for queue_id, offset in offsets.items()}
            for pair, since_ms in (document.get("sinceTable") or {}).items():
                topic, _, group = pair.partition("@")
                self._since_ms[topic, group] = int(since_ms)
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreFormatError("consumerOffset.json", f"offsetTable, sinceTable: {error}") from error

    def document(self) -> Document:
        """What the snapshot is to hold. Any thread."""
        offsets = {
            f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in sorted(queues.items())}
            for (topic, group), queues in self._table.copy().items()
        }
        since = {f"{topic}@{group}": at_ms for (topic, group), at_ms in self._since_ms.copy().items()}
        return {**self._rest, "offsetTable": offsets, "sinceTable": since}

    @staticmethod
    def event_committed(group: str, offsets: Sequence[tuple[str, int, int]]) -> Document:
        """The event that sets a group's offsets: ((topic, queue id, offset), ...)."""
        return {"event": COMMITTED, "group": group, "offsets": offsets}

    @staticmethod
    def event_started(group: str, topic: str, offsets: Sequence[int], since_ms: int) -> Document:
        """The event that says where a group begins: an offset for each queue of the topic.

        The first one counts: later ones, and one after a commit, change nothing, so two members may both stage it.
        """
        rows = [(topic, queue_id, offset) for queue_id, offset in enumerate(offsets)]
        return {"event": STARTED, "group": group, "topic": topic, "offsets": rows, "sinceMs": since_ms}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        kind, group, offsets = event.get("event"), event.get("group"), event.get("offsets")
        if kind not in (COMMITTED, STARTED) or not isinstance(group, str) or not isinstance(offsets, list):
            raise StoreFormatError("offset events", f"unknown event {str(event)[:200]}")
        self._rest = {**self._rest, "dataVersion": version}
        if kind == STARTED:
            self._on_started(group, str(event.get("topic")), event.get("sinceMs"), offsets)
            return
        for topic, queue_id, offset in offsets:
            self._table[topic, group] = {**self._table.get((topic, group), _NOTHING), queue_id: offset}

    def _on_started(self, group: str, topic: str, since_ms: object, offsets: list[Any]) -> None:
        if not isinstance(since_ms, int):
            raise StoreFormatError("offset events", f"a start of group {group[:128]} without its time")
        if (topic, group) not in self._table:
            self._table[topic, group] = {queue_id: offset for _, queue_id, offset in offsets}
            self._since_ms[topic, group] = since_ms

    def on_topic_deleted(self, topic: str) -> None:
        """Forgets the offsets of all groups in a topic."""
        self._forget([pair for pair in self._table if pair[0] == topic])

    def on_group_deleted(self, group: str) -> None:
        """Forgets a group's offsets."""
        self._forget([pair for pair in self._table if pair[1] == group])

    def _forget(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            del self._table[pair]
            self._since_ms.pop(pair, None)

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, or UNKNOWN."""
        return self._table.get((topic, group), _NOTHING).get(queue_id, UNKNOWN)

    def has_begun(self, group: str, topic: str) -> bool:
        """Whether the group has committed in any queue of the topic."""
        return bool(self._table.get((topic, group)))

    def committed(self, group: str) -> list[tuple[str, int, int]]:
        """All that a group has committed: [(topic, queue id, offset)], sorted."""
        return sorted(
            (topic, queue_id, offset)
            for (topic, name), offsets in self._table.items()
            if name == group
            for queue_id, offset in offsets.items()
        )

    def since_ms(self, group: str, topic: str) -> int:
        """From when on the group consumes what was stored; 0 = all there is, or nobody knows; -1 = it has not begun."""
        return self._since_ms.get((topic, group), 0) if (topic, group) in self._table else -1

    def topics_of(self, group: str) -> list[str]:
        """Topics in which a group has committed; sorted."""
        return sorted(topic for topic, name in self._table if name == group)

    def groups(self) -> set[str]:
        """Groups that have committed anything."""
        return {group for _, group in self._table}

    def unconsumed_from(self, topics: Mapping[str, TopicConfig]) -> dict[tuple[str, int], int]:
        """The first offset of each (topic, queue) that some group has yet to consume.

        A group that has committed in a topic has yet to consume all of that topic's other queues. Topics of the system
        are left out: what reads them keeps books of its own.
        """
        first: dict[tuple[str, int], int] = {}
        for (topic, _), offsets in self._table.items():
            config = topics.get(topic)
            if config is None or is_system_topic(topic):
                continue
            for queue_id in range(config.read_queues):
                offset = offsets.get(queue_id, 0)
                first[topic, queue_id] = min(offset, first.get((topic, queue_id), offset))
        return first
