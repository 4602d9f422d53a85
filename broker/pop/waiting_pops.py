"""Pops that wait for messages, by topic and by what they ask for: what finds nothing for one finds nothing for its kind.
Loop thread."""

from __future__ import annotations

from ...remoting.commands import PopMessages
from ...remoting.server import Call
from ..handlers.pull_hold import Parked, PullHold

Waiting = Parked[Call[PopMessages]]
Kind = tuple[str, tuple[int, ...], str, int, bool]
"""(group, tag codes, SQL, queue id, whether it is ordered)."""

ANY_QUEUE = -1  # where they are parked: they wait for all queues of their topic


def kind_of(request: PopMessages) -> Kind:
    """Of a pop."""
    return request.group, request.tag_codes, request.sql, request.queue_id, request.is_ordered


class WaitingPops:
    """Those of one kind in the order in which they came."""

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        self._hold: PullHold[Call[PopMessages]] = PullHold(count_max=count_max, bytes_max=bytes_max)
        self._named: dict[tuple[str, str, int], Waiting] = {}  # by group, client and pop id
        self._kinds: dict[str, dict[Kind, dict[int, Waiting]]] = {}

    @property
    def count(self) -> int:
        """How many wait."""
        return self._hold.count

    def park(self, call: Call[PopMessages], deadline_ms: int) -> None:
        """`deadline_ms`: monotonic. Raises BrokerBusy."""
        request = call.request
        parked = self._hold.park(
            call,
            topic=request.topic,
            queue_id=ANY_QUEUE,
            queue_offset=0,
            deadline_ms=deadline_ms,
            filter_bytes=8 * len(request.tag_codes) + len(request.sql),
        )
        if request.pop_id:
            self._named[request.group, request.client_id, request.pop_id] = parked
        self._kinds.setdefault(request.topic, {}).setdefault(kind_of(request), {})[id(parked)] = parked

    def release(self, parked: Waiting) -> None:
        """It waits no more."""
        self._hold.release(parked)
        self._forget(parked)

    def named(self, group: str, client_id: str, pop_id: int) -> Waiting | None:
        """What its client calls so; None if it does not wait."""
        return self._named.get((group, client_id, pop_id))

    def kinds(self, topic: str) -> list[Kind]:
        """Of which somebody waits."""
        return list(self._kinds.get(topic, ()))

    def first(self, topic: str, kind: Kind) -> Waiting | None:
        """Who of this kind came first."""
        return next(iter(self._kinds.get(topic, {}).get(kind, {}).values()), None)

    def on_topic(self, topic: str) -> list[Waiting]:
        """All that wait for a topic."""
        return [parked for of_kind in self._kinds.get(topic, {}).values() for parked in of_kind.values()]

    def all_waiting(self) -> list[Waiting]:
        """Of all topics."""
        return [parked for topic in self._kinds for parked in self.on_topic(topic)]

    def expired(self, now_ms: int) -> list[Waiting]:
        """Those whose time is over; they wait no more. `now_ms`: monotonic."""
        expired = list(self._hold.expired(now_ms))
        for parked in expired:
            self._forget(parked)
        return expired

    def _forget(self, parked: Waiting) -> None:
        request = parked.waiting.request
        name = request.group, request.client_id, request.pop_id
        if self._named.get(name) is parked:
            del self._named[name]
        kind, of_topic = kind_of(request), self._kinds.get(parked.topic, {})
        of_kind = of_topic.get(kind, {})
        of_kind.pop(id(parked), None)
        if not of_kind:
            of_topic.pop(kind, None)
        if not of_topic:
            self._kinds.pop(parked.topic, None)
