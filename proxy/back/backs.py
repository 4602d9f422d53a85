"""The ways to the cluster of one process: the proxy's own, and one for each user whose clients come.

What a proxy does in a user's name goes over connections of that user's, with the delegation that a server gave when it found
the signature right. So rights, limits and audit are the user's, and what is known of topics is what the user may know.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Final, Self

from ...client.connection.connection import Connection, connect, release
from ...model.clock import monotonic_ms
from ...model.errors import BrokerBusy
from ..config import ProxyConfig
from .asked_clients import AskedClients
from .method_counts import MethodCounts
from .parts import Back
from .sends import SendBudget
from .users import ANONYMOUS, Users

log = logging.getLogger(__name__)

USERS_MAX: Final = 1_000
IDLE_MS: Final = 600_000
LOOK_S: Final = 10.0
RETRY_AFTER_MS: Final = 1_000


class Backs:
    """On the event loop that enters it."""

    def __init__(self, config: ProxyConfig) -> None:
        """Opens no socket before it is needed. Raises KeyFileRefused."""
        self._config = config
        self._connection = connect(",".join(config.namesrv), key=config.key or None)
        self._budget = SendBudget(config.limits.bytes_in_flight)
        self.own = Back(self._connection, self._budget)
        """With the rights of the proxy's own user."""
        self.grpc_counts = MethodCounts("grpc")
        self.remoting_counts = MethodCounts("remoting")
        self._users = Users(self.own.backend, is_secured=bool(config.key), is_required=config.signatures == "required")
        self.of_all = None if config.key else self.own
        """Everybody's, where there are no users; else None."""
        self.asked = AskedClients()
        """Clients of any user that can be asked something."""
        self._of_users: dict[str, Back] = {}
        self._used_ms: dict[str, int] = {}
        self._delegations: dict[str, str] = {}
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look(), name="zenit-proxy-look")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(release, self._connection, self.own.backend.waits)
            for back in self._of_users.values():
                stack.push_async_callback(back.close)

    @property
    def is_secured(self) -> bool:
        """Whether there are users."""
        return self._users.is_secured

    def all(self) -> list[Back]:
        """Those that are open."""
        return [self.own, *self._of_users.values()]

    async def of(self, access_key: str, signature: str, signed: bytes, *, address: str, deadline_ms: int) -> Back:
        """That of who signed. `address`: the client's. Raises AuthenticationFailed; BrokerBusy where too many users came."""
        signer = await self._users.signer(access_key, signature, signed, address=address, deadline_ms=deadline_ms)
        if signer.user == ANONYMOUS:
            return self.own
        back = self._of_users.get(signer.user)
        if back is None:
            if len(self._of_users) >= USERS_MAX:
                raise BrokerBusy(RETRY_AFTER_MS, f"this proxy has clients of {USERS_MAX} users")
            own = self._connection
            connection = Connection(own.key[0], own.remoting.cluster_id, self._config.key)
            back = self._of_users[signer.user] = Back(connection, self._budget, user=signer.user)
        if self._delegations.get(signer.user) != signer.delegation:
            self._delegations[signer.user] = signer.delegation
            back.backend.connection.remoting.act_for(signer.delegation)
        self._used_ms[signer.user] = monotonic_ms()
        return back

    async def _look(self) -> None:
        """Now and then: who is silent is forgotten; masters that no route names get heartbeats too."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("a look at the users failed; the next one is soon")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Side by side: where name servers are away, each takes some seconds."""
        self._users.look()
        await asyncio.gather(*(back.look() for back in self.all()))
        oldest_ms = monotonic_ms() - IDLE_MS
        for user in [name for name, used_ms in self._used_ms.items() if used_ms < oldest_ms]:
            if not len(self._of_users[user].presence):
                del self._used_ms[user]
                self._delegations.pop(user, None)
                log.info("a user's clients are gone user=%s", user)
                await self._of_users.pop(user).close()
