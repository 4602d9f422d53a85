"""LockQueues and UnlockQueues, and the end of leases. Loop thread.

A change of owner is staged, then adopted, and answered when it is as durable as an acknowledged send. So the next master
knows the owner too.

A renewal changes nothing, but a deposed master that has not heard of its end must not grant one: its successor gives
the queue to another client one lease after it became master. So if another replica may be elected, a renewal is staged
too, as an event without effect. Its acknowledgement proves that this master was followed when the client asked, and any
successor begins later. (Under `ack = master` no other replica is asked, for renewals as for sends.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...model.clock import Clock
from ...model.errors import BrokerBusy, GroupNotFound, InvalidParameter, ZenitError
from ...model.names import check_group
from ...remoting.commands import Done, LockQueues, LockReply, Reply, Request, UnlockQueues
from ...remoting.server import Call
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..state.queue_locks import LockDecision, Queue, renewal_of
from ..state.state_log import LOCKS, StateLog

log = logging.getLogger(__name__)

CLIENT_ID_LENGTH_MAX: Final = 255
QUEUES_MAX: Final = 65_536  # in one request
RETRY_MS: Final = 50


class LockHandler:
    """Owners of queues. `leads`: see Parts."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        clock: Clock,
        leads: Callable[[], bool],
        *,
        may_be_deposed: bool,
    ) -> None:
        """`may_be_deposed`: another replica may be elected master."""
        self._store = store
        self._state = state
        self._locks = state.queue_locks
        self._acknowledgements = acknowledgements
        self._clock = clock
        self._leads = leads
        self._may_be_deposed = may_be_deposed
        self._end = 0  # of the last event, in the log

    def on_lock(self, call: Call[LockQueues]) -> None:
        """Takes or renews locks. Raises what is wrong with the request; then nothing changes."""
        request = call.request
        self._check(request)
        now_ms = self._clock.monotonic_ms()
        wanted = [queue for queue in request.queues if self._exists(queue)]
        decision = self._locks.lock(now_ms, request.group, request.client_id, wanted, renews=request.renews)
        self._carry_out(decision, now_ms)
        if self._may_be_deposed and decision.kept and not decision.taken:
            self._end = self._state.stage(self._store, LOCKS, renewal_of(request.group, request.client_id))
        had = tuple((topic, queue_id) for _, topic, queue_id in sorted((*decision.kept, *decision.taken)))
        self._answer(call, LockReply(had, self._locks.lease_ms))

    def on_unlock(self, call: Call[UnlockQueues]) -> None:
        """Releases at once what the client owns."""
        request = call.request
        self._check(request)
        self._carry_out(
            self._locks.unlock(request.group, request.client_id, request.queues), self._clock.monotonic_ms()
        )
        self._answer(call, Done())

    def on_client_left(self, client_id: str) -> int:
        """A client signed off: its locks are released. Returns the end of the event in the log, 0 if it had none."""
        decision = self._locks.leave(client_id)
        if not decision.freed or not self._leads():
            return 0
        self._carry_out(decision, self._clock.monotonic_ms())
        return self._end

    def on_tick(self, now_ms: int) -> None:
        """Releases locks that were not renewed. `now_ms`: monotonic."""
        if not self._leads():
            return
        for decision in self._locks.lapsed(now_ms):
            log.warning("locks lapsed client=%s queues=%s", decision.client_id, decision.freed[:8])
            try:
                self._carry_out(decision, now_ms)
            except ZenitError as error:
                log.warning("locks not freed yet error=%s", error)
                return

    def on_deposed(self) -> None:
        """This broker is no longer master."""
        self._locks.on_deposed()

    def _carry_out(self, decision: LockDecision, now_ms: int) -> None:
        for event in decision.events():
            self._end = self._state.stage(self._store, LOCKS, event)
        self._locks.adopt(decision, now_ms)

    def _answer(self, call: Call[Request], reply: Reply) -> None:
        self._acknowledgements.staged.append((call, reply, self._end, ()))

    def _check(self, request: LockQueues | UnlockQueues) -> None:
        if not self._leads():
            raise BrokerBusy(RETRY_MS, "a new master is taking over; try again")
        if not 1 <= len(request.client_id) <= CLIENT_ID_LENGTH_MAX:
            raise InvalidParameter("client_id", request.client_id[:64], f"1 to {CLIENT_ID_LENGTH_MAX} characters")
        if len(request.queues) > QUEUES_MAX:
            raise InvalidParameter("queues", len(request.queues), f"at most {QUEUES_MAX}")
        if request.group not in self._state.group_table.documents:
            raise GroupNotFound(check_group(request.group))

    def _exists(self, queue: Queue) -> bool:
        topic, queue_id = queue
        config = self._state.topic_table.configs.get(topic)
        return config is not None and 0 <= queue_id < config.read_queues
