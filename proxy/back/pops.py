"""Pops for foreign clients: one request of theirs asks all brokers of the topic, and the first that has messages ends it.

What comes too late, or when the client is gone, is released at once: others get it, and that was no attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import ClassVar, Final

from ...client.connection.membership import Member
from ...client.consuming.simple.division import PopTarget
from ...client.consuming.simple.lease import Lease
from ...client.consuming.simple.receiving import Receiving
from ...client.consuming.simple.work import PopWork
from ...client.consuming.start_from import FIRST
from ...model.errors import RemoteProtocolError, ZenitError
from ...model.handles.receipt_handle import with_index
from ...model.plain_dataclass import dataclass
from ...model.subscription import Subscription
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import CancelPop, PopMessages, PopReply
from .acks import Acks
from .backend import Backend

WORKS_MAX: Final = 20_000
ROUTE_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whom a client pops for, and what. `client_id`: whose heartbeats keep leases that renew, the owner of a session.
    `broker_name`: "" = of all brokers."""

    group: str
    subscription: Subscription
    client_id: str
    renews: bool = False
    is_ordered: bool = False
    broker_name: str = ""


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """`message.reconsume_times`: how often it was handed out before. `handle`: names it to any proxy."""

    message: StoredMessage
    handle: str


class _TopicWork(PopWork):
    """The pops of one client for one topic. Its membership is not kept here (presence)."""

    look_ms: ClassVar[int] = 10_000

    def __init__(self, backend: Backend, acks: Acks, wanted: Wanted) -> None:
        self._broker_name = wanted.broker_name
        super().__init__(
            backend.connection,
            backend.waits,
            wanted.group,
            client_id=wanted.client_id,
            start_from=FIRST,
            renews=wanted.renews,
            is_ordered=wanted.is_ordered,
            timeout_ms=ROUTE_MS,
            on_ack_error=None,
        )
        self.acks = acks.of_group(wanted.group)
        self.subscribe([wanted.subscription])

    def _join(self) -> None:
        """See PopWork."""

    async def _announce(self, member: Member, addresses: list[str]) -> None:
        """See PopWork."""

    async def targets(self, deadline_ms: int) -> tuple[Mapping[str, Subscription], Sequence[PopTarget]]:
        """See PopWork."""
        subscriptions, targets = await super().targets(deadline_ms)
        if self._broker_name:
            targets = [target for target in targets if target.broker_name == self._broker_name]
        return subscriptions, targets

    @property
    def is_idle(self) -> bool:
        """Nothing is under way."""
        return not (self._receivings or self._pops)


class Pops:
    """Of one process; on the event loop."""

    def __init__(self, backend: Backend, acks: Acks) -> None:
        self._backend = backend
        self._acks = acks
        self._works: dict[Wanted, _TopicWork] = {}
        self._ids = count(1 << 32)  # others than those of a _TopicWork of the same client
        self.waiting = 0
        """Pops that wait for messages."""

    async def pop(self, wanted: Wanted, max_messages: int, *, invisible_ms: int, wait_ms: int) -> list[PoppedMessage]:
        """Up to `max_messages` of any queues, as soon as there are some; [] where none come within `wait_ms`.

        Raises TopicNotFound, GroupConsumedOtherwise, and what else keeps messages from coming for good.
        """
        self.waiting += 1
        try:
            messages = await Receiving(self._work(wanted), max_messages, invisible_ms, wait_ms).run()
        finally:
            self.waiting -= 1
        return [PoppedMessage(message, _lease(message).handle) for message in messages]

    async def pop_once(self, broker_name: str, request: PopMessages, *, deadline_ms: int) -> list[PoppedMessage]:
        """What one request brings from one broker: for a front whose clients name queues. Its `pop_id` is set here.

        Cancelled, it releases what comes. Raises what the broker answers.
        """
        fields = {name: getattr(request, name) for name in request.__slots__}
        request = PopMessages(**{**fields, "pop_id": next(self._ids)})
        self.waiting += 1
        is_answered = False
        try:
            reply, payload = await self._backend.call(
                request.topic, broker_name, request, deadline_ms=deadline_ms, wait_ms=request.wait_ms
            )
            is_answered = True
        finally:
            self.waiting -= 1
            if not is_answered:
                self._cancel(broker_name, request)
        return self._messages(broker_name, reply, payload)

    def release(self, group: str, messages: Sequence[PoppedMessage]) -> None:
        """They reached nobody."""
        for one in messages:
            self._acks.release(group, one.handle)

    # ---- inside

    def _messages(self, broker_name: str, reply: PopReply, payload: bytes) -> list[PoppedMessage]:
        batch = decode_batch(payload, broker_name)
        if len(batch) != sum(part[1] for part in reply.parts):
            raise RemoteProtocolError("a pop's reply has another number of messages than it says")
        messages = iter(batch)
        return [
            PoppedMessage(next(messages).leased(tries[index] if tries else 0, None), with_index(handle, index))
            for _, number, handle, tries in reply.parts
            for index in range(number)
        ]

    def _cancel(self, broker_name: str, request: PopMessages) -> None:
        try:
            address = self._backend.connection.routes.address_of(request.topic, broker_name)
            cancel = CancelPop(request.group, request.client_id, request.pop_id)
            self._backend.waits.oneway(address, cancel)  # behind the pop itself
        except ZenitError:  # its messages are visible again when their time is over
            return

    def _work(self, wanted: Wanted) -> _TopicWork:
        work = self._works.get(wanted)
        if work is None:
            if len(self._works) >= WORKS_MAX:
                self._works = {key: one for key, one in self._works.items() if not one.is_idle}
            work = self._works[wanted] = _TopicWork(self._backend, self._acks, wanted)
        return work


def _lease(message: StoredMessage) -> Lease:
    lease = message.lease
    assert isinstance(lease, Lease)
    return lease
