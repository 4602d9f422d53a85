"""Carries out the drain of a replica: holds requests, tells the controller, says goodbye to the master, ends the process.

drain_steps decides; this looks how the replica stands after each turn of the loop while a drain is under way, and in each tick.
Loop thread.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from ...model.clock import Clock
from ...model.errors import BrokerBusy, InvalidParameter, NotMaster, ZenitError
from ...model.events.table import DRAIN_STEP
from ...model.events.telling import tell
from ...model.groups.group import AckMode
from ...remoting.commands import Done, DrainBroker
from ...remoting.server import Call
from ..replication.replica import GroupReplica, ReplicaController
from ..replication.role import Role
from .drain_steps import DrainSteps, ReplicaStanding, Step
from .held_calls import HeldCalls

log = logging.getLogger(__name__)

RESUMED_RETRY_MS: Final = 1


class DrainHost(Protocol):
    """The broker."""

    def on_handed_over(self) -> None:
        """Another replica does what this one did: who waits here for messages asks there from now on."""

    def on_drained(self) -> None:
        """The process may end."""


class Drain:
    """The drain of one replica; `held` is for its request gate. Set `controller` before the first `begin`.

    `is_under_way`: `look` may have something to do; asked in each turn of the loop.
    """

    controller: ReplicaController

    def __init__(
        self, replica: GroupReplica, held: HeldCalls, clock: Clock, host: DrainHost, *, broker_name: str, name: str
    ) -> None:
        self._replica = replica
        self._held = held
        self._clock = clock
        self._host = host
        self._broker_name = broker_name
        self._name = name
        self._steps = DrainSteps()
        self._told = Step.NONE
        self.is_under_way = False

    @property
    def stays(self) -> bool:
        """It drains, and its process goes on."""
        return self.is_under_way and not self._steps.ends

    @property
    def tells(self) -> bool:
        """Heartbeats say that this replica drains."""
        return self._steps.tells

    @property
    def step(self) -> str | None:
        """Where it is, for people; None if it does not drain. Any thread."""
        step = self._steps.step
        return None if step is Step.NONE else step.value

    # ---- who asks for it

    def on_drain_broker(self, call: Call[DrainBroker]) -> Done:
        """DrainBroker. Raises InvalidParameter."""
        request = call.request
        if request.undo:
            if self._steps.ends:
                raise InvalidParameter("undo", True, f"a replica that stays; {self._name} ends")
            self.undo()
        else:
            if not (request.ends or self.controller.elects):
                raise InvalidParameter("ends", False, "true for a static master: nobody else can lead its group")
            self.begin(ends=request.ends)
        return Done()

    def begin(self, *, ends: bool) -> None:
        """From now on. `ends`: and then the process ends."""
        self._steps.begin(ends=ends, now_ms=self._clock.monotonic_ms())
        self.look()

    def undo(self) -> None:
        """This replica works as before, and may be elected."""
        self._steps.undo()
        self._follow_up(was_telling=True)

    # ---- what is done

    def look(self) -> None:
        """The next step, if it is time for it."""
        steps = self._steps
        was_telling, was_done = steps.tells, steps.step is Step.DONE
        says_goodbye = steps.on_look(self._standing(), self._clock.monotonic_ms())
        self._follow_up(was_telling=was_telling)
        if says_goodbye:
            self._replica.leave()
        if steps.step is Step.DONE and not was_done:
            self._host.on_drained()

    def _follow_up(self, *, was_telling: bool) -> None:
        """Makes gate, heartbeats and log follow the step."""
        steps, held = self._steps, self._held
        self.is_under_way = steps.is_under_way
        if steps.step is not self._told:
            self._told = steps.step
            tell(log, DRAIN_STEP, replica=self._name, epoch=self._replica.epoch, step=steps.step.value)
        if steps.holds:
            held.is_open = True
        if (master := self._replica.master) is not None:
            master.hand_over(is_begun=steps.holds)
        if held.is_open and not steps.holds:
            held.release(self._where_to())
            if master is None:
                self._host.on_handed_over()
        if steps.tells is not was_telling:
            self.controller.beat()

    def _where_to(self) -> ZenitError:
        """What those are told who waited."""
        if self._replica.master is None:
            return NotMaster(self._broker_name, self._replica.epoch)
        return BrokerBusy(RESUMED_RETRY_MS, "no other replica took over")

    def _standing(self) -> ReplicaStanding:
        replica, known = self._replica, self._replica.known
        in_sync = () if known is None else known.node.in_sync
        others = self.controller.elects and any(name != self._name for name in in_sync)
        return ReplicaStanding(
            replica.role,
            is_linked=self.controller.is_linked,
            has_successors=others,
            is_in_sync=self._name in in_sync,
            follows=replica.role is Role.SLAVE and replica.follows,
            is_confirmed=replica.master is None or replica.master.is_confirmed,
            may_cut=known is not None and known.node.settings.ack_mode is AckMode.ALL,
        )
