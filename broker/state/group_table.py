"""The consumer groups of one broker and their settings, as subscriptionGroup.json holds them. Pure.

Changed only by `on_event`, like the topic table (see there): loop thread, values are replaced, never changed in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...model.topics.lite_settings import GROUP_ATTRIBUTES, check_group_attribute
from .redelivery_topics import QUEUES_MAX
from .retry_policy import RETRIES_MAX_DEFAULT, RETRIES_MAX_MAX, parse_backoff
from .topic_table import DELETED, SET, Document
from .unknown_events import unknown_event

_INT_MAX: Final = (1 << 31) - 1

DEFAULTS: Final[Mapping[str, Any]] = {
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeBroadcastEnable": True,
    "consumeMessageOrderly": False,
    "retryQueueNums": 1,
    "retryMaxTimes": RETRIES_MAX_DEFAULT,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
    "notifyConsumerIdsChangedEnable": True,
    "groupSysFlag": 0,
    "consumeTimeoutMinute": 15,
    "attributes": {},
}
"""RocketMQ's settings of a group and their defaults."""

RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "retryQueueNums": (1, QUEUES_MAX),
    "retryMaxTimes": (0, RETRIES_MAX_MAX),
    "brokerId": (0, _INT_MAX),
    "whichBrokerWhenConsumeSlowly": (0, _INT_MAX),
    "groupSysFlag": (0, _INT_MAX),
    "consumeTimeoutMinute": (1, 1440),
}
"""The ranges of the numbers among them, both ends included."""


def group_document(name: str, attributes: Sequence[tuple[str, str]], base: Mapping[str, Any] | None = None) -> Document:
    """A group in RocketMQ's shape: `attributes` ((name, value as JSON), ...) over `base` or the defaults. The values of
    lite_settings' GROUP_ATTRIBUTES are plain texts.

    Raises InvalidParameter for a name that RocketMQ does not have, a value of another type than the default's, or an
    invalid one.
    """
    document = {**DEFAULTS, **(base or {}), "groupName": name}
    for attribute, text in attributes:
        if attribute in GROUP_ATTRIBUTES:
            check_group_attribute(attribute, text)
            document["attributes"] = {**document["attributes"], attribute: text}
            continue
        default = DEFAULTS.get(attribute)
        if default is None:
            raise InvalidParameter(
                "group attribute", attribute, "one of " + ", ".join([*sorted(DEFAULTS), *GROUP_ATTRIBUTES])
            )
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
            raise InvalidParameter(attribute, text[:64], "a JSON value") from error
        if type(value) is not type(default):
            raise InvalidParameter(attribute, text[:64], f"a value like {json.dumps(default)}")
        _check_value(attribute, value)
        document[attribute] = value
    return document


def _check_value(attribute: str, value: Any) -> None:
    if attribute in RANGES:
        minimum, maximum = RANGES[attribute]
        if not minimum <= value <= maximum:
            raise InvalidParameter(attribute, value, f"{minimum} to {maximum}")
    elif attribute == "groupRetryPolicy":
        parse_backoff(value, levels_ms=())
    elif attribute == "attributes":
        if not all(isinstance(text, str) for text in value.values()):
            raise InvalidParameter(attribute, str(value)[:64], "an object of texts")
        for name in value.keys() & set(GROUP_ATTRIBUTES):
            check_group_attribute(name, value[name])


class GroupTable:
    """All groups that were ever created here. `documents` ({name: settings}) is read-only."""

    __slots__ = ("_rest", "documents")

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self._rest: Document = {"forbiddenTable": {}}

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        table = document.get("subscriptionGroupTable") or {}
        if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
            raise StoreFormatError("subscriptionGroup.json", "subscriptionGroupTable is no object of objects")
        self._rest = {name: value for name, value in document.items() if name != "subscriptionGroupTable"}
        self.documents = {str(name): entry for name, entry in table.items()}

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        return {**self._rest, "subscriptionGroupTable": self.documents.copy()}

    def event_set(self, name: str, attributes: Sequence[tuple[str, str]] = ()) -> Document:
        """The event that creates or changes a group. Raises InvalidParameter."""
        return {"event": SET, "group": group_document(name, attributes, self.documents.get(name))}

    @staticmethod
    def event_deleted(name: str) -> Document:
        """The event that deletes a group and its offsets."""
        return {"event": DELETED, "group": name}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        kind, subject = event.get("event"), event.get("group")
        self._rest = {**self._rest, "dataVersion": version}
        if kind == SET and isinstance(subject, dict) and isinstance(subject.get("groupName"), str):
            self.documents[subject["groupName"]] = subject
        elif kind == DELETED and isinstance(subject, str):
            self.documents.pop(subject, None)
        else:
            raise unknown_event("group", event)
