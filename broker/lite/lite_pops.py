"""Pops of lite topics: one request waits for any of the lite topics that its sender subscribes to. Loop thread.

    a message, or the end of a lease -> ready for the subscribers -> whoever waits is looked at: what is ready, in turn
                                                                  -> one event in the log for all of it -> the answer

Of each lite topic at most one check point is open in a group: its messages go out in their order, and again in their order. A
lite topic from which a pop is staged is closed until the log has that event, or while a worker reads for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from ...model.clock import monotonic_ns
from ...model.errors import (
    BrokerBusy,
    GroupConsumedOtherwise,
    InvalidParameter,
    LiteSubscriptionUnknown,
    TopicNotFound,
    ZenitError,
)
from ...model.handles.lite_handle import LiteHandle
from ...model.handles.receipt_handle import COUNT_MAX
from ...model.subscription import POPPING
from ...remoting.commands import LitePopReply, PopLite, PopMessages
from ...remoting.server import Call
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..handlers.pull_handler import FRAMES_MAX
from ..pop.leases import Leases
from ..pop.pop_handler import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN
from ..pop.queue_messages import BUSY_RETRY_MS, QueueMessages, Take, WorkFirst
from ..pop.recent_pops import RecentPops
from ..state.pop_queue import Name
from ..state.pop_table import Place, PopTable, QueueKey, place_of
from ..state.state_log import POPS
from .lite_admission import lite_parent
from .subscriptions import LiteMember, LiteSubscriptions
from .waiting_lite_pops import Waiting, WaitingLitePops, member_of

MESSAGES_MAX: Final = 4096
LOOK_MS: Final = 1  # until it is looked again at what was closed
LOOK_NS: Final = 5_000_000  # of one look, in one turn
LISTED_AT_ONCE: Final = 128
READ_FIRST_MAX: Final = 256  # lite topics that a worker reads for, at a time
_UNTIL_READ: Final = 1 << 62


@dataclass(slots=True)
class _Look:
    """What one look found. `unread`: those for which a worker has to read first; `is_cut`: time was up."""

    takes: list[Take] = field(default_factory=list)
    unread: list[tuple[str, WorkFirst]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    is_cut: bool = False


class LitePops:
    """PopLite, and the waiting ones. `pops`, `messages` count what went out."""

    def __init__(
        self,
        parts: Parts,
        conditions: ConditionCache,
        leases: Leases,
        subscriptions: LiteSubscriptions,
        recent: RecentPops,
    ) -> None:
        self._parts = parts
        self._store, self._state, self._loop, self._clock = parts.store, parts.state, parts.loop, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._leases = leases
        self._subscriptions = subscriptions
        self._recent = recent
        self._takes = QueueMessages(parts, conditions, leases)
        self._suspend_ms_max = parts.config.suspend_ms_max
        self._hold = WaitingLitePops(count_max=parts.config.parked_pulls_max, bytes_max=parts.config.parked_bytes_max)
        self._closed: dict[QueueKey, int] = {}  # until the state log has come to there
        self._later: dict[LiteMember, dict[str, None]] = {}  # what could not be read now, and is there
        self._due: dict[LiteMember, None] = {}  # whose pops are to be looked at
        self._is_looking = False
        self.pops = self.messages = 0

    def document(self) -> dict[str, int]:
        """For the statistics."""
        return {
            "requests": self.pops,
            "messages": self.messages,
            "waiting": self._hold.count,
            "subscriptions": self._subscriptions.count,
        }

    # ---- requests

    def on_pop(self, call: Call[PopLite]) -> None:
        """Answers with messages, or parks the pop. Raises what is wrong with it."""
        request = call.request
        member = self._check(request)
        if request.pop_id and self._recent.is_cancelled((request.group, request.client_id, request.pop_id)):
            self._loop.reply(call, LitePopReply((), self._clock.now_ms()))
            return
        self._serve_or_park(call, member)

    def cancel(self, group: str, client_id: str, pop_id: int) -> bool:
        """Answers a waiting pop; whether there was one."""
        parked = self._hold.named(group, client_id, pop_id)
        if parked is not None:
            self._answer_empty(parked)
        return parked is not None

    def _check(self, request: PopLite) -> LiteMember:
        """Who asks. Raises ZenitError."""
        lite_parent(
            self._state.topic_table,
            self._state.group_table,
            request.group,
            request.topic,
            auto_create_groups=self._parts.config.auto_create_groups,
        )
        if not 1 <= request.max_messages <= MESSAGES_MAX:
            raise InvalidParameter("max_messages", request.max_messages, f"1 to {MESSAGES_MAX}")
        if not INVISIBLE_MS_MIN <= request.invisible_ms <= INVISIBLE_MS_MAX:
            raise InvalidParameter("invisible_ms", request.invisible_ms, f"{INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}")
        other = self._parts.registry.member_of_another_kind(request.group, POPPING.value)
        if other is not None:
            raise GroupConsumedOtherwise(request.group, "queues", other)
        if self._table.entries >= self._parts.config.pop_checkpoints_max:
            raise BrokerBusy(
                BUSY_RETRY_MS, f"{self._table.entries} check points are open: acknowledge, or see pop_checkpoints_max"
            )
        member = self._subscriptions.find(member_of(request))
        if member is None or member.version < request.version:
            raise LiteSubscriptionUnknown(request.topic, request.group)
        member.seen_ms = self._clock.monotonic_ms()
        self._subscriptions.on_heard(member, request.evictions)
        return member

    # ---- waiting

    def _serve_or_park(self, call: Call[PopLite], member: LiteMember, warm: Collection[QueueKey] = ()) -> None:
        look = self._look_at_ready(call.request, member, warm)
        if self._answer(call, member, look):
            return
        if call.request.wait_ms <= 0 and not (look.closed or look.is_cut):
            self._loop.reply(call, self._empty(member))
            return
        wait_ms = min(max(call.request.wait_ms, LOOK_MS), self._suspend_ms_max)
        self._hold.park(call, min(self._clock.monotonic_ms() + wait_ms, call.deadline_ms))
        if look.closed or look.is_cut:
            self._look_soon(member, LOOK_MS)

    def on_ready(self, members: Collection[LiteMember]) -> None:
        """There may be something for these."""
        for member in members:
            if self._hold.first(member.name) is not None:
                self._look_soon(member, 0)

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues."""
        if self._subscriptions.count:
            for name, _ in queues:
                members = self._subscriptions.on_message(name)
                if members:
                    self.on_ready(members)

    def on_freed(self, key: QueueKey) -> None:
        """Nothing of the lite topic is leased in the group any more, as the log says."""
        if self._subscriptions.count and self._has_messages(key):
            self.on_ready(self._subscriptions.on_freed(key[0], key[1]))

    def on_evicted(self, member: LiteMember) -> None:
        """It is told at once, if it waits."""
        parked = self._hold.first(member.name)
        if parked is not None:
            self._answer_empty(parked)

    def on_tick(self, now_ms: int) -> None:
        """Answers pops whose time is over, and looks again at what could not be read. `now_ms`: monotonic."""
        for parked in self._hold.expired(now_ms):
            member = self._subscriptions.find(member_of(parked.waiting.request))
            self._loop.reply(parked.waiting, self._empty(member))
        applied = self._state.applied
        for key, end in list(self._closed.items()):  # a worker takes some out meanwhile
            if end <= applied:
                self._closed.pop(key, None)
        if self._later:
            later, self._later = self._later, {}
            for member, names in later.items():
                member.ready.update((name, None) for name in names if name in member.names)
                self.on_ready((member,))

    def on_topic_deleted(self, topic: str) -> None:
        """Tells pops of a deleted parent that no messages will come."""
        for parked in self._hold.on_topic(topic):
            self._hold.release(parked)
            self._loop.fail(parked.waiting, TopicNotFound(topic))

    def on_deposed(self) -> None:
        """Another broker hands out from now on."""
        self._closed.clear()
        self._later.clear()
        self._due.clear()
        self._takes.forget_all()
        for parked in self._hold.all_waiting():
            self._answer_empty(parked)

    def _look_soon(self, member: LiteMember, delay_ms: int) -> None:
        self._due[member] = None
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_later(delay_ms, self._look)

    def _look(self) -> None:
        """Serves pops that wait, until there is nothing more for them, or others must have their turn."""
        self._is_looking = False
        due, self._due = self._due, {}
        end_ns = monotonic_ns() + LOOK_NS
        while due:
            member = next(iter(due))
            parked = self._hold.first(member.name)
            if parked is None or not self._serve_waiting(parked, member):
                del due[member]
            if monotonic_ns() >= end_ns:
                break
        for member in due:
            self._look_soon(member, 0)

    def _serve_waiting(self, parked: Waiting, member: LiteMember) -> bool:
        """Whether it waits no more."""
        call = parked.waiting
        try:
            self._check(call.request)
            look = self._look_at_ready(call.request, member, ())
            if not self._answer(call, member, look):
                if look.closed or look.is_cut:
                    self._look_soon(member, LOOK_MS)
                return False
        except ZenitError as error:
            self._hold.release(parked)
            self._loop.fail(call, error)
            return True
        self._hold.release(parked)
        return True

    def _answer_empty(self, parked: Waiting) -> None:
        self._hold.release(parked)
        member = self._subscriptions.find(member_of(parked.waiting.request))
        self._loop.reply(parked.waiting, self._empty(member))

    def _empty(self, member: LiteMember | None) -> LitePopReply:
        evicted = _evicted(member) if member is not None else ()
        return LitePopReply((), self._clock.now_ms(), evicted, 0 if member is None else member.evictions)

    # ---- serving

    def _has_messages(self, key: QueueKey) -> bool:
        queue = self._table.queue(key)
        begin = 0 if queue is None else queue.next
        return bool(queue is not None and queue.available) or begin < self._store.max_offset(key[1], 0)

    def _is_shut(self, key: QueueKey) -> bool:
        until = self._closed.get(key)
        if until is None:
            return False
        if until <= self._state.applied:
            del self._closed[key]
            return False
        return True

    def _look_at_ready(self, request: PopLite, member: LiteMember, warm: Collection[QueueKey]) -> _Look:
        """What there is for a member, in the order in which it became ready. What is left ready is looked at again."""
        look = _Look()
        ready, asked = member.ready, _plain(request)
        room, room_bytes = request.max_messages, self._takes.begin()
        end_ns = monotonic_ns() + LOOK_NS
        for name in _drained(ready):
            key = request.group, name, 0
            if self._is_shut(key):
                look.closed.append(name)
                continue
            try:
                take = self._takes.take(asked, key, min(room, COUNT_MAX), room_bytes, is_warm=key in warm)
            except WorkFirst as first:
                look.unread.append((name, first))
                take = None
                if len(look.unread) >= READ_FIRST_MAX:
                    break
            else:
                if take is None:
                    self._see_to_rest(member, key)
            if take is not None:
                look.takes.append(take)
                room -= len(take.popped.offsets)
                room_bytes -= sum(map(len, take.slices))
            if room <= 0 or room_bytes <= 0:
                break
            if monotonic_ns() >= end_ns:
                look.is_cut = bool(ready)
                break
        ready.update(dict.fromkeys(look.closed))
        ready.update((name, None) for name, _ in look.unread)
        return look

    def _see_to_rest(self, member: LiteMember, key: QueueKey) -> None:
        """A lite topic gave nothing. What is leased makes itself heard when it is free; what is there and cannot be read at
        present is looked at again."""
        queue = self._table.queue(key)
        if (queue is None or not queue.is_leased) and self._has_messages(key):
            self._later.setdefault(member, {})[key[1]] = None

    def _answer(self, call: Call[PopLite], member: LiteMember, look: _Look) -> bool:
        """Whether the call is answered, or will be. Raises ZenitError."""
        if look.takes:
            self._hand_out(call, member, look.takes)
        elif look.unread:
            self._work(call, look.unread)
        elif member.evicted:
            self._loop.reply(call, self._empty(member))
        else:
            return False
        return True

    def _work(self, call: Call[PopLite], unread: list[tuple[str, WorkFirst]]) -> None:
        """A worker reads first; then the pop is served as if it had just come. Raises BrokerBusy."""
        keys = {(call.request.group, name, 0) for name, _ in unread}

        def then(results: list[Any]) -> None:
            for (_, first), result in zip(unread, results, strict=True):
                first.then(result)
            self._serve_or_park(call, self._check(call.request), keys)

        def work() -> list[Any]:
            try:
                return [first.work() for _, first in unread]
            finally:
                for key in keys:  # here, since nobody may come back with the result
                    self._closed.pop(key, None)

        self._closed.update(dict.fromkeys(keys, _UNTIL_READ))
        try:
            self._parts.workers.run(call, work, then)
        except BrokerBusy:
            for key in keys:
                del self._closed[key]
            raise

    def _hand_out(self, call: Call[PopLite], member: LiteMember, takes: list[Take]) -> None:
        """Raises StoreNotWriteable, NotEnoughReplicas."""
        request = call.request
        try:
            event = self._table.event_popped(request.group, request.topic, [take.popped for take in takes])
            end = int(self._state.stage(self._store, POPS, event))
        except ZenitError:
            member.ready.update((take.key[1], None) for take in takes)
            raise
        parts: list[tuple[str, int, str, tuple[int, ...]]] = []
        names: list[tuple[Place, Name]] = []
        slices: list[memoryview | bytes] = []
        flows = self._parts.flows
        for take in takes:
            popped = take.popped
            self._closed[take.key] = end
            count, begin = len(popped.offsets), popped.offsets[0]
            lite_topic = str(place_of(take.key)[1])
            handle = LiteHandle(lite_topic, begin, count, popped.pop_ms)
            parts.append((lite_topic, count, handle.text(), popped.attempts))
            names.append((lite_topic, (begin, popped.pop_ms)))
            slices += take.slices
            self.messages += count
            if flows is not None:
                flows.gave(request.topic, request.group, count, sum(map(len, take.slices)))
        self.pops += 1
        payload: Any = slices if len(slices) <= FRAMES_MAX else (b"".join(slices),)
        reply = LitePopReply(tuple(parts), self._clock.now_ms(), _evicted(member), member.evictions)
        if request.pop_id:
            self._recent.on_answered((request.group, request.client_id, request.pop_id), request.topic, names)
        call.on_unsent = partial(self._leases.on_unsent, request.group, request.topic, names)
        self._parts.acknowledgements.staged.append((call, reply, end, payload))


def _drained(ready: dict[str, None]) -> Iterator[str]:
    """Takes names out, the oldest first. Some are listed at a time: in a dict that is emptied from its begin, the search for
    the first one passes over all that are gone, each time."""
    while ready:
        for name in list(islice(ready, LISTED_AT_ONCE)):
            if name in ready:
                del ready[name]
                yield name


def _plain(request: PopLite) -> PopMessages:
    """What is asked of each queue."""
    return PopMessages(
        request.group,
        request.topic,
        request.max_messages,
        request.invisible_ms,
        client_id=request.client_id,
        renews=request.renews,
    )


def _evicted(member: LiteMember) -> tuple[str, ...]:
    """The lite topics that it does not know it has lost."""
    return tuple(str(place_of((member.name.group, name, 0))[1]) for name in member.evicted)
