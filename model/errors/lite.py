"""Errors of lite topics. Pure."""

from __future__ import annotations

from .base import ZenitError


class LiteTopicMissing(ZenitError):
    """A message for a topic whose messages name lite topics names none. Args: topic."""

    code = 9194

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} has lite topics: say which one, Message(..., lite_topic=NAME) or --lite-topic NAME"
        )


class NotLiteParent(ZenitError):
    """A lite topic is named of a topic that has none. Args: topic."""

    code = 9195

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic!r} has no lite topics: zenit topic create NAME --type lite makes one that has"


class LiteSubscriptionUnknown(ZenitError):
    """The broker does not know what the client subscribes to: it is a new master, or has not heard of the client for long. The
    client tells it and asks again. Args: topic, group."""

    code, retriable = 9196, True

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(topic, group)
        self.topic = topic
        self.group = group

    def __str__(self) -> str:
        return f"the broker does not know which lite topics of {self.topic} this member of group {self.group} subscribes to"


class LiteQuotaExceeded(ZenitError):
    """More lite topics than allowed. Args: what (is too many), limit, setting (that allows more)."""

    code = 9197

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(what, limit, setting)
        self.what = what
        self.limit = limit
        self.setting = setting

    def __str__(self) -> str:
        return f"{self.what}: at most {self.limit} ({self.setting})"
