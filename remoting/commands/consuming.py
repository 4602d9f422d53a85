"""Requests of consumer groups: where a group begins, queue locks, failed messages. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_group, on_topic
from .base import Done, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class StartReply(Reply):
    """since_ms: the group consumes what was stored from this time on (since the epoch); 0 = all, -1 = it has not begun."""

    since_ms: int


@request(
    9010,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class StartConsuming(RequestFor[StartReply]):
    """A group's first subscription to a topic, sent before the first pull: records where the group begins in each queue, as
    durable as a commit. Changes nothing if the group already has an offset in the topic; queues that the topic gets
    later begin with their first message. start: "first", "last", "time" with `value` (ms since the epoch), or "" to ask
    only.
    """

    group: str
    topic: str
    start: str
    value: int = 0


@request(
    36,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class SendBack(RequestFor[Done]):
    """CONSUMER_SEND_MSG_BACK: a message of `topic` that `group` could not handle comes again later through the group's
    retry topic, or goes to its dead letters after the last attempt. Answered when that is as durable as a send.

    delay_level: 0 = by the group's policy, above 0 = that level of the ladder, -1 = to the dead letters at once. reason:
    stored with a dead letter, at most 1 KiB of it. max_attempts: how often it may come again; -1 = the group's. handled:
    how often the consumer handled it since it was pulled. Payload: none or, after MessageNotFound, the record as it was
    pulled, because retention has deleted it. queue_offset: of the message, to know it in a batch; -1 = not said.
    """

    group: str
    topic: str
    physical_offset: int
    delay_level: int = 0
    max_attempts: int = -1
    reason: str = ""
    handled: int = 1
    queue_offset: int = -1


@dataclass(frozen=True, slots=True)
class LockReply(Reply):
    """queues: ((topic, queue id), ...): those requested that the client now has, for `lease_ms` from its request on."""

    queues: tuple[tuple[str, int], ...]
    lease_ms: int


@request(
    41,
    Lane.HEARTBEAT,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB, "queues"), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class LockQueues(RequestFor[LockReply]):
    """LOCK_BATCH_MQ: takes, or renews, a lease on these queues of this broker for one member of a group.

    A queue that another member has, or that does not exist, is left out of the answer. renews: answers only leases that the
    client has had without a gap; a member that lost one must lock again, and begin at the group's committed offset.
    """

    group: str
    client_id: str
    queues: tuple[tuple[str, int], ...]
    renews: bool = False


@request(
    42,
    Lane.HEARTBEAT,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB, "queues"), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class UnlockQueues(RequestFor[Done]):
    """UNLOCK_BATCH_MQ: gives leases back. Ignores queues that the client does not have."""

    group: str
    client_id: str
    queues: tuple[tuple[str, int], ...]
