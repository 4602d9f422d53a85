"""What a simple consumer has under way: subscriptions, pops that wait at brokers, and their answers. Any thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import ClassVar, Final

from ....model.clock import monotonic_ms
from ....model.errors import LocalProtocolError, RemoteProtocolError, ZenitError
from ....model.route import TopicRoute
from ....model.subscription import MessageModel, Subscription
from ....record.kernel import StoredMessage
from ....remoting.client import RemotingClient
from ....remoting.commands import CancelPop, LitePopReply, PopLite, PopMessages, PopReply, Reply
from ...connection.connection import Connection
from ...connection.membership import Member
from ...connection.waiting import Signals, Waits
from ..allocation import allocation_of
from ..assignment import Assignment
from ..start_from import FIRST, StartFrom
from .ack_sends import AckSends, OnAckError
from .division import POP_MAX, Demand, Division, PopTarget
from .lease import LeasedPart, lease_of, leased_parts
from .receiving import LOOK_MS, AnyPopReply, Receiving

log = logging.getLogger(__name__)

ROUTE_MS_MIN: Final = 1_000
"""So long a route is waited for at least."""
POP_GRACE_MS: Final = 3_000
"""So much later than its wait a pop's answer is still taken, at least to give its messages back."""


class PopWork:
    """One consumer's. The lock is never held while sending."""

    pop_max: ClassVar[int] = POP_MAX
    look_ms: ClassVar[int] = LOOK_MS

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        group: str,
        *,
        client_id: str,
        start_from: StartFrom | datetime,
        renews: bool,
        is_ordered: bool,
        timeout_ms: int,
        on_ack_error: OnAckError | None,
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._group = group
        self._client_id = client_id
        self._start_from = start_from
        self._assignment = Assignment(connection, waits, group, client_id, allocation_of("averaging"))
        self._renews = renews
        self._is_ordered = is_ordered
        self._timeout_ms = timeout_ms
        self.acks = AckSends(connection, group, on_idle=self._tell_change, on_ack_error=on_ack_error)
        self._pop_ids = count(1)
        self._lock = threading.Lock()  # of all that follows
        self._subscriptions: dict[str, Subscription] = {}
        self._member = Member(client_id)
        self._routes: dict[str, TopicRoute] = {}  # that the targets are of
        self._announced: dict[str, Member] = {}
        self._division = Division(self.pop_max)
        self._targets: list[PopTarget] = []
        self._receivings: set[Receiving] = set()
        self._pops: dict[int, str] = {}  # that wait for an answer: the address
        self._failing: dict[PopTarget, ZenitError] = {}
        self._changed = Signals()
        self._no_route: ZenitError | None = None
        self.received = 0
        """Messages that were handed out."""
        self.is_closed = False

    # ---- subscriptions

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Joins the group for their topics."""
        with self._lock:
            self._subscriptions.update((subscription.topic, subscription) for subscription in subscriptions)
        self._join()

    def unsubscribe(self, topic: str) -> None:
        """Leaves a topic."""
        with self._lock:
            self._subscriptions.pop(topic, None)
        self._join()

    def _join(self) -> None:
        with self._lock:
            wires = tuple(sorted(subscription.wire() for subscription in self._subscriptions.values()))
            self._member = Member(self._client_id, consumer=(self._group, MessageModel.POPPING.value, wires))
            self._routes = {}
        self._connection.members.join(self._member)

    async def targets(self, deadline_ms: int) -> tuple[Mapping[str, Subscription], Sequence[PopTarget]]:
        """What is subscribed, and the brokers that have it; they know this member.

        Raises TopicNotFound, and what tells that this consumer cannot have messages of them.
        """
        with self._lock:
            subscriptions, member = dict(self._subscriptions), self._member
        if not subscriptions:
            raise LocalProtocolError("nothing to receive: subscribe(topic) first")
        routes: dict[str, TopicRoute] = {}
        missing: ZenitError | None = None
        for topic in subscriptions:
            timeout_ms = max(ROUTE_MS_MIN, min(self._timeout_ms, deadline_ms - monotonic_ms()))
            try:
                routes[topic] = await self._connection.routes.route(topic, self._waits, timeout_ms=timeout_ms)
                await self.begin_topic(topic)
            except ZenitError as error:
                if not self._assignment.may_pass(error, [topic]):
                    raise
                missing = error
                routes.pop(topic, None)
        with self._lock:
            self._no_route = missing
            known, targets = self._routes, self._targets
        if routes.keys() == known.keys() and all(routes[topic] is known[topic] for topic in routes):
            return subscriptions, targets
        addresses = {
            PopTarget(topic, queue.broker_name): route.address_of(queue.broker_name)
            for topic, route in routes.items()
            for queue in route.read_queues()
        }
        targets = sorted(target for target, address in addresses.items() if address is not None)
        await self._announce(member, sorted({address for address in addresses.values() if address is not None}))
        with self._lock:
            self._routes, self._targets = routes, targets
            self._division.keep(targets)
            self._failing = {target: error for target, error in self._failing.items() if target in addresses}
        return subscriptions, targets

    async def begin_topic(self, topic: str) -> None:
        """Has the brokers record where the group begins, unless that is the first message, as a pop itself would have it."""
        if self._start_from is not FIRST:
            await self._assignment.start(topic, self._start_from, timeout_ms=self._timeout_ms)

    async def _announce(self, member: Member, addresses: list[str]) -> None:
        fresh = [address for address in addresses if self._announced.get(address) != member]
        if fresh:
            await self._connection.members.announce(member, fresh, self._waits, timeout_ms=self._timeout_ms)
            with self._lock:
                self._announced.update(dict.fromkeys(fresh, member))

    def _note_failure(self, target: PopTarget, error: ZenitError) -> None:
        with self._lock:
            self._failing[target] = error

    def waits_for(self) -> ZenitError | None:
        """What keeps messages from coming at present, and may pass."""
        with self._lock:
            return self._no_route or next(iter(self._failing.values()), None)

    # ---- pops

    def divide(self, targets: Sequence[PopTarget], wanted: int, *, is_first: bool) -> list[Demand]:
        """Whom to ask. `is_first`: nobody was asked by this `receive`."""
        with self._lock:
            if is_first:
                return self._division.begin(targets, wanted)
            return self._division.waiting(targets, wanted)

    def rest(self, wanted: int) -> list[Demand]:
        """Whom to ask for more, which is there."""
        with self._lock:
            return self._division.at_once(self._targets, wanted)

    def begin(self, receiving: Receiving) -> None:
        """A call begins."""
        with self._lock:
            self._receivings.add(receiving)

    def send_pop(self, receiving: Receiving, demand: Demand, subscription: Subscription, wait_ms: int) -> None:
        """Sends one; its answer comes to `receiving`, or is given back."""
        target, pop_id = demand.target, next(self._pop_ids)
        request = self._request(receiving, demand, subscription, pop_id, wait_ms)

        def on_reply(reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
            self._on_answer(receiving, pop_id, target, _pop_reply(reply), payload, error)

        with self._lock:
            receiving.asked[pop_id] = demand
            self._pops[pop_id] = ""
        try:
            address = self._connection.routes.address_of(target.topic, target.broker_name)
            with self._lock:
                self._pops[pop_id] = address
            self._connection.remoting.send_nowait(
                address, request, None, timeout_ms=wait_ms + POP_GRACE_MS, on_reply=on_reply
            )
        except ZenitError as failure:
            on_reply(None, b"", failure)

    async def pop(self, receiving: Receiving, demand: Demand, subscription: Subscription) -> None:
        """Asks for what is there and waits for the answer, which no other thread needs to take: half the time of `send_pop`.

        The broker is told if the answer does not come to the caller.
        """
        target, pop_id = demand.target, next(self._pop_ids)
        request = self._request(receiving, demand, subscription, pop_id, 0)
        with self._lock:
            receiving.asked[pop_id] = demand
        address = ""
        try:
            address = self._connection.routes.address_of(target.topic, target.broker_name)
            reply, payload = await self._waits.call(address, request, timeout_ms=POP_GRACE_MS)
            self._on_answer(receiving, pop_id, target, _pop_reply(reply), payload, None)
        except ZenitError as error:
            self._cancel({pop_id: address}, self._waits)
            self._on_answer(receiving, pop_id, target, None, b"", error)
        except BaseException:  # the handler of a signal raised, or the task is cancelled
            self._cancel({pop_id: address}, self._waits)
            raise

    def _request(
        self, receiving: Receiving, demand: Demand, subscription: Subscription, pop_id: int, wait_ms: int
    ) -> PopMessages | PopLite:
        return PopMessages(
            self._group,
            demand.target.topic,
            demand.max_messages,
            receiving.invisible_ms,
            wait_ms,
            self._client_id,
            pop_id,
            subscription.codes(),
            subscription.sql,
            renews=self._renews,
            is_ordered=self._is_ordered,
        )

    def _on_answer(
        self,
        receiving: Receiving,
        pop_id: int,
        target: PopTarget,
        reply: AnyPopReply | None,
        payload: bytes,
        error: ZenitError | None,
    ) -> None:
        """In the thread that got the answer."""
        self._on_heard(target, reply, error)
        is_late = is_first = is_over = False
        with self._lock:
            self._pops.pop(pop_id, None)
            demand = receiving.asked.pop(pop_id, None)
            if reply is not None:
                got = sum(part[1] for part in reply.parts)
                self._division.note(target, asked=0 if demand is None else demand.max_messages, got=got)
                is_over = self._failing.pop(target, None) is not None
                is_late = receiving.is_over
                if reply.parts and not is_late:
                    receiving.arrived.append((target, reply, payload))
            else:
                failure = error or RemoteProtocolError("a pop was not answered with one")
                is_first = target not in self._failing
                self._failing[target] = failure
                self._division.note(target, asked=1, got=0)
                receiving.failures.append((target, failure))
            receiving.answers += 1
            if receiving.signal is not None:
                receiving.signal.set()
            self._changed.set_all()
        if reply is not None and is_late:
            for part, _, number in self.parts_of(target, reply, receiving.invisible_ms):
                self.acks.give_back(part, (1 << number) - 1)
        if is_over:
            log.info("pops succeed again group=%s topic=%s broker=%s", self._group, *target)
        if error is not None:
            if is_first:
                log.warning("pops fail group=%s topic=%s broker=%s error=%s", self._group, *target, error)
            if error.route_stale or error.retriable:
                self._connection.routes.refresh_soon(target.topic)

    def _on_heard(self, target: PopTarget, reply: AnyPopReply | None, error: ZenitError | None) -> None:
        """What an answer says besides messages. Any thread."""

    def parts_of(
        self, target: PopTarget, reply: AnyPopReply, invisible_ms: int
    ) -> Iterator[tuple[LeasedPart, tuple[int, ...], int]]:
        """(the part, the attempts of its messages, their number) of each in a reply."""
        until_ms = monotonic_ms() + invisible_ms
        for _, number, handle, attempts in reply.parts:
            yield (LeasedPart(self._group, target.broker_name, target.topic, handle, until_ms), attempts, number)

    def settle(self, part: LeasedPart, *, unwanted: int, surplus: int) -> None:
        """Of messages that are not handed out: the first were not subscribed to (a tag's hash is not the tag), the others are
        more than was asked for."""
        if unwanted:
            self.acks.ack(part, unwanted)
        if surplus:
            self.acks.give_back(part, surplus)

    async def wait_answer(self, receiving: Receiving, seen: int, until_ms: int) -> None:
        """Until there are more answers than the caller has seen, or until a time."""
        with self._lock:
            if receiving.answers != seen or self.is_closed:
                return
            signal = receiving.signal = self._waits.new_signal()
        try:
            await signal.wait(max(1, until_ms - monotonic_ms()))
        finally:
            receiving.signal = None

    def end(self, receiving: Receiving, messages: list[StoredMessage], *, is_handed: bool) -> None:
        """A call is over: what still waits is cancelled, what nobody gets is given back. `is_handed`: the caller gets these
        messages."""
        with self._lock:
            receiving.is_over = True
            waiting = {pop_id: self._pops.get(pop_id, "") for pop_id in receiving.asked}
            if is_handed:
                self.received += len(messages)
        if not is_handed:
            for part, bits in leased_parts(lease_of(message, self._group) for message in messages).items():
                self.acks.give_back(part, bits)
        while receiving.arrived:
            target, reply, _ = receiving.arrived[0]
            for part, _, number in self.parts_of(target, reply, receiving.invisible_ms):
                self.acks.give_back(part, (1 << number) - 1)
            receiving.arrived.popleft()
        self._cancel(waiting, self._connection.remoting)
        with self._lock:
            self._receivings.discard(receiving)
            self._changed.set_all()

    def _cancel(self, pops: dict[int, str], by: RemotingClient | Waits) -> None:
        """`by`: what the pops were sent with, so that the broker does not hear of their ends first."""
        for pop_id, address in pops.items():
            if address:
                try:
                    by.oneway(address, CancelPop(self._group, self._client_id, pop_id))
                except ZenitError as error:
                    log.info("a pop is not cancelled group=%s error=%s", self._group, error)

    # ---- the end

    def close(self) -> None:
        """Hands nothing out any more; pops that wait are cancelled."""
        with self._lock:
            self.is_closed = True
            waiting = dict(self._pops)
            for receiving in self._receivings:
                if receiving.signal is not None:
                    receiving.signal.set()
        self._cancel(waiting, self._connection.remoting)
        self.acks.send_all()

    async def wait_settled(self, deadline_ms: int) -> None:
        """Until every pop is answered and every acknowledgement is, or until then."""
        while (left_ms := deadline_ms - monotonic_ms()) > 0:
            with self._lock:
                signal = self._changed.add(self._waits.new_signal())
                is_busy = bool(self._pops or self._receivings)
            try:
                if not is_busy and self.acks.is_idle:
                    return
                await signal.wait(left_ms)
            finally:
                with self._lock:
                    self._changed.discard(signal)

    def _tell_change(self) -> None:
        with self._lock:
            self._changed.set_all()


def _pop_reply(reply: Reply | None) -> AnyPopReply | None:
    """None for anything else."""
    return reply if isinstance(reply, PopReply | LitePopReply) else None
