"""Pops of lite topics that wait for messages, by the member that asks. Loop thread."""

from __future__ import annotations

from ...remoting.commands import PopLite
from ...remoting.server import Call
from ..handlers.pull_hold import Parked, PullHold
from .subscriptions import MemberName

Waiting = Parked[Call[PopLite]]

ANY: int = -1


def member_of(request: PopLite) -> MemberName:
    """Who asks."""
    return MemberName(request.group, request.client_id, request.topic)


class WaitingLitePops:
    """Those of one member in the order in which they came."""

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        self._hold: PullHold[Call[PopLite]] = PullHold(count_max=count_max, bytes_max=bytes_max)
        self._by_member: dict[MemberName, dict[int, Waiting]] = {}

    @property
    def count(self) -> int:
        """How many wait."""
        return self._hold.count

    def park(self, call: Call[PopLite], deadline_ms: int) -> None:
        """`deadline_ms`: monotonic. Raises BrokerBusy."""
        parked = self._hold.park(call, topic=call.request.topic, queue_id=ANY, queue_offset=0, deadline_ms=deadline_ms)
        self._by_member.setdefault(member_of(call.request), {})[id(parked)] = parked

    def release(self, parked: Waiting) -> None:
        """It waits no more."""
        self._hold.release(parked)
        self._forget(parked)

    def first(self, member: MemberName) -> Waiting | None:
        """The member's first."""
        return next(iter(self._by_member.get(member, {}).values()), None)

    def of_member(self, member: MemberName) -> list[Waiting]:
        """All of a member."""
        return list(self._by_member.get(member, {}).values())

    def named(self, group: str, client_id: str, pop_id: int) -> Waiting | None:
        """What its client calls so; None if it does not wait."""
        return next(
            (
                parked
                for member, of_member in self._by_member.items()
                if member[:2] == (group, client_id)
                for parked in of_member.values()
                if parked.waiting.request.pop_id == pop_id
            ),
            None,
        )

    def all_waiting(self) -> list[Waiting]:
        """Of all members."""
        return self._hold.all_waiting()

    def on_topic(self, topic: str) -> list[Waiting]:
        """Those of a parent's lite topics."""
        return self._hold.waiting_on(topic, ANY)

    def expired(self, now_ms: int) -> list[Waiting]:
        """Those whose time is over; they wait no more. `now_ms`: monotonic."""
        expired = list(self._hold.expired(now_ms))
        for parked in expired:
            self._forget(parked)
        return expired

    def _forget(self, parked: Waiting) -> None:
        member = member_of(parked.waiting.request)
        of_member = self._by_member.get(member, {})
        of_member.pop(id(parked), None)
        if not of_member:
            self._by_member.pop(member, None)
