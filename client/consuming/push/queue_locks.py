"""Locks of queues that are consumed in order: one member of the group asks the brokers for a lease on each.

A lease is counted from the request, on this client's clock, so it ends here before it ends at the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import ZenitError
from ....model.queue import MessageQueue
from ....remoting.commands import LockQueues, LockReply, UnlockQueues
from ...connection.connection import Connection
from ...connection.waiting import Waits

log = logging.getLogger(__name__)

RENEW_MS_MAX: Final = 20_000

OnLocked = Callable[[list[MessageQueue], dict[MessageQueue, int]], None]
"""(queues asked for, {queue that is ours: until when, monotonic ms}), in the thread that got the reply; must not block."""


class QueueLocks:
    """The locks of one member. Thread-safe."""

    def __init__(self, connection: Connection, waits: Waits, group: str, client_id: str) -> None:
        self._connection = connection
        self._waits = waits
        self._group = group
        self._client_id = client_id
        self._renew_after_ms = RENEW_MS_MAX
        self._renewed_ms = monotonic_ms()

    async def lock(self, queues: Iterable[MessageQueue], *, timeout_ms: int) -> dict[MessageQueue, int]:
        """{queue that is ours now: until when}. A broker that does not answer grants none; this is logged."""
        leases: dict[MessageQueue, int] = {}
        for part in _by_broker(queues):
            asked_ms = monotonic_ms()
            try:
                request = self._request(part, renews=False)
                reply, _ = await self._waits.call(self._address(part), request, timeout_ms=timeout_ms)
            except ZenitError as error:
                log.warning("queues not locked group=%s broker=%s error=%s", self._group, part[0].broker_name, error)
            else:
                leases |= self._leases(part, reply, asked_ms)
        return leases

    def is_renewal_due(self) -> bool:
        """A third of a lease, or 20 s, has passed since the last renewal."""
        return monotonic_ms() - self._renewed_ms >= self._renew_after_ms

    def renew_nowait(self, queues: Iterable[MessageQueue], *, timeout_ms: int, on_locked: OnLocked) -> None:
        """Asks to keep the queues that we hold without a gap; `on_locked` is called for each broker that answers."""
        self._renewed_ms = monotonic_ms()
        for part in _by_broker(queues):
            self._renew_part(part, timeout_ms, on_locked)

    def _renew_part(self, part: list[MessageQueue], timeout_ms: int, on_locked: OnLocked) -> None:
        asked_ms = monotonic_ms()

        def on_reply(reply: LockReply | None, _payload: bytes, error: ZenitError | None) -> None:
            if reply is None:  # the lease continues until its end
                log.warning("locks not renewed group=%s broker=%s error=%s", self._group, part[0].broker_name, error)
            else:
                on_locked(part, self._leases(part, reply, asked_ms))

        try:
            self._connection.remoting.send_nowait(
                self._address(part), self._request(part, renews=True), None, timeout_ms=timeout_ms, on_reply=on_reply
            )
        except ZenitError as error:
            on_reply(None, b"", error)

    async def unlock(self, queues: Iterable[MessageQueue], *, timeout_ms: int) -> None:
        """Releases them. If that fails, it is logged, and the leases end by themselves."""
        for part in _by_broker(queues):
            request = UnlockQueues(self._group, self._client_id, _names(part))
            try:
                await self._waits.call(self._address(part), request, timeout_ms=timeout_ms)
            except ZenitError as error:
                log.warning("queues not unlocked group=%s broker=%s error=%s", self._group, part[0].broker_name, error)

    def _leases(self, part: list[MessageQueue], reply: LockReply, asked_ms: int) -> dict[MessageQueue, int]:
        self._renew_after_ms = min(RENEW_MS_MAX, reply.lease_ms // 3)
        ours = set(reply.queues)
        return {queue: asked_ms + reply.lease_ms for queue in part if (queue.topic, queue.queue_id) in ours}

    def _request(self, part: list[MessageQueue], *, renews: bool) -> LockQueues:
        return LockQueues(self._group, self._client_id, _names(part), renews)

    def _address(self, part: list[MessageQueue]) -> str:
        return self._connection.routes.address_of(part[0].topic, part[0].broker_name)


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker_name, []).append(queue)
    return list(parts.values())


def _names(part: list[MessageQueue]) -> tuple[tuple[str, int], ...]:
    return tuple((queue.topic, queue.queue_id) for queue in part)
