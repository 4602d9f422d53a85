"""What one queue gives a pop: what is available again first, then what nobody looked at. Loop thread.

A lite topic's queue is taken as a whole: while any message of it is leased, or on its way to the dead letters, it gives
nothing; and what is available again goes out before what nobody looked at, never with it.

Nothing is changed here but notes of how far a filter looked in vain; `PopHandler` stages what goes out. Where messages may
have to come from the disk, or a unit of the queue is damaged, `WorkFirst` says what a worker is to do before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...model.clock import monotonic_ns
from ...model.errors import BrokerBusy, InvalidParameter
from ...model.get_status import GetStatus
from ...model.properties import SHARDING_KEY
from ...model.topics.light_queues import is_light_queue
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import PopMessages
from ...store.get_result import GetResult, Search
from ..filter.condition_cache import ConditionCache
from ..handlers.parts import Parts
from ..handlers.pull_handler import page_in_all
from ..handlers.unit_search import SEARCH_MS, Found, UnitSearch
from ..state.pop_queue import PopQueue
from ..state.pop_table import Popped, PopTable, QueueKey, place_of
from ..state.retry_policy import retries_max_of
from .choice import LOOKS_MAX, OrderedChoice, key_hash, runs_of
from .leases import Leases

log = logging.getLogger(__name__)

RUNS_MAX: Final = 8  # stretches of available messages that one pop reads
PASSES_MAX: Final = 8  # goes over messages that a filter does not match, in one queue and turn
BUSY_RETRY_MS: Final = 500
SEARCH_NS: Final = 1_000_000  # of one go of a search, in one turn
PAYLOAD_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Take:
    """What one queue gives. `slices`: of the log, whole records back to back."""

    key: QueueKey
    popped: Popped
    slices: list[memoryview]


class WorkFirst(Exception):
    """A queue can be looked at once a worker has done something; `then` takes the result, on the loop."""

    def __init__(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        super().__init__()
        self.work = work
        self.then = then


class QueueMessages:
    """Of all queues. `is_unfinished`: there is more to look at, in another turn; `lost`: messages that damage took."""

    def __init__(self, parts: Parts, conditions: ConditionCache, leases: Leases) -> None:
        self.is_unfinished = False
        self.lost = 0
        self._config = parts.config
        self._store, self._state, self._clock = parts.store, parts.state, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._conditions = conditions
        self._leases = leases
        self._bytes_max = min(parts.config.store.pull_bytes_max, PAYLOAD_BYTES_MAX)
        self._passed: dict[QueueKey, tuple[int, int]] = {}  # (era, offset): a filter matched nothing below
        self._read_below: dict[QueueKey, int] = {}  # a search may touch the log below
        self._misplaced: dict[QueueKey, int] = {}  # queue offset whose unit names something else
        self._notes: tuple[dict[QueueKey, Any], ...] = self._passed, self._read_below, self._misplaced

    def begin(self) -> int:
        """Of a pop; returns how many bytes it may take."""
        self.is_unfinished = False
        return self._bytes_max

    def forget(self, key: QueueKey) -> None:
        """The group begins in the queue."""
        for notes in self._notes:
            notes.pop(key, None)

    def forget_topic(self, topic: str) -> None:
        """It was deleted."""
        for key in [key for notes in self._notes for key in notes if key[1] == topic]:
            self.forget(key)

    def forget_all(self) -> None:
        """Another broker hands out from now on."""
        for notes in self._notes:
            notes.clear()

    def _position(self, key: QueueKey, queue: PopQueue | None) -> int:
        """The first offset that nobody looked at."""
        committed = max(0, self._state.offset_table.offset(key[0], key[1], key[2]))
        era, passed = self._passed.get(key, (0, 0))
        if era != self._state.offset_table.era(*key):
            passed = 0  # an operator moved the group since
        if queue is None:
            return max(committed, passed)
        if queue.is_idle:
            return max(queue.next, committed, passed)
        return max(queue.next, passed)

    def take(self, request: PopMessages, key: QueueKey, room: int, room_bytes: int, *, is_warm: bool) -> Take | None:
        """What one queue has for a pop. Raises InvalidParameter, WorkFirst."""
        queue = self._table.queue(key)
        if queue is not None and not queue.is_idle and queue.is_ordered != request.is_ordered:
            raise InvalidParameter("is_ordered", request.is_ordered, f"{queue.is_ordered}, as what the group holds now")
        misplaced = self._misplaced.pop(key, None)
        if misplaced is not None:
            self._need_right_unit(key, misplaced)
        is_light = is_light_queue(key[1])
        if is_light and queue is not None and queue.is_leased:
            return None
        results, offsets, attempts = self._take_available(request, key, queue, room, room_bytes, is_warm)
        if is_light and queue is not None and queue.available and not offsets:
            return None
        if request.is_ordered:
            return self._take_ordered(request, key, queue, room, results, offsets, attempts, is_warm)
        next_offset = self._position(key, queue)
        if len(offsets) < room and not results:
            result = self._read_new(request, key, next_offset, room, room_bytes, is_warm)
            if result is not None:
                results.append(result)
                offsets += _offsets(key, result.next_offset - result.count, result)
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
        now_ms = self._clock.now_ms()
        follow_each_other = offsets[-1] - offsets[0] == len(offsets) - 1
        popped = Popped(
            place_of(key)[1],
            range(offsets[0], offsets[-1] + 1) if follow_each_other else tuple(offsets),
            now_ms if queue is None else queue.next_pop_ms(now_ms),
            request.invisible_ms,
            next_offset,
            owner=request.client_id if request.renews else "",
            attempts=tuple(attempts) if any(attempts) else (),
            keys=keys,
            passed=passed,
        )
        whole = [part for result in results for part in result.slices] if slices is None else slices
        return Take(key, popped, whole)

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
            if is_light_queue(key[1]):
                return [], [], []
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
            got = _offsets(key, first, result)
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
            begin = result.next_offset
            self._passed[key] = self._state.offset_table.era(*key), begin
            if request.sql:
                break
        self.is_unfinished = True
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

    def _need_memory(self, key: QueueKey, result: GetResult) -> None:
        """Raises WorkFirst where the messages may have to come from the disk."""
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
            raise WorkFirst(work, then)

    def _need_unread(self, key: QueueKey, unread: memoryview, unread_end: int) -> None:
        """Raises WorkFirst: a search goes on behind what is not in memory."""

        def then(is_whole: bool) -> None:
            if not is_whole:
                raise BrokerBusy(BUSY_RETRY_MS, "the disk cannot be read")
            self._read_below[key] = unread_end

        raise WorkFirst(lambda: page_in_all([unread]), then)

    def _need_right_unit(self, key: QueueKey, queue_offset: int) -> None:
        """Raises WorkFirst: the unit of a message does not name its record, which a worker looks for in the log."""
        misplaced = self._store.damaged_units.misplaced(key[1], key[2], queue_offset)
        if misplaced is None:
            raise BrokerBusy(SEARCH_MS, "a damaged unit of a queue is being looked up")
        search = UnitSearch(self._store, misplaced)

        def then(found: Found) -> None:
            search.settle(found)
            if found[0] is None:
                search.give_up()

        raise WorkFirst(search.search, then)


def _offsets(key: QueueKey, begin: int, result: GetResult) -> list[int]:
    """Of its messages. Those of a light queue have the offset in their topic's queue; they follow each other from `begin` on,
    since no filter was asked for."""
    if is_light_queue(key[1]):
        return list(range(begin, begin + result.count))
    return [message.queue_offset for message in _messages([result])] if result.count else []


def _messages(results: list[GetResult]) -> list[StoredMessage]:
    return list(decode_batch(b"".join(part for result in results for part in result.slices)))
