"""Foreign clients as members of their groups: the proxy sends their heartbeats to the brokers while they live.

A client lives while its link does and its own last heartbeat is less than 120 s old. Brokers know it by its own id, so it may
come back through another proxy at any time: a link that ends is no good-bye, since the client may be there already. Brokers
miss its heartbeats then, and end it after three. What brokers push (checks of transactions, changes of a group, resets,
replies) goes to the session that has the client.

Leases that renew are kept by an owner of the session's own, and not by the client's id: what a session's client never got,
since its proxy was killed, comes again though the client lives on at another.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, Protocol

from ...client.connection.client_process import ClientProcess
from ...client.connection.membership import Member
from ...model.clock import monotonic_ms
from ...model.errors import ZenitError
from ...remoting.commands import CheckTransaction, OffsetsReset, PushReply
from .backend import Backend
from .foreign_client import ForeignClient

log = logging.getLogger(__name__)

SILENT_MS: Final = 120_000
CLIENTS_MAX: Final = 100_000
ANNOUNCE_MS: Final = 3_000


class Listener(Protocol):
    """A session, as it is told of what concerns its client. On the event loop; must not block.

    `shares_queues`: it wants to hear of changes of its groups. Each member that comes or goes is told to all of them.
    """

    shares_queues: bool

    def on_check(self, request: CheckTransaction, record: bytes) -> None:
        """A broker asks what becomes of a transaction of one of the client's producer groups."""

    def on_group_changed(self) -> None:
        """A consumer group of the client has other members now."""

    def on_offsets_reset(self, request: OffsetsReset) -> None:
        """An operator moved a group of the client."""

    def on_reply(self, request: PushReply, record: bytes) -> None:
        """A reply to a request of the client."""


class _Present:
    __slots__ = ("client", "listener", "seen_ms")

    def __init__(self, client: ForeignClient, listener: Listener) -> None:
        self.client = client
        self.listener = listener
        self.seen_ms = monotonic_ms()


class Presence:
    """Of one process; on the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._present: dict[str, _Present] = {}

    def __len__(self) -> int:
        """The clients that are present."""
        return len(self._present)

    async def join(self, client: ForeignClient, listener: Listener) -> None:
        """Makes a client present, or changes what it says; its brokers know it then, as far as they answer.

        Raises GroupConsumedOtherwise, GroupNotFound, AccessDenied and what else a retry cannot mend.
        """
        known = self._present.get(client.client_id)
        if known is not None and known.client == client and known.listener is listener:
            known.seen_ms = monotonic_ms()
            return
        members = self._backend.connection.members
        post = self._backend.waits.post
        if known is not None:
            members.forget(client.client_id)
        elif len(self._present) >= CLIENTS_MAX:
            self._drop_silent()
        self._present[client.client_id] = _Present(client, listener)
        member = _member(client)
        members.join(
            member,
            on_change=(lambda: post(listener.on_group_changed)) if listener.shares_queues else None,
            on_reset=lambda request: post(lambda: listener.on_offsets_reset(request)),
            on_reply=lambda request, record: post(lambda: listener.on_reply(request, record)),
            on_check=lambda request, record: post(lambda: listener.on_check(request, record)),
        )
        await self._announce(member)

    async def own(self, owner: str, client: ForeignClient) -> None:
        """Brokers renew the leases of `owner` from now on, until `disown`. `client`: who pops."""
        member = Member(owner, process=_process(client))
        self._backend.connection.members.join(member)
        await self._announce(member)

    def disown(self, owner: str) -> None:
        """Its leases end when their time is over."""
        self._backend.connection.members.forget(owner)

    async def _announce(self, member: Member) -> None:
        """Also to brokers that no route names: a proxy that has just started knows no routes yet."""
        members = self._backend.connection.members
        addresses = set(self._backend.connection.routes.masters().values())
        with suppress(ZenitError):  # no name server answers now
            masters = await self._backend.masters(deadline_ms=monotonic_ms() + ANNOUNCE_MS)
            members.reach(masters.values())  # they are told of its end, too
            addresses.update(masters.values())
        await members.announce(member, sorted(addresses), self._backend.waits, timeout_ms=ANNOUNCE_MS)

    def heard(self, client_id: str) -> bool:
        """The client sent a heartbeat of its own; False if it is not present."""
        present = self._present.get(client_id)
        if present is None:
            return False
        present.seen_ms = monotonic_ms()
        return True

    def lose(self, client_id: str, listener: Listener) -> None:
        """The client's link has ended, if this listener still has it. Brokers hear of it from nobody: see above."""
        present = self._present.get(client_id)
        if present is not None and present.listener is listener:
            del self._present[client_id]
            self._backend.connection.members.forget(client_id)

    async def leave(self, client_id: str, listener: Listener | None = None) -> None:
        """The client says good-bye. `listener`: only if this one still has it."""
        present = self._present.get(client_id)
        if present is None or (listener is not None and present.listener is not listener):
            return
        del self._present[client_id]
        try:
            await self._backend.connection.members.leave(client_id, self._backend.waits)
        except ZenitError as error:
            log.info("a client is not signed off client=%s error=%s", client_id, error)

    def look(self) -> list[str]:
        """To be called now and then: forgets clients that were silent for too long; returns their ids."""
        return self._drop_silent()

    def _drop_silent(self) -> list[str]:
        oldest_ms = monotonic_ms() - SILENT_MS
        silent = [client_id for client_id, one in self._present.items() if one.seen_ms < oldest_ms]
        for client_id in silent:
            del self._present[client_id]
            self._backend.connection.members.forget(client_id)
        return silent


def _member(client: ForeignClient) -> Member:
    """As brokers know it."""
    return Member(
        client.client_id,
        more_producer_groups=client.producer_groups,
        more_consumers=client.consumers,
        process=_process(client),
    )


def _process(client: ForeignClient) -> ClientProcess:
    """It has no number: a client may come through several proxies."""
    return ClientProcess(client.language[:255], client.version[:255], client.host[:255], 0, 0)
