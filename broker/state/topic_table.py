"""The topics of one broker: their settings, as topics.json holds them. Pure.

State is derived from the log: only `on_event`, called for records of the topics' state topic, changes the table. The
loop thread owns it. Another thread may call `document`, since values are replaced, never changed in place.
RocketMQ's own topics.json can be loaded; fields that we do not use are kept and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...model.errors import InvalidParameter, StoreFormatError, TopicMadeAnew
from ...model.names import is_routed_topic
from ...model.route import (
    BATCHED,
    BATCHED_TYPES,
    CLEANUP_ATTRIBUTE,
    COMPACTED_TYPES,
    PERMISSION_READ,
    PERMISSION_READ_WRITE,
    PERMISSION_WRITE,
    QUEUE_TYPE_ATTRIBUTE,
    QUEUE_TYPES,
    TYPE_ATTRIBUTE,
    TopicConfig,
)
from ...model.topics.lite_settings import EXPIRATION, LITE, is_lite_parent
from .unknown_events import unknown_event

Document = dict[str, Any]

SET: Final = "set"
DELETED: Final = "deleted"
COLLECTED: Final = "collected"
INCARNATION: Final = "incarnation"  # our own fields; RocketMQ ignores what it does not know
MADE_AT: Final = "madeAt"  # ours too
PERMISSIONS: Final = (PERMISSION_WRITE, PERMISSION_READ, PERMISSION_READ_WRITE)


def topic_document(config: TopicConfig, base: Mapping[str, Any] | None = None) -> Document:
    """A topic in RocketMQ's shape, over `base` (its former document), whose other fields stay."""
    return {
        **(base or {}),
        "topicName": config.name,
        "readQueueNums": config.read_queues,
        "writeQueueNums": config.write_queues,
        "perm": config.permission,
        "topicFilterType": config.filter_type,
        "topicSysFlag": config.sys_flag,
        "order": config.order,
        "attributes": dict(config.attributes),
        INCARNATION: config.incarnation,
        MADE_AT: config.made_at,
    }


def topic_config(document: Mapping[str, Any]) -> TopicConfig:
    """Parses a document; a missing field gets RocketMQ's default. Raises StoreFormatError."""
    try:
        return TopicConfig(
            name=str(document["topicName"]),
            read_queues=int(document.get("readQueueNums", 16)),
            write_queues=int(document.get("writeQueueNums", 16)),
            permission=int(document.get("perm", PERMISSION_READ_WRITE)),
            order=bool(document.get("order", False)),
            sys_flag=int(document.get("topicSysFlag", 0)),
            filter_type=str(document.get("topicFilterType") or "SINGLE_TAG"),
            attributes={str(name): str(value) for name, value in (document.get("attributes") or {}).items()},
            incarnation=int(document.get(INCARNATION, 0)),
            made_at=int(document.get(MADE_AT, document.get(INCARNATION, 0))),  # older files had one number for both
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StoreFormatError("topics.json", f"not a topic: {str(document)[:200]}") from error


def check_settings(config: TopicConfig, before: TopicConfig | None, *, queues_max: int) -> None:
    """Raises InvalidParameter for settings that no topic may have, or to which an existing one may not change."""
    for name, value in (("read_queues", config.read_queues), ("write_queues", config.write_queues)):
        if not 1 <= value <= queues_max:
            raise InvalidParameter(name, value, f"1 to {queues_max}")
    if config.permission not in PERMISSIONS:
        raise InvalidParameter("permission", config.permission, "2 (write), 4 (read) or 6 (both)")
    kind = config.attributes.get(TYPE_ATTRIBUTE, "UNSPECIFIED")
    if config.is_compacted and kind not in COMPACTED_TYPES:
        raise InvalidParameter(TYPE_ATTRIBUTE, kind, f"one of {', '.join(COMPACTED_TYPES)} in a compacted topic")
    if config.is_batched and (config.is_compacted or kind not in BATCHED_TYPES):
        raise InvalidParameter(
            QUEUE_TYPE_ATTRIBUTE,
            "BatchCQ",
            f"SimpleCQ: a batch topic is not compacted, and of type {', '.join(BATCHED_TYPES)}",
        )
    expiration = config.attributes.get(EXPIRATION)
    had_expiration = before is not None and before.attributes.get(EXPIRATION) == expiration
    if expiration is not None and kind != LITE and not had_expiration:
        raise InvalidParameter(EXPIRATION, expiration, f"none: the topic has no lite topics ({TYPE_ATTRIBUTE}={LITE})")
    if before is not None:
        if config.is_batched != before.is_batched:
            raise InvalidParameter(
                QUEUE_TYPE_ATTRIBUTE,
                config.attributes[QUEUE_TYPE_ATTRIBUTE],
                f"{QUEUE_TYPES[before.is_batched]}: it is chosen when a topic is created",
            )
        if config.is_compacted != before.is_compacted:
            kept = "COMPACTION" if before.is_compacted else "DELETE"
            raise InvalidParameter(
                CLEANUP_ATTRIBUTE, config.attributes[CLEANUP_ATTRIBUTE], f"{kept}: it is chosen when a topic is created"
            )
        if config.read_queues < before.read_queues:
            raise InvalidParameter(
                "read_queues", config.read_queues, f"at least {before.read_queues}: queues never shrink"
            )
        if config.write_queues < before.write_queues:
            raise InvalidParameter(
                "write_queues", config.write_queues, f"at least {before.write_queues}: queues never shrink"
            )


class TopicTable:
    """All topics of the broker. `configs`, `compacted` and `write_queues` are read-only."""

    __slots__ = (
        "_documents",
        "_new_incarnation",
        "_rest",
        "batch_write_queues",
        "compacted",
        "configs",
        "lite_parents",
        "write_queues",
    )

    def __init__(self, new_incarnation: Callable[[], int] = lambda: 0) -> None:
        """`new_incarnation`: a number that no topic of any store has had; 0: the end of the topic's record is used."""
        self._new_incarnation = new_incarnation
        self.configs: dict[str, TopicConfig] = {}
        self.write_queues: dict[str, int] = {}  # of topics that clients may send to; the only look-up of a send
        self.batch_write_queues: dict[str, int] = {}  # the same of batch topics, which are not in `write_queues`
        self.compacted: dict[
            str, TopicConfig
        ] = {}  # those topics: not in `write_queues`, since their sends are checked
        self.lite_parents: set[str] = set()  # topics whose messages name lite topics
        self._documents: dict[str, Document] = {}
        self._rest: Document = {}

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        table = document.get("topicConfigTable") or {}
        if not isinstance(table, dict):
            raise StoreFormatError("topics.json", "topicConfigTable is no object")
        self._rest = {name: value for name, value in document.items() if name != "topicConfigTable"}
        for entry in table.values():
            self._put(entry)

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        return {**self._rest, "topicConfigTable": self._documents.copy()}

    def event_set(self, config: TopicConfig) -> Document:
        """The event that gives a topic these settings."""
        if config.name not in self._documents:
            config = replace(config, incarnation=self._new_incarnation())
        return {"event": SET, "topic": topic_document(config, self._documents.get(config.name))}

    @staticmethod
    def event_deleted(topic: str) -> Document:
        """The event that deletes a topic, its queues and the offsets of its groups."""
        return {"event": DELETED, "topic": topic}

    @staticmethod
    def event_collected(parent: str, lite_topics: Sequence[str]) -> Document:
        """The event that removes idle lite topics of a parent: their light queues, and what groups have received of them."""
        return {"event": COLLECTED, "topic": parent, "liteTopics": lite_topics}

    def on_event(self, event: Mapping[str, Any], version: Document, end: int) -> None:
        """Applies one event of the log. Raises StoreFormatError.

        `version`: RocketMQ's dataVersion, made from the event's place in the log. `end`: the end of its record there, which
        becomes the incarnation of a topic that the event creates without naming one.
        """
        kind, subject = event.get("event"), event.get("topic")
        self._rest = {**self._rest, "dataVersion": version}
        if kind == SET and isinstance(subject, dict):
            before = self.configs.get(str(subject.get("topicName")))
            new = subject.get(INCARNATION) or end, end
            incarnation, made_at = new if before is None else (before.incarnation, before.made_at)
            self._put({**subject, INCARNATION: incarnation, MADE_AT: made_at})
        elif kind == DELETED and isinstance(subject, str):
            for table in (self.configs, self._documents, self.write_queues, self.batch_write_queues, self.compacted):
                table.pop(subject, None)
            self.lite_parents.discard(subject)
        else:
            raise unknown_event("topic", event)

    def registered(self) -> list[tuple[str, int, int, int, int]]:
        """(name, read queues, write queues, permission, incarnation) of each topic that clients may find."""
        return [row for row in map(self.registered_one, self.configs) if row is not None]

    def registered_one(self, topic: str) -> tuple[str, int, int, int, int] | None:
        """The same of one; None if there is no such topic that clients may find."""
        config = self.configs.get(topic)
        if config is None or not is_routed_topic(topic):
            return None
        permission = config.permission | (BATCHED if config.is_batched else 0)
        return (topic, config.read_queues, config.write_queues, permission, config.incarnation)

    def compacted_queues(self) -> list[tuple[str, int]]:
        """The queues of all compacted topics."""
        return [
            (config.name, queue_id)
            for config in self.compacted.values()
            for queue_id in range(max(config.read_queues, config.write_queues))
        ]

    def made_at(self, topic: str) -> int:
        """The topic's incarnation: the end of the record that created it, or its number; 0 = unknown, or no such topic."""
        config = self.configs.get(topic)
        return 0 if config is None else config.made_at

    def check_incarnation(self, topic: str, asked: int) -> None:
        """Raises TopicMadeAnew if another topic of that name is meant than the present one; 0 = not said."""
        config = self.configs.get(topic)
        if asked and config is not None and config.incarnation and config.incarnation != asked:
            raise TopicMadeAnew(topic, config.incarnation, asked)

    def _put(self, document: Document) -> None:
        config = topic_config(document)
        self._documents[config.name] = document
        self.configs[config.name] = config
        if config.is_compacted:
            self.compacted[config.name] = config
        self.write_queues.pop(config.name, None)
        self.batch_write_queues.pop(config.name, None)
        if is_lite_parent(config.attributes):
            self.lite_parents.add(config.name)
        else:
            self.lite_parents.discard(config.name)
        if not config.is_compacted and config.permission & PERMISSION_WRITE and is_routed_topic(config.name):
            table = self.batch_write_queues if config.is_batched else self.write_queues
            table[config.name] = config.write_queues
