"""Pops: messages of any queue of a topic go out, each to one receiver, and are leased to it. Loop thread.

    PopMessages -> what is available again, then what nobody looked at, queue by queue -> one event in the log -> the answer

The answer waits until the event is as durable as a send, so the next master knows the lease. A queue from which a pop is
staged is closed to other pops of its group until the log has that event: there is one pop a queue, group and turn. It is closed
too while a worker brings its messages into memory. A pop that gets nothing waits for messages of its topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from ...model.get_status import GetStatus
from ...model.handles.receipt_handle import COUNT_MAX, ReceiptHandle
from ...model.names import check_group
from ...model.properties import SHARDING_KEY
from ...model.subscription import POPPING, TAGS_MAX
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import CancelPop, Done, PopMessages, PopReply
from ...remoting.server import Call
from ...store.get_result import GetResult, Search
from ...store.queues.queue_table import WrongUnit
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..handlers.pull_handler import FRAMES_MAX, page_in_all
from ..handlers.pull_hold import Parked, PullHold
from ..state.admission import readable
from ..state.pop_queue import PopQueue
from ..state.pop_table import Popped, PopTable, QueueKey
from ..state.retry_policy import retries_max_of
from ..state.state_log import GROUPS, OFFSETS, POPS
from .choice import LOOKS_MAX, OrderedChoice, key_hash, runs_of
from .leases import Leases

log = logging.getLogger(__name__)

INVISIBLE_MS_MIN: Final = 100
INVISIBLE_MS_MAX: Final = 43_200_000  # RocketMQ's 12 h
LOOK_AGAIN_MS: Final = 50  # where a queue is closed for longer than a turn
START_WORDS: Final = ("first", "last")
RUNS_MAX: Final = 8  # stretches of available messages that one pop reads
PASSES_MAX: Final = 8  # goes over messages that a filter does not match, in one queue and turn
BUSY_RETRY_MS: Final = 500
SEARCH_NS: Final = 1_000_000  # of one go of a search, in one turn
ANY_QUEUE: Final = -1  # where waiting pops are parked: they wait for all queues of their topic
PAYLOAD_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Take:
    """What one queue gives. `slices`: of the log, whole records back to back."""

    popped: Popped
    slices: list[memoryview]


class _WorkFirst(Exception):
    """A queue can be looked at once a worker has done something; `then` takes the result, on the loop."""

    def __init__(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        super().__init__()
        self.work = work
        self.then = then


class PopHandler:
    """PopMessages, CancelPop, and the waiting ones. `pops`, `messages` count what went out; `lost`, what damage took."""

    def __init__(self, parts: Parts, conditions: ConditionCache, leases: Leases) -> None:
        self._parts = parts
        self._store, self._state, self._loop, self._clock = parts.store, parts.state, parts.loop, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._conditions = conditions
        self._leases = leases
        self._bytes_max = min(parts.config.store.pull_bytes_max, PAYLOAD_BYTES_MAX)
        self._suspend_ms_max = parts.config.suspend_ms_max
        self._closed: dict[QueueKey, int] = {}  # until the state log has come to there
        self._passed: dict[QueueKey, int] = {}  # a filter matched nothing below
        self._read_below: dict[QueueKey, int] = {}  # a search may touch the log below
        self._misplaced: dict[QueueKey, int] = {}  # queue offset whose unit names something else
        self._is_unfinished = False  # there is more to look at, in another turn
        self._turns: dict[tuple[str, str], int] = {}  # where the next pop of a group begins in a topic
        self._hold: PullHold[Call[PopMessages]] = PullHold(
            count_max=parts.config.parked_pulls_max, bytes_max=parts.config.parked_bytes_max
        )
        self._topics_due: set[str] = set()
        self.pops = self.messages = self.lost = 0

    # ---- requests

    def on_pop(self, call: Call[PopMessages]) -> None:
        """Answers with messages, or parks the pop. Raises what is wrong with it."""
        request = call.request
        self._check(request)
        if request.sql:
            self._conditions.condition(request.sql)
        if not self._table.key:
            self._state.stage(self._store, POPS, self._table.event_signed())
            self._park(call, request)
            self._look_soon(request.topic, 0)
            return
        self._serve_or_park(call, request)

    def _serve_or_park(self, call: Call[PopMessages], request: PopMessages, warm: QueueKey | None = None) -> None:
        if self._serve(call, request, warm):
            return
        is_to_look_again = self._is_unfinished or self._is_closed(request)
        if request.wait_ms <= 0 and not is_to_look_again:
            self._loop.reply(call, PopReply((), self._clock.now_ms()))
            return
        self._park(call, request)
        if is_to_look_again:
            self._look_soon(request.topic, 0)

    def on_cancel(self, call: Call[CancelPop]) -> Done:
        """Answers a waiting pop."""
        request = call.request
        for parked in self._hold.all_waiting():
            waiting = parked.waiting.request
            name = (waiting.group, waiting.client_id, waiting.pop_id)
            if request.pop_id and name == (request.group, request.client_id, request.pop_id):
                self._answer_empty(parked)
        return Done()

    def _check(self, request: PopMessages) -> None:
        config = readable(self._state.topic_table, request.topic, max(0, request.queue_id))
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
        wait_ms = min(max(request.wait_ms, LOOK_AGAIN_MS), self._suspend_ms_max)
        self._hold.park(
            call,
            topic=request.topic,
            queue_id=ANY_QUEUE,
            queue_offset=0,
            deadline_ms=min(self._clock.monotonic_ms() + wait_ms, call.deadline_ms),
            filter_bytes=8 * len(request.tag_codes) + len(request.sql),
        )

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues."""
        if self._hold.count:
            for topic, _ in queues:
                self._look_soon(topic, 0)

    def on_available(self, topic: str) -> None:
        """Messages of the topic may be handed out again."""
        self._look_soon(topic, 0)

    def on_tick(self, now_ms: int) -> None:
        """Answers pops whose time is over. `now_ms`: monotonic."""
        for parked in self._hold.expired(now_ms):
            self._loop.reply(parked.waiting, PopReply((), self._clock.now_ms()))

    def on_topic_deleted(self, topic: str) -> None:
        """Tells pops of a deleted topic that no messages will come."""
        for key in [key for key in self._passed if key[1] == topic]:
            del self._passed[key]
        for parked in self._hold.waiting_on_topic(topic):
            self._hold.release(parked)
            self._loop.fail(parked.waiting, TopicNotFound(topic))

    def on_deposed(self) -> None:
        """Another broker hands out from now on."""
        self._closed.clear()
        self._passed.clear()
        for parked in self._hold.all_waiting():
            self._answer_empty(parked)

    def _look_soon(self, topic: str, delay_ms: int) -> None:
        if topic not in self._topics_due and self._hold.waiting_on(topic, ANY_QUEUE):
            self._topics_due.add(topic)
            self._loop.call_later(delay_ms, lambda: self._look(topic))

    def _look(self, topic: str) -> None:
        """Serves the pops that wait for a topic, until there is nothing more for their group and filter."""
        self._topics_due.discard(topic)
        served_in_vain = set()
        is_closed = False
        for parked in self._hold.waiting_on(topic, ANY_QUEUE):
            request = parked.waiting.request
            kind = (request.group, request.tag_codes, request.sql, request.queue_id)
            if kind in served_in_vain:
                continue
            try:
                self._check(request)
                is_served = bool(self._table.key) and self._serve(parked.waiting, request)
            except ZenitError as error:
                self._hold.release(parked)
                self._loop.fail(parked.waiting, error)
                continue
            if is_served:
                self._hold.release(parked)
            else:
                served_in_vain.add(kind)
                is_closed = is_closed or self._is_closed(request)
        if is_closed:
            self._look_soon(topic, 1)

    def _answer_empty(self, parked: Parked[Call[PopMessages]]) -> None:
        self._hold.release(parked)
        self._loop.reply(parked.waiting, PopReply((), self._clock.now_ms()))

    # ---- serving

    def _queues(self, request: PopMessages) -> Iterator[int]:
        """In the order of this pop: each begins at another one."""
        if request.queue_id >= 0:
            yield request.queue_id
            return
        count = self._state.topic_table.configs[request.topic].read_queues
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
        self._is_unfinished = False
        if not self._state.offset_table.has_begun(request.group, request.topic):
            self._begin(request)
        takes: list[Take] = []
        room, room_bytes = request.max_messages, self._bytes_max
        for queue_id in self._queues(request):
            key = request.group, request.topic, queue_id
            if self._is_shut(key):
                continue
            try:
                take = self._take(request, key, room, room_bytes, is_warm=key == warm)
            except _WorkFirst as first:
                if takes:
                    break  # what is in memory goes out now
                self._work(call, request, key, first)
                return True
            if take is None:
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
            self._closed[request.group, request.topic, queue_id] = int(end)

    def _position(self, key: QueueKey, queue: PopQueue | None) -> int:
        """The first offset that nobody looked at."""
        committed = max(0, self._state.offset_table.offset(key[0], key[1], key[2]))
        passed = self._passed.get(key, 0)
        if queue is None:
            return max(committed, passed)
        if not queue.checkpoints and not queue.available:
            return max(queue.next, committed, passed)
        return max(queue.next, passed)

    def _take(self, request: PopMessages, key: QueueKey, room: int, room_bytes: int, *, is_warm: bool) -> Take | None:
        """What one queue has for a pop. Raises InvalidParameter, _WorkFirst."""
        queue = self._table.queue(key)
        if queue is not None and (queue.checkpoints or queue.available) and queue.is_ordered != request.is_ordered:
            raise InvalidParameter("is_ordered", request.is_ordered, f"{queue.is_ordered}, as what the group holds now")
        misplaced = self._misplaced.pop(key, None)
        if misplaced is not None:
            self._need_right_unit(key, misplaced)
        results, offsets, attempts = self._take_available(request, key, queue, room, room_bytes, is_warm)
        if request.is_ordered:
            return self._take_ordered(request, key, queue, room, results, offsets, attempts, is_warm)
        next_offset = self._position(key, queue)
        if len(offsets) < room and not results:
            result = self._read_new(request, key, next_offset, room, room_bytes, is_warm)
            if result is not None:
                results.append(result)
                offsets += [message.queue_offset for message in _messages([result])]
                next_offset = result.next_offset
        if not offsets:
            return None
        return self._taken(request, key, queue, results, offsets, attempts, next_offset)

    def _taken(
        self,
        request: PopMessages,
        key: QueueKey,
        queue: PopQueue | None,
        results: list[GetResult],
        offsets: list[int],
        attempts: list[int],
        next_offset: int,
        *,
        keys: tuple[int, ...] = (),
        passed: tuple[tuple[int, int], ...] = (),
        slices: list[memoryview] | None = None,
    ) -> Take:
        last_ms = 0 if queue is None else queue.last_pop_ms
        follow_each_other = offsets[-1] - offsets[0] == len(offsets) - 1
        popped = Popped(
            key[2],
            range(offsets[0], offsets[-1] + 1) if follow_each_other else tuple(offsets),
            max(self._clock.now_ms(), last_ms + 1),
            request.invisible_ms,
            next_offset,
            owner=request.client_id if request.renews else "",
            attempts=tuple(attempts) if any(attempts) else (),
            keys=keys,
            passed=passed,
        )
        whole = [part for result in results for part in result.slices] if slices is None else slices
        return Take(popped, whole)

    def _take_available(
        self, request: PopMessages, key: QueueKey, queue: PopQueue | None, room: int, room_bytes: int, is_warm: bool
    ) -> tuple[list[GetResult], list[int], list[int]]:
        """What is to be handed out again: results, offsets and attempts before. Those that were handed out too often go to the
        dead letters; those that are gone are given up."""
        if queue is None or not queue.available:
            return [], [], []
        retries_max = retries_max_of(self._state.group_table.documents.get(key[0], {}))
        found = queue.first_available(LOOKS_MAX if request.is_ordered else room)
        spent = [offset for offset, attempts in found if attempts > retries_max]
        if spent:
            self._leases.bury(key, spent)
        usable = {offset: attempts for offset, attempts in found if attempts <= retries_max}
        if request.is_ordered:
            choice = OrderedChoice(room, set(queue.busy) | {queue.keys.get(offset, 0) for offset in spent})
            usable = {offset: usable[offset] for offset in usable if choice.offer(offset, queue.keys.get(offset, 0))}
        results, offsets = [], []
        for first, count in runs_of(list(usable))[:RUNS_MAX]:
            result = self._get(request, key, first, count, room_bytes, is_new=False)
            if result.misplaced is not None:
                self._need_right_unit(key, result.misplaced)
            if result.count and not is_warm:
                self._need_memory(key, result)
            got = [message.queue_offset for message in _messages([result])] if result.count else []
            if got != list(range(first, first + len(got))) or not got:
                self._leases.on_unreadable(key, result)
                break
            results.append(result)
            offsets += got
            room_bytes -= sum(map(len, result.slices))
            if len(got) < count or room_bytes <= 0:
                break
        return results, offsets, [usable[offset] for offset in offsets]

    def _read_new(
        self, request: PopMessages, key: QueueKey, begin: int, count: int, room_bytes: int, is_warm: bool
    ) -> GetResult | None:
        """The first messages from `begin` on that match the pop; None where there is none now."""
        for _ in range(PASSES_MAX):
            result = self._get(request, key, begin, count, room_bytes, is_new=True)
            if result.misplaced is not None:
                self._need_right_unit(key, result.misplaced)
            if result.status == GetStatus.FOUND and result.count:
                if not is_warm:
                    self._need_memory(key, result)
                return result
            if result.unread is not None:
                self._need_unread(key, result.unread, result.unread_end)
            if result.next_offset <= begin:
                return None
            if result.status == GetStatus.MESSAGES_LOST:
                self.lost += result.next_offset - result.lost_from
                log.error(
                    "messages are lost: damaged, and no replica has them topic=%s queue=%s begin=%s end=%s group=%s",
                    *(key[1], key[2], result.lost_from, result.next_offset, key[0]),
                )
            elif result.status == GetStatus.OFFSET_TOO_SMALL:
                log.warning(
                    "retention was faster topic=%s queue=%s from=%s to=%s", key[1], key[2], begin, result.next_offset
                )
            elif result.status != GetStatus.NO_MATCHED_MESSAGE:
                return None
            begin = self._passed[key] = result.next_offset
            if request.sql:
                break
        self._is_unfinished = True
        return None

    def _get(
        self, request: PopMessages, key: QueueKey, begin: int, count: int, room_bytes: int, *, is_new: bool
    ) -> GetResult:
        """`is_new`: what the pop's filter is asked about; what was handed out before matched it then."""
        search = None
        if request.sql and is_new:
            end_ns = monotonic_ns() + SEARCH_NS
            condition, read_below = self._conditions.condition(request.sql), self._read_below.get(key, 0)
            search = Search(condition, lambda: monotonic_ns() < end_ns, read_below)
        return self._store.get_messages(
            key[1],
            key[2],
            begin,
            max_messages=count,
            max_bytes=max(1, room_bytes),
            codes=request.tag_codes if is_new else (),
            search=search,
        )

    def _take_ordered(
        self,
        request: PopMessages,
        key: QueueKey,
        queue: PopQueue | None,
        room: int,
        results: list[GetResult],
        offsets: list[int],
        attempts: list[int],
        is_warm: bool,
    ) -> Take | None:
        """One message of each sharding key, at most."""
        if queue is not None and len(queue.available) >= LOOKS_MAX and not offsets:
            return None  # it goes on once some of these are free
        blocked = set() if queue is None else set(queue.busy) | set(queue.keys.values())
        choice = OrderedChoice(room - len(offsets), blocked)
        next_offset = self._position(key, queue)
        slices = [part for result in results for part in result.slices]
        keys = [0 if queue is None else queue.keys.get(offset, 0) for offset in offsets]
        if not choice.is_full and (queue is None or len(queue.available) < LOOKS_MAX):
            result = self._read_new(request, key, next_offset, LOOKS_MAX, self._bytes_max, is_warm)
            if result is not None:
                results.append(result)
                for message in _messages([result]):
                    if choice.is_full:
                        break
                    next_offset = message.queue_offset + 1
                    if choice.offer(message.queue_offset, key_hash(message.properties.get(SHARDING_KEY, ""))):
                        slices.append(memoryview(message.record))
        chosen = offsets + [offset for offset, _ in choice.chosen]
        if not chosen:
            return None
        return self._taken(
            request,
            key,
            queue,
            results,
            chosen,
            attempts + [0] * len(choice.chosen),
            next_offset,
            keys=(*keys, *(hash_ for _, hash_ in choice.chosen)),
            passed=tuple(choice.passed),
            slices=slices,
        )

    def _work(self, call: Call[PopMessages], request: PopMessages, key: QueueKey, first: _WorkFirst) -> None:
        """A worker goes first; then the pop is served as if it had just come. The queue is closed until then. Raises
        BrokerBusy."""

        def then(result: object) -> None:
            self._closed.pop(key, None)
            first.then(result)
            self._check(request)
            self._serve_or_park(call, request, key)

        def work() -> object:
            try:
                return first.work()
            except BaseException:
                self._closed.pop(key, None)
                raise

        self._closed[key] = _UNTIL_READ
        try:
            self._parts.workers.run(call, work, then)
        except BrokerBusy:
            del self._closed[key]
            raise

    def _need_memory(self, key: QueueKey, result: GetResult) -> None:
        """Raises _WorkFirst where the messages may have to come from the disk."""
        store = self._store

        def work() -> tuple[bool, int | None]:
            is_whole = page_in_all(result.slices)
            if is_whole and not result.is_cold:
                store.known_pages.learn(result.untouched)
            return is_whole, result.find_misplaced() if is_whole and result.find_misplaced is not None else None

        def then(found: tuple[bool, int | None]) -> None:
            is_whole, misplaced = found
            if not is_whole:
                raise BrokerBusy(BUSY_RETRY_MS, "the disk cannot be read")
            if misplaced is not None:
                self._misplaced[key] = misplaced

        if result.is_cold or result.untouched:
            raise _WorkFirst(work, then)

    def _need_unread(self, key: QueueKey, unread: memoryview, unread_end: int) -> None:
        """Raises _WorkFirst: a search goes on behind what is not in memory."""

        def then(is_whole: bool) -> None:
            if not is_whole:
                raise BrokerBusy(BUSY_RETRY_MS, "the disk cannot be read")
            self._read_below[key] = unread_end

        raise _WorkFirst(lambda: page_in_all([unread]), then)

    def _need_right_unit(self, key: QueueKey, queue_offset: int) -> None:
        """Raises _WorkFirst: the unit of a message does not name its record, which a worker looks for in the log."""
        store, units = self._store, self._store.damaged_units
        misplaced = units.misplaced(key[1], key[2], queue_offset)
        if misplaced is None:
            raise BrokerBusy(BUSY_RETRY_MS, "a damaged unit of a queue is being looked up")

        def work() -> tuple[WrongUnit | None, list[tuple[int, int]]]:
            found = units.find(misplaced)
            return found, [] if found is not None else store.damaged_in([units.span(misplaced)])

        def then(result: tuple[WrongUnit | None, list[tuple[int, int]]]) -> None:
            found, damaged = result
            units.set_right([] if found is None else [found])
            store.damage.add_all(damaged, "met on its way to a consumer")
            if found is None:
                units.give_up(misplaced)

        raise _WorkFirst(work, then)

    def _hand_out(self, call: Call[PopMessages], request: PopMessages, takes: list[Take]) -> None:
        """Raises StoreNotWriteable, NotEnoughReplicas."""
        event = self._table.event_popped(request.group, request.topic, [take.popped for take in takes])
        end = int(self._state.stage(self._store, POPS, event))
        parts = []
        slices: list[memoryview | bytes] = []
        for take in takes:
            popped = take.popped
            self._closed[request.group, request.topic, popped.queue_id] = end
            count = len(popped.offsets)
            handle = ReceiptHandle(
                self._parts.config.name,
                request.group,
                request.topic,
                popped.queue_id,
                popped.offsets[0],
                count,
                popped.pop_ms,
                popped.invisible_ms,
            )
            parts.append((popped.queue_id, count, handle.sign(self._table.key), popped.attempts))
            slices += take.slices
            self.messages += count
        self.pops += 1
        payload: Any = slices if len(slices) <= FRAMES_MAX else (b"".join(slices),)
        reply = PopReply(tuple(parts), self._clock.now_ms())
        self._parts.acknowledgements.staged.append((call, reply, end, payload))


_UNTIL_READ: Final = 1 << 62


def _messages(results: list[GetResult]) -> list[StoredMessage]:
    return list(decode_batch(b"".join(part for result in results for part in result.slices)))
