"""Whether this controller leads: what follows from its session and from who takes part. Pure.

A controller joins the others in ZooKeeper and stays among them as long as its session lasts; the first of them leads.
One whose connection is lost cannot know whether its session still lasts, so that it leads no more from that moment
on, and again only after it has asked who takes part. Two may believe for a while that they lead: every write of theirs
names the version it was built on, so that at most one of them gets its way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..group_store import ControllerMember, SessionState


@dataclass(frozen=True, slots=True)
class Leadership:
    """What is known of it. `members`: as they were last read, the first one leads."""

    is_connected: bool = False
    members: tuple[ControllerMember, ...] = ()
    is_current: bool = False  # the members were read since the connection was made

    def on_session(self, state: SessionState) -> Leadership:
        """The session is in another state; whoever led does not any more until the members were read again."""
        return replace(self, is_connected=state is SessionState.CONNECTED, is_current=False)

    def on_members(self, members: tuple[ControllerMember, ...]) -> Leadership:
        """They were just read. Those read over a connection that is lost meanwhile say nothing about now."""
        return replace(self, members=members, is_current=self.is_connected)

    @property
    def leads(self) -> bool:
        """This controller is the first."""
        return self.is_current and bool(self.members) and self.members[0].own

    @property
    def has_joined(self) -> bool:
        """This controller is among them, as far as is known."""
        return self.is_current and any(member.own for member in self.members)

    @property
    def leader(self) -> str:
        """The address of the one that leads; "" where that is not known."""
        return self.members[0].address if self.is_current and self.members else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all that take part, as far as is known."""
        return tuple(member.address for member in self.members)
