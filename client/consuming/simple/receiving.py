"""One `receive`: pops at all brokers of the subscribed topics, until the first brings messages.

Pops are answered in any thread; the caller takes the answers. What comes when the call is over reached nobody, and is given
back: so is what it has taken, where a signal's handler or a cancellation ends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ....model.clock import monotonic_ms
from ....model.errors import BrokerBusy, ClientClosed, RemoteProtocolError, ZenitError
from ....model.subscription import Subscription
from ....record.kernel import StoredMessage, decode_batch
from ....remoting.commands import LitePopReply, PopReply
from ...connection.waiting import Signal
from .division import Demand, PopTarget
from .lease import Lease

if TYPE_CHECKING:
    from .work import PopWork

AGAIN_MS: Final = 200  # until a broker that failed is asked again, or for a route that is missing
PACE_MS: Final = 50  # between two requests to a broker that does not let them wait
LOOK_MS: Final = 1_000  # between two looks for brokers that have come
GRACE_MS: Final = 1_000
"""How much later than it should a pop may be answered."""

AnyPopReply = PopReply | LitePopReply
Arrived = tuple[PopTarget, AnyPopReply, bytes]


class Receiving:
    """One call. `on_answer` in any thread, under the lock of the work; the rest by the caller."""

    def __init__(self, work: PopWork, wanted: int, invisible_ms: int, wait_ms: int) -> None:
        self._work = work
        self._wanted = wanted
        self.invisible_ms = invisible_ms
        self._deadline_ms = monotonic_ms() + wait_ms
        self._subscriptions: Mapping[str, Subscription] = {}
        self._messages: list[StoredMessage] = []
        self._not_before_ms: dict[PopTarget, int] = {}
        self._has_asked_all = False
        self.arrived: deque[Arrived] = deque()
        self.failures: deque[tuple[PopTarget, ZenitError]] = deque()
        self.asked: dict[int, Demand] = {}
        """What is not answered, by the id of its pop."""
        self.answers = 0
        """How many pops were answered, or failed."""
        self.signal: Signal | None = None
        self.is_over = False

    async def run(self) -> list[StoredMessage]:
        """The messages; none where there were none in time. Raises ClientClosed, and what keeps them from coming for good."""
        is_done = False
        try:
            self._work.begin(self)
            await self._run()
            self._work.end(self, self._messages, is_handed=True)
            is_done = True
            return self._messages
        finally:
            if not is_done:  # an error, a cancellation, or the handler of a signal that raised
                self._work.end(self, self._messages, is_handed=False)

    async def _run(self) -> None:
        while True:
            seen = self.answers  # before anything is looked at: what comes from here on ends the wait below
            self._take_arrived()
            if self._messages and not self._ask_for_rest():
                return
            if not self._messages:
                await self._ask_all()
                now = monotonic_ms()
                if now >= self._deadline_ms and self._has_asked_all and not self.asked and not self.arrived:
                    return
                if now >= self._deadline_ms + GRACE_MS:
                    return
            await self._work.wait_answer(self, seen, self._wait_until_ms())

    def _wait_until_ms(self) -> int:
        now = monotonic_ms()
        end_ms = self._deadline_ms if now < self._deadline_ms else self._deadline_ms + GRACE_MS
        if self._messages:  # the rest is there: it comes at once, or not at all
            end_ms = now + GRACE_MS
        again = [due for due in self._not_before_ms.values() if due > now]
        return min(end_ms, now + self._work.look_ms, *again)

    # ---- asking

    def under_way(self) -> tuple[Demand, ...]:
        """What is not answered, copied in one step: answers come in other threads meanwhile."""
        return tuple(self.asked.values())

    async def _ask_all(self) -> None:
        """Nobody had messages so far: asks everybody who is not being asked."""
        subscriptions, targets = await self._work.targets(self._deadline_ms)
        self._subscriptions = subscriptions
        if not targets:
            self._not_before_ms = {PopTarget("", ""): monotonic_ms() + AGAIN_MS}
            self._has_asked_all = True
            return
        now = monotonic_ms()
        left_ms = max(0, self._deadline_ms - now)
        asked = self.under_way()
        if any(not demand.waits for demand in asked) or (self._has_asked_all and not left_ms):
            return
        busy = {demand.target for demand in asked}
        free = [t for t in targets if t not in busy and now >= self._not_before_ms.get(t, 0)]
        demands = self._work.divide(free, self._wanted, is_first=not self._has_asked_all)
        self._has_asked_all = self._has_asked_all or all(demand.waits for demand in demands)
        if len(demands) == 1 and not demands[0].waits:
            (demand,) = demands
            await self._work.pop(self, demand, self._subscriptions[demand.target.topic])
            return
        for demand in demands:
            if demand.waits:
                self._not_before_ms[demand.target] = now + PACE_MS
            self._work.send_pop(self, demand, self._subscriptions[demand.target.topic], left_ms if demand.waits else 0)

    def _ask_for_rest(self) -> bool:
        """Some came: more is asked for where it is known to be there. True while that is under way."""
        if any(not demand.waits for demand in self.under_way()):
            return True
        room = self._wanted - len(self._messages)
        demands = self._work.rest(room) if room else []
        for demand in demands:
            self._work.send_pop(self, demand, self._subscriptions[demand.target.topic], 0)
        return bool(demands)

    # ---- taking

    def _take_arrived(self) -> None:
        """Raises what cannot pass, and what an answer cannot be read for."""
        if self._work.is_closed:
            raise ClientClosed("consumer")
        while self.arrived:
            self._take(*self.arrived[0])
            self.arrived.popleft()
        while self.failures:
            target, error = self.failures.popleft()
            if not self._messages and not error.retriable and not error.route_stale:
                raise error
            pause_ms = max(AGAIN_MS, error.retry_after_ms) if isinstance(error, BrokerBusy) else AGAIN_MS
            self._not_before_ms[target] = monotonic_ms() + pause_ms

    def _take(self, target: PopTarget, reply: AnyPopReply, payload: bytes) -> None:
        batch = decode_batch(payload, target.broker_name)
        if len(batch) != sum(part[1] for part in reply.parts):
            raise RemoteProtocolError("a pop's reply has another number of messages than it says")
        messages = iter(batch)
        subscription = self._subscriptions[target.topic]
        for part, attempts, count in self._work.parts_of(target, reply, self.invisible_ms):
            unwanted = surplus = 0
            for index in range(count):
                message = next(messages)
                if subscription.tags and not subscription.accepts(message.tags):
                    unwanted |= 1 << index
                elif len(self._messages) >= self._wanted:
                    surplus |= 1 << index
                else:
                    tries = attempts[index] if attempts else 0
                    self._messages.append(message.leased(tries, Lease(part, index)))
            self._work.settle(part, unwanted=unwanted, surplus=surplus)
