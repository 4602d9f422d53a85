"""Errors of sending, and of requests and replies. Pure."""

from __future__ import annotations

from .base import ZenitError


class FlushTimeout(ZenitError):
    """The message was written, but not flushed in time: it is unknown whether it is durable. Args: timeout_ms."""

    code, retriable = 10, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"not flushed within {self.timeout_ms} ms; whether the message survives a power cut is unknown"


class ReplicaTimeout(ZenitError):
    """The master stored the message, but the in-sync replicas did not in time: it may survive or not. Args: timeout_ms."""

    code, retriable = 12, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return (
            f"the in-sync replicas did not acknowledge within {self.timeout_ms} ms; the messages may be stored or not"
        )


class TransactionNotFound(ZenitError):
    """The broker knows no such transaction: another store's, or one that its log has kept nothing of. Args: transaction_id."""

    code = 9180

    def __init__(self, transaction_id: str) -> None:
        super().__init__(transaction_id)
        self.transaction_id = transaction_id

    def __str__(self) -> str:
        return f"no transaction {self.transaction_id} here; its broker may have been begun anew, or it expired with the log"


class TransactionDecided(ZenitError):
    """It was decided in another way before, or parked for an operator to decide. Args: transaction_id, state ("committed",
    "rolled back", "parked")."""

    code = 9181

    def __init__(self, transaction_id: str, state: str) -> None:
        super().__init__(transaction_id, state)
        self.transaction_id = transaction_id
        self.state = state

    def __str__(self) -> str:
        return f"transaction {self.transaction_id} is {self.state} already (zenit transaction show)"


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
        return (
            f"{self.in_sync} replicas are in sync, {self.min_in_sync} are needed: writes wait until enough are (zenit"
            " status)"
        )


class TooManyLightQueues(ZenitError):
    """The message names a light queue (of a lite topic) that does not exist, and the broker keeps no more. Args: limit."""

    code = 9198

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the broker keeps {self.limit} light queues already: use existing lite topics, wait until idle ones expire, or"
            " raise store.light_queues_max"
        )


class NotARequest(ZenitError):
    """The message is no request: it lacks a property that a reply needs. Args: message_id, missing (the property's name)."""

    code = 9100

    def __init__(self, message_id: str, missing: str) -> None:
        super().__init__(message_id, missing)
        self.message_id = message_id
        self.missing = missing

    def __str__(self) -> str:
        return f"message {self.message_id} has no property {self.missing}: it was not sent by `request`"


class RequesterGone(ZenitError):
    """The reply is stored, but the requester is not connected to that broker. Args: client_id, correlation_id."""

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
    """The producer already has as many unanswered requests as it may. Args: limit."""

    code, retriable = 9102, True

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.limit} requests already wait for replies; wait for some of them first"
