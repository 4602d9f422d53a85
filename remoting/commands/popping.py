"""Requests of pop groups (SimpleConsumer): the broker hands out single messages and keeps the leases. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_group, on_topic
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class PopReply(Reply):
    """parts: ((queue id, count, receipt handle, attempts), ...), one for each queue that messages came from; `attempts`: how
    often each was handed out before, () where none was. Payload: the records of all parts, back to back, in their order.

    The n-th message of a part has the handle `with_index(handle, n)` (model.handles.receipt_handle). No parts: nothing came
    within `wait_ms`. `pop_ms`: when, by the broker's clock.
    """

    parts: tuple[tuple[int, int, str, tuple[int, ...]], ...]
    pop_ms: int


@request(
    200050,
    Lane.PULL,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class PopMessages(RequestFor[PopReply]):
    """POP_MESSAGE: at most `max_messages` (1 to 32) messages of any queue of the topic here, which nobody else of the group
    gets for `invisible_ms`. Nothing there and `wait_ms` > 0: the reply waits for a message at most that long.

    `client_id`: of the receiver, "" where it sends no heartbeats. `pop_id`: what CancelPop names it by. `tag_codes`, `sql`: as
    in PullMessages. `start`: "first" or "last", where a group without an offset in the topic begins. `renews`: the broker
    extends the leases by itself as long as the client's heartbeats last. `queue_id`: one queue only; -1 = any. `is_ordered`:
    of each sharding key only one message at a time, in the order of its queue; a group is ordered or not, by its first pop.
    Refused with GroupConsumedOtherwise, BrokerBusy (too many leases).
    """

    group: str
    topic: str
    max_messages: int
    invisible_ms: int
    wait_ms: int = 0
    client_id: str = ""
    pop_id: int = 0
    tag_codes: tuple[int, ...] = ()
    sql: str = ""
    start: str = "first"
    renews: bool = False
    queue_id: int = -1
    is_ordered: bool = False


@request(9138, Lane.HEARTBEAT, served_by=ServedBy.MASTER, needs=(on_group(Action.SUB),))
@dataclass(frozen=True, slots=True)
class CancelPop(RequestFor[Done]):
    """A waiting PopMessages is answered at once, with no messages; one that has yet to come will be. What went out for one that
    was answered already reached nobody: it goes to others, and that was no attempt."""

    group: str
    client_id: str
    pop_id: int


@dataclass(frozen=True, slots=True)
class AckReply(Reply):
    """One row for each of the request's, in its order: (0, "") or (the code of an error, its facts as a JSON list)."""

    rows: tuple[tuple[int, str], ...]


@request(
    200151,
    Lane.SEND,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class AckMessages(RequestFor[AckReply]):
    """BATCH_ACK_MESSAGE: these messages are handled; answered once that is as durable as a send. `acks`: ((receipt handle of a
    part, bits: 1 << n for its n-th message), ...), at most 1024. Once more, and it succeeds as the first time. Each row
    succeeds or fails by itself: HandleRefused, LeaseExpired."""

    group: str
    topic: str
    acks: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ChangedReply(Reply):
    """handle: of the message from now on, with index 0; "" where it is visible at once."""

    handle: str
    pop_ms: int


@request(
    200053,
    Lane.SEND,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class ChangeInvisible(RequestFor[ChangedReply]):
    """CHANGE_MESSAGE_INVISIBLETIME: one message is invisible for `invisible_ms` from now on; 0 = visible at once, which counts
    as an attempt. Its handle before is of no use any more. `renews`: where the broker extends the lease by itself, it goes on
    so; else the message comes again after that time. Refused with HandleRefused, LeaseExpired."""

    group: str
    topic: str
    handle: str
    index: int
    invisible_ms: int
    renews: bool = True


@request(
    9135,
    Lane.SEND,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class ReleaseMessages(RequestFor[AckReply]):
    """Messages that reached nobody: visible again at once, and it counts as no attempt. `acks` and the rows: as in
    AckMessages."""

    group: str
    topic: str
    acks: tuple[tuple[str, int], ...]


@request(
    9136,
    Lane.SEND,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class ForwardDeadLetter(RequestFor[Done]):
    """One message goes to the group's dead letters at once, with `reason` (at most 1 KiB of it), and is acknowledged by that.
    Refused with HandleRefused, LeaseExpired."""

    group: str
    topic: str
    handle: str
    index: int
    reason: str = ""


@request(9137, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetLeases(RequestFor[JsonReply]):
    """What a pop group holds here: {"queues": [{topic, queue_id, next_offset, first_unacknowledged, leased, available,
    oldest_lease_ms, attempts_max}]}, of queues that it has popped from. `oldest_lease_ms`: its age; null where nothing is
    leased."""

    group: str
