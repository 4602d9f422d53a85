"""Decides whether a replica may answer a request now: the request's row says who serves it.

Loop thread.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from ...model.errors import BrokerBusy, NotEnoughReplicas, NotMaster
from ...model.groups.group import KnownGroup
from ...remoting.commands import Reply, Request, ServedBy
from ...remoting.request_rows import Row
from ...remoting.server import Call, Handler
from ..draining.held_calls import HeldCalls

TAKEOVER_RETRY_MS: Final = 50

_ANY: Final = frozenset({ServedBy.ANY_REPLICA, ServedBy.EVERY_SERVER})
_IN_SYNC: Final = frozenset({ServedBy.MASTER_IN_SYNC, ServedBy.MASTER_CONFIRMED_IN_SYNC})
_CONFIRMED: Final = frozenset({ServedBy.MASTER_CONFIRMED, ServedBy.MASTER_CONFIRMED_IN_SYNC})


class LeadingState(Protocol):
    """A master's side of replication, as far as requests depend on it."""

    @property
    def takes_writes(self) -> bool:
        """Enough replicas are in sync."""

    @property
    def serves_state(self) -> bool:
        """The inherited log is confirmed."""


class GatedReplica(Protocol):
    """The replica, as far as requests depend on it."""

    @property
    def master(self) -> LeadingState | None:
        """None while it is not master."""

    @property
    def known(self) -> KnownGroup | None:
        """The newest news of its group."""

    @property
    def epoch(self) -> int:
        """The highest epoch it knows."""


class RequestGate:
    """The gate of one replica."""

    def __init__(self, replica: GatedReplica, broker_name: str, held: HeldCalls) -> None:
        """`held`: where requests wait that the next master will answer."""
        self._replica = replica
        self._broker_name = broker_name
        self._held = held

    def guarded(self, row: Row) -> Handler:
        """The row's handler, after the check that this replica may answer such a request now."""
        replica, request_class, handler, held = self._replica, row.request_class, row.handler, self._held
        if request_class.served_by in _ANY:
            return handler
        if request_class.served_by is ServedBy.MASTER_IN_SYNC:  # sends: `check` without its other checks

            def on_send(call: Call[Any]) -> Reply | None:
                master = replica.master
                if master is None or not master.takes_writes:
                    if not held.is_open:
                        raise self.refusal()
                    held.hold(call)
                    return None
                return handler(call)

            return on_send

        may_wait = request_class.served_by in _IN_SYNC | _CONFIRMED

        def on_request(call: Call[Any]) -> Reply | None:
            if held.is_open and may_wait:
                held.hold(call)
                return None
            self.check(request_class)
            return handler(call)

        return on_request

    def check(self, request_class: type[Request]) -> None:
        """Raises the reason why this replica may not answer now: NotMaster, NotEnoughReplicas, BrokerBusy."""
        served_by = request_class.served_by
        if served_by in _ANY:
            return
        master = self._replica.master
        if master is None:
            raise self.refusal()
        if served_by in _CONFIRMED and not master.serves_state:
            raise BrokerBusy(TAKEOVER_RETRY_MS, "a new master is taking over; try again")
        if served_by in _IN_SYNC and not master.takes_writes:
            raise self.refusal()

    def refusal(self) -> NotMaster | NotEnoughReplicas:
        """The reason why a request to the master is refused."""
        replica, known = self._replica, self._replica.known
        if replica.master is None or known is None:
            return NotMaster(self._broker_name, replica.epoch)
        return NotEnoughReplicas(len(known.node.in_sync), known.node.settings.min_in_sync)
