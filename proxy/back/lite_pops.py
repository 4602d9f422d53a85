"""Lite topics for foreign clients: what each subscribes to is told to the brokers, and popped, as a LiteConsumer does.

A client tells all of its subscriptions each half minute. Until it has told a new proxy of them, that one pops nothing for it,
so that brokers go on with what they know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from ...client.connection.membership import Member
from ...client.consuming.lite.lite_work import LiteWork
from ...client.consuming.simple.lease import lease_of
from ...client.consuming.simple.receiving import Receiving
from ...client.consuming.start_from import FIRST
from ...model.errors import BrokerBusy
from ...model.plain_dataclass import dataclass
from .acks import Acks
from .backend import Backend
from .lite_receipt import LiteReceipt
from .pops import PoppedMessage

CLIENTS_MAX: Final = 20_000
TELL_MS: Final = 3_000
UNTOLD_MS: Final = 1_000
"""So long a pop waits whose client has not told what it subscribes to."""
RETRY_AFTER_MS: Final = 1_000

OnLost = Callable[[str], None]
"""Is told of a lite topic that another member of the group has now. On the event loop."""


@dataclass(frozen=True, slots=True)
class LiteClient:
    """Who receives lite topics: a client in a group, of the parent `topic`."""

    client_id: str
    group: str
    topic: str


class _ClientWork(LiteWork):
    """Of one client. Its membership is not kept here (presence)."""

    look_ms: ClassVar[int] = 10_000

    def _join(self) -> None:
        """See PopWork."""

    async def _announce(self, member: Member, addresses: list[str]) -> None:
        """See PopWork."""


class ForeignLitePops:
    """Of one process; on the event loop."""

    def __init__(self, backend: Backend, acks: Acks) -> None:
        self._backend = backend
        self._acks = acks
        self._works: dict[LiteClient, _ClientWork] = {}

    def knows(self, client: LiteClient) -> bool:
        """It told what it subscribes to."""
        return client in self._works

    async def subscribe(
        self, client: LiteClient, names: Sequence[str], on_lost: OnLost, *, only: bool, renews: bool
    ) -> None:
        """It wants these, too; `only`: these and no others. `renews`: the broker renews its leases while it lives. Raises
        TopicNotFound, NotLiteParent, LiteQuotaExceeded: then nothing is added."""
        work = self._works.get(client)
        if work is None:
            work = self._new_work(client, on_lost, renews=renews)
        if only:
            others = work.subscription().get(client.topic, frozenset()).difference(names)
            if others:
                await work.unsubscribe_lite(client.topic, others)
        await work.subscribe_lite(client.topic, names)
        self._works[client] = work

    async def unsubscribe(self, client: LiteClient, names: Sequence[str] | None) -> None:
        """It wants these no more; None: none at all."""
        work = self._works.get(client)
        if work is not None:
            await work.unsubscribe_lite(client.topic, names)

    async def pop(
        self, client: LiteClient, max_messages: int, *, invisible_ms: int, wait_ms: int
    ) -> list[PoppedMessage]:
        """Up to `max_messages` of any of its lite topics; [] where none come in time. Raises as Pops.pop does."""
        work = self._works.get(client)
        if work is None or not work.subscription().get(client.topic):
            await self._backend.waits.sleep(min(wait_ms, UNTOLD_MS))
            return []
        found = []
        for message in await Receiving(work, max_messages, invisible_ms, wait_ms).run():
            lease = lease_of(message, client.group)
            part = lease.part
            receipt = LiteReceipt(part.handle, lease.index, part.broker_name, part.group, part.topic)
            found.append(PoppedMessage(message, receipt.text()))
        return found

    def forget(self, client_id: str) -> None:
        """It is gone. Brokers forget it when its heartbeats end."""
        for client in [client for client in self._works if client.client_id == client_id]:
            self._works.pop(client).close()

    def _new_work(self, client: LiteClient, on_lost: OnLost, *, renews: bool) -> _ClientWork:
        if len(self._works) >= CLIENTS_MAX:
            raise BrokerBusy(RETRY_AFTER_MS, f"this proxy has {CLIENTS_MAX} clients of lite topics")
        post = self._backend.waits.post

        def on_evicted(_: str, names: list[str]) -> None:
            for name in names:
                post(lambda name=name: on_lost(name))  # type: ignore[misc]

        work = _ClientWork(
            self._backend.connection,
            self._backend.waits,
            client.group,
            client_id=client.client_id,
            start_from=FIRST,
            renews=renews,
            is_ordered=False,
            timeout_ms=TELL_MS,
            on_ack_error=None,
            on_evicted=on_evicted,
        )
        work.acks = self._acks.of_group(client.group)
        return work
