"""All that the fronts use of the cluster, opened and closed together: one of it in each process of a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ...client.aio.event_loop import OnLoop
from ...client.connection.connection import connect, release
from ...model.errors import ZenitError
from ..config import ProxyConfig
from .acks import Acks
from .backend import Backend
from .cluster_settings import ClusterSettings
from .pops import Pops
from .presence import Presence
from .sends import Sends
from .users import Users

LOOK_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Back:
    """On the event loop that opened it."""

    config: ProxyConfig
    backend: Backend
    sends: Sends
    acks: Acks
    pops: Pops
    presence: Presence
    users: Users
    settings: ClusterSettings


@asynccontextmanager
async def open_back(config: ProxyConfig) -> AsyncIterator[Back]:
    """Opens no socket before it is needed. Raises KeyFileRefused."""
    connection = connect(",".join(config.namesrv), key=config.key or None)
    waits = OnLoop(connection.remoting, "proxy")
    waits.calls()
    backend = Backend(connection, waits)
    acks = Acks(backend)
    back = Back(
        config,
        backend,
        Sends(connection, waits, bytes_max=config.limits.bytes_in_flight),
        acks,
        Pops(backend, acks),
        Presence(backend),
        Users(backend, is_secured=bool(config.key), is_required=config.signatures == "required"),
        ClusterSettings(backend),
    )
    looking = asyncio.create_task(_look(back), name="zenit-proxy-look")
    try:
        yield back
    finally:
        looking.cancel()
        await release(connection, waits)


async def _look(back: Back) -> None:
    """Now and then: who is silent is forgotten; masters that no route names get heartbeats too."""
    while True:
        back.presence.look()
        try:
            deadline_ms = back.backend.deadline_ms(3_000)
            masters = await back.backend.masters(deadline_ms=deadline_ms)
            back.backend.connection.members.reach(masters.values())
        except ZenitError:
            pass  # no name server answers now: the brokers that routes name are reached
        await asyncio.sleep(LOOK_S)
