"""Decides the steps of a drain: a replica hands over what it does in its group, and then ends or stays. Pure.

    master   holding --its log is confirmed--> asking --another was elected--> (a slave now)
                '--nobody could take over, or HOLD_MS --> done | waiting
    slave    stays: drained           ends: leaving --the node shows it out of the in-sync set--> done

A master first *holds* requests that would write: they wait, unanswered. So all that it has taken is acknowledged before
another is elected, nothing in flight is cut, and nobody has to send anything twice. Then its heartbeats say that it drains,
and the controller elects another (detection). The requests that it holds are answered with NotMaster once it follows that one:
by then name servers know where to go.

If it ends but nobody takes over, it ends as without a drain. If it stays, it takes writes again and goes on saying that it
drains, so that the next replica that can take over does; that one is elected without holding. A replica that
drains is elected only if nobody else can be (candidates). All waits have a limit, all together DRAIN_MS. Times are monotonic
milliseconds.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...model.plain_dataclass import dataclass
from ..replication.role import Role

DRAIN_MS: Final = 15_000
"""After this time a replica that is to end does so, whatever is left to do. Closing its store takes a few seconds at most."""
LINK_MS: Final = 2_000
"""For a controller that answers; writes go on meanwhile."""
HOLD_MS: Final = 1_000
"""Until all that the log has is confirmed."""
ASK_MS: Final = 2_000
"""For the election of another master, with the requests held."""
FOLLOW_MS: Final = 1_000
"""After an election, until this replica follows the new master: longer than that no request is held."""
LEAVE_MS: Final = 3_000
"""For the write that takes a slave out of the in-sync set."""
GOODBYE_MS: Final = 500
"""The time after which a goodbye that changed nothing is repeated."""


class Step(Enum):
    """Where a drain is."""

    NONE = "none"
    BEGUN = "begun"
    HOLDING = "holding"
    ASKING = "asking for another master"
    WAITING = "waiting for a replica that can take over"
    DRAINED = "drained"
    LEAVING = "leaving the in-sync set"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ReplicaStanding:
    """How a replica stands in its group now.

    `is_linked`: a controller answers. `has_successors`: other replicas are in sync, and a controller may elect them.
    `is_in_sync`: it is in the in-sync set, as last known. `follows`: as a slave, its session is open. `is_confirmed`: as a
    master, all that its log has is confirmed, or waits for more replicas than there are. `may_cut`: what is not confirmed
    was not acknowledged either, so that an election loses nothing of it.
    """

    role: Role
    is_linked: bool = True
    has_successors: bool = True
    is_in_sync: bool = True
    follows: bool = False
    is_confirmed: bool = True
    may_cut: bool = True


class DrainSteps:
    """`step`; `holds`: requests that would write wait; `tells`: heartbeats say that this replica drains; `ends`: the process
    ends once that is done."""

    def __init__(self) -> None:
        self.step = Step.NONE
        self.ends = False
        self.holds = False
        self._role = Role.CANDIDATE
        self._begun_ms = self._since_ms = 0  # of the drain, and of its present step
        self._goodbye_ms: int | None = None

    @property
    def tells(self) -> bool:
        """Controllers are told that it drains, and elect others."""
        return self.step not in (Step.NONE, Step.BEGUN, Step.HOLDING)

    @property
    def is_under_way(self) -> bool:
        """`on_look` may have something to do."""
        return self.step is not Step.NONE

    def begin(self, *, ends: bool, now_ms: int) -> None:
        """It is to drain. Again: it may be told to end while it drains, not the other way round."""
        if self.step is Step.NONE or (ends and not self.ends):
            self.step, self._begun_ms, self._since_ms = Step.BEGUN, now_ms, now_ms
            self._goodbye_ms = None
        self.ends = self.ends or ends

    def undo(self) -> None:
        """It is to work as before; not if it is to end, which may have begun."""
        if not self.ends:
            self.step, self.holds = Step.NONE, False

    def on_look(self, now: ReplicaStanding, now_ms: int) -> bool:
        """Time has passed, or something has changed. True if the slave is to say goodbye to its master."""
        if self.step in (Step.NONE, Step.DONE):
            return False
        if now.role is not self._role:
            self._role, self._since_ms = now.role, now_ms
        if self.ends and now_ms - self._begun_ms >= DRAIN_MS:
            self._go_to(Step.DONE, now_ms)
        elif now.role is Role.MASTER:
            self._as_master(now, now_ms)
        else:
            self._let_go(now, now_ms)
            if now.role is Role.SLAVE:
                return self._as_slave(now, now_ms)
            if self.ends and now_ms - self._since_ms >= LEAVE_MS:  # nobody leads, and nobody says who does
                self._go_to(Step.DONE, now_ms)
            elif self.step is Step.BEGUN and not self.ends:
                self._go_to(Step.WAITING, now_ms)
        return False

    def _as_master(self, now: ReplicaStanding, now_ms: int) -> None:
        if self.step in (Step.WAITING, Step.DRAINED):
            self._go_to(Step.WAITING, now_ms)
            return
        if self.step is Step.LEAVING:  # it was elected, because nobody else could be
            self._go_to(Step.BEGUN, now_ms)
        waited_ms = now_ms - self._since_ms
        if not now.has_successors:
            self._give_up(now_ms)
        elif self.step is Step.BEGUN:
            if now.is_linked:
                self._go_to(Step.HOLDING, now_ms)
                self.holds = True
            elif waited_ms >= LINK_MS:
                self._give_up(now_ms)
        elif self.step is Step.HOLDING:
            if now.is_confirmed or (waited_ms >= HOLD_MS and now.may_cut):
                self._go_to(Step.ASKING, now_ms)
            elif waited_ms >= HOLD_MS:
                self._give_up(now_ms)
        elif waited_ms >= ASK_MS:
            self._give_up(now_ms)

    def _give_up(self, now_ms: int) -> None:
        """Nobody takes over."""
        self.holds = False
        self._go_to(Step.DONE if self.ends else Step.WAITING, now_ms)

    def _let_go(self, now: ReplicaStanding, now_ms: int) -> None:
        """Another leads: the requests that wait are sent on, as soon as that one is known to take them."""
        if now.follows or now_ms - self._since_ms >= FOLLOW_MS:
            self.holds = False

    def _as_slave(self, now: ReplicaStanding, now_ms: int) -> bool:
        if not self.ends:
            self._go_to(Step.DRAINED, now_ms)
            return False
        if self.step is not Step.LEAVING:
            self._go_to(Step.LEAVING, now_ms)
            self._goodbye_ms = None
        if not now.is_in_sync or now_ms - self._since_ms >= LEAVE_MS:
            self._go_to(Step.DONE, now_ms)
            return False
        if not now.follows or (self._goodbye_ms is not None and now_ms - self._goodbye_ms < GOODBYE_MS):
            return False
        self._goodbye_ms = now_ms
        return True

    def _go_to(self, step: Step, now_ms: int) -> None:
        if step is not self.step:
            self.step, self._since_ms = step, now_ms
        if step is Step.DONE:
            self.holds = False
