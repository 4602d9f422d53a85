"""All that the fronts use of the cluster over one connection."""

from __future__ import annotations

from typing import Final

from ...client.aio.event_loop import OnLoop
from ...client.connection.connection import Connection
from ...model.errors import ZenitError
from .acks import Acks
from .backend import Backend
from .cluster_settings import ClusterSettings
from .lite_pops import ForeignLitePops
from .pops import Pops
from .presence import Presence
from .sends import SendBudget, Sends

MASTERS_MS: Final = 3_000


class Back:
    """On the event loop on which it is made. `user`: in whose name it is; "" = the proxy's own."""

    def __init__(self, connection: Connection, budget: SendBudget, *, user: str = "") -> None:
        self.user = user
        self.budget = budget
        waits = OnLoop(connection.remoting, "proxy")
        waits.calls()
        self.backend = Backend(connection, waits)
        self.sends = Sends(self.backend, budget)
        self.acks = Acks(self.backend)
        self.pops = Pops(self.backend, self.acks)
        self.lite_pops = ForeignLitePops(self.backend, self.acks)
        self.presence = Presence(self.backend)
        self.settings = ClusterSettings(self.backend)

    async def look(self) -> None:
        """Now and then: who is silent is forgotten; masters that no route names get heartbeats too."""
        self.presence.look()
        if not len(self.presence):
            return
        try:
            masters = await self.backend.masters(deadline_ms=self.backend.deadline_ms(MASTERS_MS))
        except ZenitError:
            return  # no name server answers now: the brokers that routes name are reached
        self.backend.connection.members.reach(masters.values())

    async def close(self) -> None:
        """Ends the connection, which nobody else uses."""
        await self.backend.waits.run_apart(self.backend.connection.close)
