"""Errors of consuming: subscriptions, offsets, groups, dead letters, traces. Pure."""

from __future__ import annotations

from .base import ZenitError


class SqlSyntaxError(ZenitError):
    """A text is not a valid SQL92 condition. Args: position (of a character, from 1), found, expected."""

    code = 23

    def __init__(self, position: int, found: str, expected: str) -> None:
        super().__init__(position, found, expected)
        self.position = position
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"condition, character {self.position}: found {self.found}, expected {self.expected}"


class SubscriptionConflict(ZenitError):
    """Members of one group subscribe to a topic differently, so each filters its queues in its own way. Args: group, topic,
    client_id (a member with another subscription)."""

    code = 25

    def __init__(self, group: str, topic: str, client_id: str) -> None:
        super().__init__(group, topic, client_id)
        self.group = group
        self.topic = topic
        self.client_id = client_id

    def __str__(self) -> str:
        return (
            f"group {self.group!r}: member {self.client_id} subscribes to topic {self.topic} differently; which messages the"
            " group gets depends on the owner of their queue: give all members the same subscription"
        )


class GroupNotFound(ZenitError):
    """No such consumer group. Args: group."""

    code = 26

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"group {self.group!r} does not exist (zenit group list)"


class MessageNotFound(ZenitError):
    """Nothing is stored under this id, key or offset. Args: what."""

    code = 22

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no message for {self.what}"


class OffsetOutOfRange(ZenitError):
    """The requested offset is outside what the queue holds. Args: queue (as text), offset, minimum, maximum."""

    code = 9021

    def __init__(self, queue: str, offset: int, minimum: int, maximum: int) -> None:
        super().__init__(queue, offset, minimum, maximum)
        self.queue = queue
        self.offset = offset
        self.minimum = minimum
        self.maximum = maximum

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.queue} is outside [{self.minimum}, {self.maximum}]"


class DuplicateClient(ZenitError):
    """Another living process has the same client id. Args: client_id, host, pid."""

    code = 9051

    def __init__(self, client_id: str, host: str, pid: int) -> None:
        super().__init__(client_id, host, pid)
        self.client_id = client_id
        self.host = host
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"client id {self.client_id!r} is in use by process {self.pid} on {self.host!r}: give each client its own, or"
            " wait until that one has been silent for three heartbeats"
        )


class AllocationConflict(ZenitError):
    """A living member of the group has another allocation. Args: group, allocation, other, client_id (of that member)."""

    code = 9052

    def __init__(self, group: str, allocation: str, other: str, client_id: str) -> None:
        super().__init__(group, allocation, other, client_id)
        self.group = group
        self.allocation = allocation
        self.other = other
        self.client_id = client_id

    def __str__(self) -> str:
        return (
            f"group {self.group!r} uses the allocation {self.other!r} (member {self.client_id!r}), this consumer "
            f"{self.allocation!r}: give all members the same `allocation=`; this one may join once no member has the other"
        )


class QueueNotOwned(ZenitError):
    """The member does not hold the lock of the queue, or no longer. Args: group, topic, queue_id."""

    code = 9050

    def __init__(self, group: str, topic: str, queue_id: int) -> None:
        super().__init__(group, topic, queue_id)
        self.group = group
        self.topic = topic
        self.queue_id = queue_id

    def __str__(self) -> str:
        return (
            f"this member of group {self.group} does not (or no longer) own queue {self.queue_id} of topic"
            f" {self.topic}: lock it"
            " again, and continue at the committed offset"
        )


class NoOrigin(ZenitError):
    """A dead letter does not say which topic it came from. Args: message_id."""

    code = 9090

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"dead letter {self.message_id} does not say which topic it came from; name one: --to TOPIC"


class DamageAwaited(ZenitError):
    """Messages are damaged at their broker; a replica that does not answer may have them undamaged.

    Args: topic, broker_name, queue_id, queue_offset (of the first of them).
    """

    code, retriable = 9128, True

    def __init__(self, topic: str, broker_name: str, queue_id: int, queue_offset: int) -> None:
        super().__init__(topic, broker_name, queue_id, queue_offset)
        self.topic = topic
        self.broker_name = broker_name
        self.queue_id = queue_id
        self.queue_offset = queue_offset

    def __str__(self) -> str:
        return (
            f"{self.topic}@{self.broker_name}:{self.queue_id}: messages from {self.queue_offset} on are damaged at the broker,"
            " and a replica that may have them does not answer: start those that are down (see zenit status)"
        )


class WrongAnswer(ZenitError):
    """A handler returned an invalid value, a defect of the program; the consumer has paused. Args: handler, answer (repr)."""

    code = 9108

    def __init__(self, handler: str, answer: str) -> None:
        super().__init__(handler, answer)
        self.handler = handler
        self.answer = answer

    def __str__(self) -> str:
        return (
            f"handler {self.handler} returned {self.answer}; return None or a ConsumeResult. The consumer has paused: "
            "correct the handler and restart the program; it gets its messages again"
        )


class OffsetFileInUse(ZenitError):
    """Another broadcasting member on this machine has the same group and instance name. Args: path."""

    code = 9080

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} belongs to a running consumer; give this one another `instance=`"


class OffsetFileFailed(ZenitError):
    """The file of a broadcasting member's offsets cannot be read or written. Args: path, reason."""

    code, retriable = 9081, True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot store offsets in {self.path}: {self.reason}"


class TraceDamaged(ZenitError):
    """The body of a trace message is invalid. Args: reason."""

    code = 9103

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"invalid trace: {self.reason}"


class GroupConsumedOtherwise(ZenitError):
    """A living member of the group consumes in another way. Args: group, how ("pop" or "queues": of that member),
    client_id."""

    code = 9183

    def __init__(self, group: str, how: str, client_id: str) -> None:
        super().__init__(group, how, client_id)
        self.group = group
        self.how = how
        self.client_id = client_id

    def __str__(self) -> str:
        mine, theirs = ("PullConsumer or PushConsumer", "SimpleConsumer (pop)")
        if self.how != "pop":
            mine, theirs = theirs, mine
        return (
            f"group {self.group!r} is consumed by a {theirs}, member {self.client_id!r}; a {mine} cannot share it: use"
            " another group, or stop that member first"
        )


class HandleRefused(ZenitError):
    """A receipt handle is not one that this broker gave to this group. Args: why ("forged", "of another broker", "of another
    group", "of another topic", "malformed")."""

    code = 9184

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return (
            f"the receipt handle is {self.why}: use the one that came with the message, with the same group and topic"
        )


class LeaseExpired(ZenitError):
    """The message is no longer this receiver's: its invisible time is over, or somebody dealt with it. Args: topic, queue_id,
    queue_offset."""

    code = 9185

    def __init__(self, topic: str, queue_id: int, queue_offset: int) -> None:
        super().__init__(topic, queue_id, queue_offset)
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset

    def __str__(self) -> str:
        return (
            f"message {self.queue_offset} of {self.topic}:{self.queue_id} is no longer this receiver's: it was acknowledged,"
            " moved to the dead letters, given a newer handle or deleted with its topic, or its invisible time is over and it"
            " is handed out again (then ask for a longer one: invisible=, change_invisible, auto_renew=True)"
        )
