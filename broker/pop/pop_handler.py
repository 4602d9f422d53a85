"""Pops: messages of any queue of a topic go out, each to one receiver, and are leased to it. Loop thread.

    PopMessages -> what is available again, then what nobody looked at, queue by queue -> one event in the log -> the answer

The answer waits until the event is as durable as a send, so the next master knows the lease. A queue from which a pop is
staged is closed to other pops of its group until the log has that event: there is one pop a queue, group and turn. It is closed
too while a worker brings its messages into memory. A pop that gets nothing waits for messages of its topic.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Final

from ...model.clock import monotonic_ns
from ...model.errors import (
    BrokerBusy,
    GroupConsumedOtherwise,
    GroupNotFound,
    InvalidParameter,
    TopicNotFound,
    ZenitError,
)
from ...model.handles.receipt_handle import COUNT_MAX, KEY_BYTES, ReceiptHandle
from ...model.names import check_group
from ...model.subscription import POPPING, TAGS_MAX
from ...remoting.commands import CancelPop, Done, PopMessages, PopReply
from ...remoting.server import Call
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..handlers.pull_handler import FRAMES_MAX
from ..state.admission import readable
from ..state.pop_queue import Name
from ..state.pop_table import Place, PopTable, QueueKey
from ..state.state_log import GROUPS, OFFSETS, POPS
from .leases import Leases
from .queue_messages import BUSY_RETRY_MS, QueueMessages, Take, WorkFirst
from .recent_pops import RecentPops
from .waiting_pops import Kind, Waiting, WaitingPops

INVISIBLE_MS_MIN: Final = 100
INVISIBLE_MS_MAX: Final = 43_200_000  # RocketMQ's 12 h
LOOK_MS: Final = 1  # until a queue is looked at again that was closed, or has more
WAIT_MS_MIN: Final = 50  # of a pop that may not wait, and whose queues could not all be looked at
START_WORDS: Final = ("first", "last")
LOOK_NS: Final = 2_000_000  # of one look at the waiting pops of a topic, in one turn


class PopHandler:
    """PopMessages, CancelPop, and the waiting ones. `pops`, `messages` count what went out."""

    def __init__(self, parts: Parts, conditions: ConditionCache, leases: Leases) -> None:
        self._parts = parts
        self._store, self._state, self._loop, self._clock = parts.store, parts.state, parts.loop, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._conditions = conditions
        self._leases = leases
        self._takes = QueueMessages(parts, conditions, leases)
        self._suspend_ms_max = parts.config.suspend_ms_max
        self._closed: dict[QueueKey, int] = {}  # until the state log has come to there
        self._moved_until = 0  # all queues are closed until the state log has come to there
        self._returned_until = 0  # the state log does not have all yet that may be handed out again
        self._turns: dict[tuple[str, str], int] = {}  # where the next pop of a group begins in a topic
        self._hold = WaitingPops(count_max=parts.config.parked_pulls_max, bytes_max=parts.config.parked_bytes_max)
        self.recent = RecentPops()
        self._due: dict[str, dict[Kind, None]] = {}  # by topic: whose pops are to be looked at
        self._looking: set[str] = set()  # topics that will be looked at
        self.pops = self.messages = 0

    def document(self) -> dict[str, int]:
        """For the statistics. `open`: check points, and messages that wait to be handed out again."""
        return {
            "requests": self.pops,
            "messages": self.messages,
            "lost": self._takes.lost,
            "waiting": self._hold.count,
            "open": self._table.entries,
        }

    # ---- requests

    def on_pop(self, call: Call[PopMessages]) -> None:
        """Answers with messages, or parks the pop. Raises what is wrong with it."""
        request = call.request
        self._check(request)
        if request.pop_id and self.recent.is_cancelled((request.group, request.client_id, request.pop_id)):
            self._loop.reply(call, PopReply((), self._clock.now_ms()))
            return
        if request.sql:
            self._conditions.condition(request.sql)
        if not self._table.key:
            self._state.stage(self._store, POPS, self._table.event_signed(secrets.token_bytes(KEY_BYTES)))
            self._park(call, request)
            self._look_soon(request.topic, 0)
            return
        self._serve_or_park(call, request)

    def _serve_or_park(self, call: Call[PopMessages], request: PopMessages, warm: QueueKey | None = None) -> None:
        if self._serve(call, request, warm):
            return
        is_to_look_again = self._is_to_look_again(request)
        if request.wait_ms <= 0 and not is_to_look_again:
            self._loop.reply(call, PopReply((), self._clock.now_ms()))
            return
        self._park(call, request)
        if is_to_look_again or self._returned_until > self._state.applied:
            self._look_soon(request.topic, 0)

    def on_cancel(self, call: Call[CancelPop]) -> Done:
        """Answers a waiting pop; what was handed out for it reached nobody, and goes to others."""
        request = call.request
        pop = request.group, request.client_id, request.pop_id
        parked = self._hold.named(*pop)
        if parked is not None:
            self._answer_empty(parked)
        elif request.pop_id:
            answered = self.recent.take(pop)
            if answered is not None:
                self._leases.on_unsent(request.group, *answered)
        return Done()

    def _check(self, request: PopMessages) -> None:
        config = readable(self._state.topic_table, request.topic, max(0, request.queue_id))
        if config.is_batched:
            raise InvalidParameter(
                "topic", request.topic, "one without queue.type=BatchCQ: leases are by record; use pulls"
            )
        if config.is_compacted:
            raise InvalidParameter(
                "topic", request.topic, "one that is not compacted: a leased message may go; use pulls"
            )
        if request.queue_id < -1 or request.queue_id >= config.read_queues:
            raise InvalidParameter("queue_id", request.queue_id, f"-1 to {config.read_queues - 1}")
        if request.group not in self._state.group_table.documents:
            check_group(request.group)
            if not self._parts.config.auto_create_groups:
                raise GroupNotFound(request.group)
        if not 1 <= request.max_messages <= COUNT_MAX:
            raise InvalidParameter("max_messages", request.max_messages, f"1 to {COUNT_MAX}")
        if not INVISIBLE_MS_MIN <= request.invisible_ms <= INVISIBLE_MS_MAX:
            raise InvalidParameter("invisible_ms", request.invisible_ms, f"{INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}")
        if len(request.tag_codes) > TAGS_MAX:
            raise InvalidParameter("tag_codes", f"{len(request.tag_codes)} codes", f"at most {TAGS_MAX}")
        if request.start not in START_WORDS:
            raise InvalidParameter("start", request.start[:64], ", ".join(START_WORDS))
        if request.renews and not request.client_id:
            raise InvalidParameter("client_id", "", "the client whose heartbeats renew the leases")
        other = self._parts.registry.member_of_another_kind(request.group, POPPING.value)
        if other is not None:
            raise GroupConsumedOtherwise(request.group, "queues", other)
        if self._table.entries >= self._parts.config.pop_checkpoints_max:
            raise BrokerBusy(
                BUSY_RETRY_MS, f"{self._table.entries} check points are open: acknowledge, or see pop_checkpoints_max"
            )

    # ---- waiting

    def _park(self, call: Call[PopMessages], request: PopMessages) -> None:
        """Raises BrokerBusy."""
        wait_ms = min(max(request.wait_ms, WAIT_MS_MIN), self._suspend_ms_max)
        self._hold.park(call, min(self._clock.monotonic_ms() + wait_ms, call.deadline_ms))

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues."""
        if self._hold.count:
            for topic, _ in queues:
                self._look_soon(topic, 0)

    def on_available(self, topic: str, end: int) -> None:
        """Messages of the topic may be handed out again, as the log says up to `end`: to those that wait now, and to those that
        come before it says so, find nothing and wait."""
        self._returned_until = max(self._returned_until, end)
        self._look_soon(topic, 0)

    def on_moved(self, topics: Collection[str], end: int) -> None:
        """An operator moves a group in these topics, as the log says up to `end`. A pop before that would go by where the
        group was, and undo it."""
        self._moved_until = max(self._moved_until, end)
        for topic in topics:
            self._look_soon(topic, LOOK_MS)

    def on_deleted(self, end: int) -> None:
        """A topic or a group is deleted, as the log says up to `end`. A pop before that would be of one that was created again
        with the same name."""
        self._moved_until = max(self._moved_until, end)

    def on_tick(self, now_ms: int) -> None:
        """Answers pops whose time is over. `now_ms`: monotonic."""
        for parked in self._hold.expired(now_ms):
            self._loop.reply(parked.waiting, PopReply((), self._clock.now_ms()))

    def on_topic_deleted(self, topic: str) -> None:
        """Tells pops of a deleted topic that no messages will come."""
        self._takes.forget_topic(topic)
        for parked in self._hold.on_topic(topic):
            self._hold.release(parked)
            self._loop.fail(parked.waiting, TopicNotFound(topic))

    def on_deposed(self) -> None:
        """Another broker hands out from now on."""
        self._closed.clear()
        self._moved_until = self._returned_until = 0
        self.recent.clear()
        self._takes.forget_all()
        for parked in self._hold.all_waiting():
            self._answer_empty(parked)

    def _look_soon(self, topic: str, delay_ms: int) -> None:
        self._look_at(topic, self._hold.kinds(topic), delay_ms)

    def _look_at(self, topic: str, kinds: Iterable[Kind], delay_ms: int) -> None:
        due = self._due.setdefault(topic, {})
        due.update(dict.fromkeys(kinds))
        if not due:
            del self._due[topic]
        elif topic not in self._looking:
            self._looking.add(topic)
            self._loop.call_later(delay_ms, lambda: self._look(topic))

    def _look(self, topic: str) -> None:
        """Serves pops that wait for a topic, until there is nothing more for their kind, or others must have their turn."""
        self._looking.discard(topic)
        due = self._due.pop(topic, {})
        again = []
        end_ns = monotonic_ns() + LOOK_NS
        while due:
            kind = next(iter(due))
            parked = self._hold.first(topic, kind)
            if parked is None or not self._serve_waiting(parked):
                del due[kind]
            if parked is not None and parked.is_parked and self._is_to_look_again(parked.waiting.request):
                again.append(kind)
            if monotonic_ns() >= end_ns:
                break
        self._look_at(topic, (*due, *again), 0 if due else LOOK_MS)

    def _serve_waiting(self, parked: Waiting) -> bool:
        """Whether it waits no more."""
        try:
            self._check(parked.waiting.request)
            if not self._table.key or not self._serve(parked.waiting, parked.waiting.request):
                return False
        except ZenitError as error:
            self._hold.release(parked)
            self._loop.fail(parked.waiting, error)
            return True
        self._hold.release(parked)
        return True

    def _is_to_look_again(self, request: PopMessages) -> bool:
        """Something could not be looked at in this turn."""
        return self._takes.is_unfinished or self._is_closed(request)

    def _answer_empty(self, parked: Waiting) -> None:
        self._hold.release(parked)
        self._loop.reply(parked.waiting, PopReply((), self._clock.now_ms()))

    # ---- serving

    def _queues(self, request: PopMessages) -> Iterator[int]:
        """In the order of this pop: each begins at another one; from the highest down where messages have priorities."""
        if request.queue_id >= 0:
            yield request.queue_id
            return
        config = self._state.topic_table.configs[request.topic]
        count = config.read_queues
        if config.is_by_priority:
            yield from reversed(range(count))
            return
        name = request.group, request.topic
        first = self._turns.get(name, -1) + 1
        self._turns[name] = first % count
        yield from ((first + step) % count for step in range(count))

    def _is_closed(self, request: PopMessages) -> bool:
        """Whether some queue could not be looked at in this turn."""
        config = self._state.topic_table.configs.get(request.topic)
        queues = range(0 if config is None else config.read_queues)
        return any(self._is_shut((request.group, request.topic, queue_id)) for queue_id in queues)

    def _is_shut(self, key: QueueKey) -> bool:
        if self._moved_until > self._state.applied:
            return True
        until = self._closed.get(key)
        if until is None:
            return False
        if until <= self._state.applied:
            del self._closed[key]
            return False
        return True

    def _serve(self, call: Call[PopMessages], request: PopMessages, warm: QueueKey | None = None) -> bool:
        """Whether the call is answered, or will be. `warm`: a worker has just read what this queue has for it. Raises
        ZenitError."""
        room_bytes = self._takes.begin()
        if self._moved_until > self._state.applied:
            return False
        if not self._state.offset_table.has_begun(request.group, request.topic):
            self._begin(request)
        takes: list[Take] = []
        room = request.max_messages
        for queue_id in self._queues(request):
            key = request.group, request.topic, queue_id
            if self._is_shut(key):
                continue
            try:
                take = self._takes.take(request, key, room, room_bytes, is_warm=key == warm)
            except WorkFirst as first:
                if takes:
                    break  # what is in memory goes out now
                self._work(call, request, key, first)
                return True
            if take is None:
                if self._takes.is_unfinished:
                    break  # a search takes long: the next turn begins at the next queue
                continue
            takes.append(take)
            room -= len(take.popped.offsets)
            room_bytes -= sum(map(len, take.slices))
            if room <= 0 or room_bytes <= 0:
                break
        if not takes:
            return False
        self._hand_out(call, request, takes)
        return True

    def _begin(self, request: PopMessages) -> None:
        """Records where the group begins in the topic, as a first subscription does; the pop itself follows behind."""
        state, store = self._state, self._store
        queues = range(state.topic_table.configs[request.topic].read_queues)
        if request.group not in state.group_table.documents:
            state.stage(store, GROUPS, state.group_table.event_set(request.group))
        is_first = request.start == "first"
        bound = store.min_offset if is_first else store.max_offset
        offsets = [int(bound(request.topic, queue_id)) for queue_id in queues]
        since_ms = 0 if is_first else self._clock.now_ms()
        end = state.stage(
            store, OFFSETS, state.offset_table.event_started(request.group, request.topic, offsets, since_ms)
        )
        for queue_id in queues:
            key = request.group, request.topic, queue_id
            self._takes.forget(key)
            self._closed[key] = int(end)

    def _work(self, call: Call[PopMessages], request: PopMessages, key: QueueKey, first: WorkFirst) -> None:
        """A worker goes first; then the pop is served as if it had just come. The queue is closed until then. Raises
        BrokerBusy."""

        def then(result: object) -> None:
            first.then(result)
            self._check(request)
            self._serve_or_park(call, request, key)

        def work() -> object:
            try:
                return first.work()
            finally:
                self._closed.pop(key, None)  # here, since nobody may come back with the result

        self._closed[key] = _UNTIL_READ
        try:
            self._parts.workers.run(call, work, then)
        except BrokerBusy:
            del self._closed[key]
            raise

    def _hand_out(self, call: Call[PopMessages], request: PopMessages, takes: list[Take]) -> None:
        """Raises StoreNotWriteable, NotEnoughReplicas."""
        event = self._table.event_popped(request.group, request.topic, [take.popped for take in takes])
        end = int(self._state.stage(self._store, POPS, event))
        parts = []
        slices: list[memoryview | bytes] = []
        flows = self._parts.flows
        for take in takes:
            popped, queue_id = take.popped, take.key[2]
            self._closed[take.key] = end
            count = len(popped.offsets)
            handle = ReceiptHandle(
                self._parts.config.name,
                request.group,
                request.topic,
                queue_id,
                popped.offsets[0],
                count,
                popped.pop_ms,
                popped.invisible_ms,
            )
            parts.append((queue_id, count, handle.sign(self._table.key), popped.attempts))
            slices += take.slices
            self.messages += count
            if flows is not None:
                flows.gave(request.topic, request.group, count, sum(map(len, take.slices)))
        self.pops += 1
        payload: Any = slices if len(slices) <= FRAMES_MAX else (b"".join(slices),)
        reply = PopReply(tuple(parts), self._clock.now_ms())
        names: list[tuple[Place, Name]] = [
            (take.key[2], (take.popped.offsets[0], take.popped.pop_ms)) for take in takes
        ]
        if request.pop_id:
            self.recent.on_answered((request.group, request.client_id, request.pop_id), request.topic, names)
        call.on_unsent = partial(self._leases.on_unsent, request.group, request.topic, names)
        self._parts.acknowledgements.staged.append((call, reply, end, payload))


_UNTIL_READ: Final = 1 << 62
