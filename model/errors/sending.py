"""What may become of a message that is sent. Pure."""

from __future__ import annotations

from .base import ZenitError


class FlushTimeout(ZenitError):
    """The message was written but its flush did not end in time: durable or not is unknown. Args: timeout_ms."""

    code, retriable = 10, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"not flushed within {self.timeout_ms} ms; whether the message survives a power cut is unknown"


class ReplicaTimeout(ZenitError):
    """Stored, but the replicas in sync did not have it in time: it may or may not survive. Args: timeout_ms."""

    code, retriable = 12, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return (
            f"the replicas in sync did not acknowledge within {self.timeout_ms} ms; the messages may be stored or not"
        )


class MessageIllegal(ZenitError):
    """A message breaks a rule; nothing of its batch was written. Args: reason (with limit and value)."""

    code = 13

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"message refused: {self.reason}"


class MessageTooLarge(ZenitError):
    """A message or request is over a size limit; nothing was written. Args: what, size_bytes, limit_bytes."""

    code = 9001

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(what, size_bytes, limit_bytes)
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"{self.what} of {self.size_bytes} bytes is over the limit of {self.limit_bytes} bytes"


class SendFailed(ZenitError):
    """Messages sent in the background were not acknowledged. Args: count, reason (of the first); `failed`: `Producer.flush`."""

    code = 9015

    def __init__(self, count: int, reason: str) -> None:
        super().__init__(count, reason)
        self.count = count
        self.reason = reason
        self.failed: tuple[object, ...] = ()

    def __str__(self) -> str:
        counted = "1 message was" if self.count == 1 else f"{self.count} messages were"
        return f"{counted} not acknowledged; the first: {self.reason}"


class NotEnoughReplicas(ZenitError):
    """Too few replicas of the group are in sync to take writes; reads go on. Args: in_sync, min_in_sync."""

    code, retriable = 9047, True

    def __init__(self, in_sync: int, min_in_sync: int) -> None:
        super().__init__(in_sync, min_in_sync)
        self.in_sync = in_sync
        self.min_in_sync = min_in_sync

    def __str__(self) -> str:
        return f"{self.in_sync} replicas are in sync, {self.min_in_sync} are wanted: writes wait until more are"


class NotARequest(ZenitError):
    """A message without what a reply needs: nobody waits for one. Args: message_id, missing (the property's name)."""

    code = 9100

    def __init__(self, message_id: str, missing: str) -> None:
        super().__init__(message_id, missing)
        self.message_id = message_id
        self.missing = missing

    def __str__(self) -> str:
        return f"message {self.message_id} has no property {self.missing}: it was not sent by `request`"


class RequesterGone(ZenitError):
    """A reply is stored, but the one who asked is not connected to that broker. Args: client_id, correlation_id."""

    code = 9101

    def __init__(self, client_id: str, correlation_id: str) -> None:
        super().__init__(client_id, correlation_id)
        self.client_id = client_id
        self.correlation_id = correlation_id

    def __str__(self) -> str:
        return (
            f"the client that waits for reply {self.correlation_id} is not connected: {self.client_id};"
            " the reply is kept in the log"
        )


class TooManyRequests(ZenitError):
    """So many requests wait for their replies already. Args: limit."""

    code, retriable = 9102, True

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.limit} requests wait for their replies already"
