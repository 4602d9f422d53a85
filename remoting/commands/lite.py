"""Requests of groups that receive lite topics (LiteConsumer). What becomes of the messages is said as in popping. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_cluster, on_group, on_topic
from .base import JsonReply, Lane, Reply, RequestFor, ServedBy, request
from .popping import ChangedReply


@dataclass(frozen=True, slots=True)
class LitePopReply(Reply):
    """parts: ((lite topic, count, receipt handle, attempts), ...), otherwise as in PopReply. `evicted`: lite topics that
    another member has now; `evictions`: the number by which the client says that it has heard."""

    parts: tuple[tuple[str, int, str, tuple[int, ...]], ...]
    pop_ms: int
    evicted: tuple[str, ...] = ()
    evictions: int = 0


@request(
    200070,
    Lane.PULL,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class PopLite(RequestFor[LitePopReply]):
    """POP_LITE_MESSAGE: at most `max_messages` messages of any lite topics of the parent `topic` that the client subscribes to
    here, at most 32 of each. Of a lite topic one such part is out at a time in the group; nothing of it goes out before all of
    the part is handled, or its time is over.

    `version`: of the subscriptions that this broker has confirmed to the client; a broker that does not know them refuses with
    LiteSubscriptionUnknown. `evictions`: the last number that it has heard. The others as in PopMessages.
    """

    group: str
    topic: str
    max_messages: int
    invisible_ms: int
    wait_ms: int
    client_id: str
    version: int
    pop_id: int = 0
    renews: bool = False
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class LiteSubscribedReply(Reply):
    """is_known: the change is made. False: this broker does not know what it is to change, and is to be told all of it."""

    is_known: bool


@request(
    200071,
    Lane.HEARTBEAT,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class SubscribeLite(RequestFor[LiteSubscribedReply]):
    """LITE_SUBSCRIPTION_CTL: changes what a client subscribes to of a parent's lite topics. `action`: "add", "remove",
    or "all": these and no others, whatever was before. `names`: at most 4096. `before`: the number of the change
    before; `version`: of this one, higher. Once more, and it succeeds as the first time. Refused with
    LiteQuotaExceeded."""

    group: str
    topic: str
    client_id: str
    action: str
    names: tuple[str, ...]
    before: int
    version: int


@request(
    9190,
    Lane.SEND,
    served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class SuspendLite(RequestFor[ChangedReply]):
    """One message of a lite topic, and those behind it that came with it, come again after `delay_ms`, in their order;
    that is no attempt. Until then nothing of the lite topic goes out. Refused with HandleRefused, LeaseExpired."""

    group: str
    topic: str
    handle: str
    index: int
    delay_ms: int


@request(9191, Lane.QUERY, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetLiteTopics(RequestFor[JsonReply]):
    """Lite topics of a parent, by name, at most `count` (1 to 1000) behind the name `after`: {"count": of all, "lite_topics":
    [{lite_topic, min_offset, max_offset, last_stored_at_ms, subscribers}], "next": "" at the end, else the next `after`}."""

    topic: str
    after: str = ""
    count: int = 500


@request(9192, Lane.QUERY, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetLiteGroup(RequestFor[JsonReply]):
    """What a group has of lite topics: {"group", "members": [{client_id, topic, lite_topics, ready}], "lite_topics":
    [{topic, lite_topic, next_offset, max_offset, lag, leased, available}], "next"}: those of which something is left to
    receive or to acknowledge. `after`, `count` and `next` as in GetLiteTopics, by the name of the light queue."""

    group: str
    after: str = ""
    count: int = 500


@request(9193, Lane.QUERY, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_cluster(Action.LIST),))
@dataclass(frozen=True, slots=True)
class GetLightQueues(RequestFor[JsonReply]):
    """Light queues whose names begin with `prefix` (%LMQ%...), by name: {"count": of all, "light_queues": [{light_queue, topic,
    min_offset, max_offset, last_stored_at_ms}], "next"}; `topic`: of its newest message. `after`, `count` and `next` as in
    GetLiteTopics."""

    prefix: str
    after: str = ""
    count: int = 500
