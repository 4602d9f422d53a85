"""Decides whether this controller leads, from its session and the members in ZooKeeper. Pure.

A controller joins the members in ZooKeeper and stays as long as its session lasts; the first of them leads.
One whose connection is lost cannot know whether its session still lasts. So it no longer leads from that moment
on, and again only after it has read the members. Two may believe for a while that they lead: each of their writes
names the version it was built on, so at most one of them succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..group_store import ControllerMember, SessionState


@dataclass(frozen=True, slots=True)
class Leadership:
    """`members`: as last read, the first one leads."""

    is_connected: bool = False
    members: tuple[ControllerMember, ...] = ()
    is_current: bool = False  # the members were read since the connection was made

    def on_session(self, state: SessionState) -> Leadership:
        """The state of the session changed; a leader no longer leads until the members are read again."""
        return replace(self, is_connected=state is SessionState.CONNECTED, is_current=False)

    def on_members(self, members: tuple[ControllerMember, ...]) -> Leadership:
        """They were just read. If the connection was lost meanwhile, they are outdated."""
        return replace(self, members=members, is_current=self.is_connected)

    @property
    def leads(self) -> bool:
        """This controller is the first."""
        return self.is_current and bool(self.members) and self.members[0].own

    @property
    def has_joined(self) -> bool:
        """This controller is a member, as far as known."""
        return self.is_current and any(member.own for member in self.members)

    @property
    def leader(self) -> str:
        """The address of the leader; "" if unknown."""
        return self.members[0].address if self.is_current and self.members else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all members, as far as known."""
        return tuple(member.address for member in self.members)
