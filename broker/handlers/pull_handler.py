"""Pulls: answered at once if there are messages, otherwise parked until one arrives or the time is over.

Owned by the loop thread. After each commit a limited number of parked pulls is checked for new messages.
A wrong offset is no error: the reply's status and next offset say where to continue.

A pull whose filter matches nothing for long is *scanning*: it is parked like a waiting one, and continues for a while in
each turn, taking turns with others, so that a selective filter delays neither sends nor other pulls. Only there are conditions
(SQL92) evaluated. At its deadline the reply says how far it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ...model.clock import Clock, monotonic_ns
from ...model.errors import BrokerBusy, InvalidParameter, TopicNotFound, ZenitError
from ...model.get_status import GetStatus
from ...model.names import check_group
from ...model.subscription import TAGS_MAX
from ...remoting.commands import PullMessages, PullReply
from ...remoting.server import Call, RequestLoop
from ...store.get_result import GetResult, Search
from ...store.log.segment import page_in
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from ..filter.condition_cache import ConditionCache
from ..metrics.flows import Flows
from ..state.admission import readable_queue
from ..state.state_log import StateLog
from ..worker_pool import WorkerPool
from .pull_hold import Parked, PullHold
from .unit_search import SEARCH_MS, Found, UnitSearch

FRAMES_MAX: Final = 16  # more slices than this cost more as frames than one copy does
LOOK_MS: Final = 1000  # a pull that may not wait, but has a condition to evaluate, gets its turn within this time
DAMAGE_MS: Final = 1000  # how long a pull waits before damage that a replica may repair: most is repaired by then
SCAN_NS: Final = 1_000_000  # the time for all scanning pulls together in one turn


class PullHandler:
    """PullMessages, and the parked ones."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        loop: RequestLoop,
        clock: Clock,
        workers: WorkerPool,
        config: BrokerConfig,
        conditions: ConditionCache,
        read_from: Callable[[bool, int], int],
        *,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`read_from(is_cold, queue_id)`: the broker id of the replica to read a queue from next."""
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._workers = workers
        self._suspend_ms_max = config.suspend_ms_max
        self._wakes_per_turn = config.wakes_per_turn
        self._messages_max = config.store.pull_messages_max
        self._bytes_max = config.store.pull_bytes_max
        self._woken: deque[Parked[Call[PullMessages]]] = deque()
        self._is_resuming = False
        self._conditions = conditions
        self._now_ns = now_ns
        self._scan_end_ns = 0
        self._is_searching = False
        self._scans: deque[Parked[Call[PullMessages]]] = deque()
        self._is_scan_due = False
        self._read_from = read_from
        self.hold: PullHold[Call[PullMessages]] = PullHold(
            count_max=config.parked_pulls_max, bytes_max=config.parked_bytes_max
        )
        self.pulls = 0
        self.messages = 0
        self.size_bytes = 0
        self.scanned = 0
        self.scan_ns_max = 0
        self.flows: Flows | None = None  # set where metrics are on

    def on_pull(self, call: Call[PullMessages]) -> None:
        """Answers with the messages there are, or parks the pull. Raises what is wrong with it, or BrokerBusy."""
        request = call.request
        readable_queue(
            self._state.topic_table,
            request.topic,
            request.queue_id,
            self._store.has_light_queue,
            incarnation=request.incarnation,
        )
        if request.group and request.group not in self._state.group_table.documents:
            check_group(request.group)
        if request.max_messages < 1 or request.max_bytes < 1:
            raise InvalidParameter("max_messages, max_bytes", (request.max_messages, request.max_bytes), "at least 1")
        if len(request.tag_codes) > TAGS_MAX:
            raise InvalidParameter("tag_codes", f"{len(request.tag_codes)} codes", f"at most {TAGS_MAX}")
        self.pulls += 1
        if request.topic in self._state.topic_table.compacted and self._read_compacted(call, request):
            return
        if request.sql:
            self._check_filtered(request)
            self._conditions.condition(request.sql)
            self._scan_on(self._park(call, request, request.queue_offset))
            return
        result = self._get(request, request.queue_offset)
        if request.is_doubted and result.count:
            self._look_closer(call, request, result.next_offset)
            return
        may_wait = min(request.suspend_ms, self._suspend_ms_max) > 0 and _waits(result, request.queue_offset)
        if not may_wait or _has_passed_over(result, request.queue_offset):
            self._answer(call, result)
            return
        parked = self._park(call, request, result.next_offset)
        self._hasten_before_damage(parked, result)
        if _is_unfinished(result):
            self._scan_on(parked)
        else:
            parked.has_waited = True

    def _read_compacted(self, call: Call[PullMessages], request: PullMessages) -> bool:
        """True if only compacted files have the message at the pull's offset: a worker reads them, and it is answered.
        Raises BrokerBusy."""
        read = self._store.compacted_read(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            codes=request.tag_codes,
            search=Search(self._conditions.condition(request.sql), lambda: True) if request.sql else None,
        )
        if read is not None:
            self._workers.run(call, read, partial(self._reply, call))
        return read is not None

    def _check_filtered(self, request: PullMessages) -> None:
        """Raises InvalidParameter if the topic's records hold batches: those lack the properties of their messages."""
        config = self._state.topic_table.configs.get(request.topic)
        if config is not None and config.is_batched:
            raise InvalidParameter(
                "sql", request.sql[:64], "a filter by tags: the topic takes batches (queue.type=BatchCQ)"
            )

    def _look_closer(self, call: Call[PullMessages], request: PullMessages, end: int) -> None:
        """A worker checks the messages up to `end`; then the pull is handled as if it had just arrived. Raises BrokerBusy."""
        store, places = self._store, self._store.places_of(request.topic, request.queue_id, request.queue_offset, end)

        def then(damaged: list[tuple[int, int]]) -> None:
            store.damage.add_all(damaged, "met on its way to a consumer")
            self._answer(call, self._get(request, request.queue_offset), is_looked_at=True)

        self._workers.run(call, partial(store.damaged_in, places), then)

    def _set_right(self, call: Call[PullMessages], request: PullMessages, queue_offset: int) -> None:
        """The unit of the message at `queue_offset` does not name its record. A worker looks for the record in the
        log, and whether it is damaged; then the pull is handled as if it had just arrived. Raises BrokerBusy."""
        misplaced = self._store.damaged_units.misplaced(request.topic, request.queue_id, queue_offset)
        if misplaced is None or self._is_searching:
            raise BrokerBusy(SEARCH_MS, "a damaged unit of a queue is being looked up")
        search = UnitSearch(self._store, misplaced)

        def work() -> Found:
            try:
                return search.search()
            finally:
                self._is_searching = False

        def then(found: Found) -> None:
            search.settle(found)
            again = self._get(request, request.queue_offset)
            if again.misplaced == queue_offset:
                search.give_up()
                again = self._get(request, request.queue_offset)
            self._answer(call, again)

        self._is_searching = True
        try:
            self._workers.run(call, work, then)
        except BrokerBusy:
            self._is_searching = False
            raise

    def _park(self, call: Call[PullMessages], request: PullMessages, queue_offset: int) -> Parked[Call[PullMessages]]:
        """Raises BrokerBusy."""
        suspend_ms = min(request.suspend_ms, self._suspend_ms_max)
        parked = self.hold.park(
            call,
            topic=request.topic,
            queue_id=request.queue_id,
            queue_offset=queue_offset,
            deadline_ms=min(self._clock.monotonic_ms() + (suspend_ms if suspend_ms > 0 else LOOK_MS), call.deadline_ms),
            filter_bytes=8 * len(request.tag_codes) + len(request.sql),
        )
        parked.may_wait = suspend_ms > 0
        return parked

    def _hasten_before_damage(self, parked: Parked[Call[PullMessages]], result: GetResult) -> None:
        """Shortens the wait, so that the consumer soon learns why nothing comes."""
        if result.status == GetStatus.OFFSET_OVERFLOW_ONE and result.next_offset < result.max_offset:
            self.hold.hasten(parked, self._clock.monotonic_ms() + DAMAGE_MS)

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """These queues have new messages: checks some of the waiting pulls; the others follow in the next turns."""
        if not self.hold.count:
            return
        for topic, queue_id in queues:
            for parked in self.hold.waiting_on(topic, queue_id):
                if not (parked.is_woken or parked.is_scanning):
                    parked.is_woken = True
                    self._woken.append(parked)
        if self._woken and not self._is_resuming:
            self._serve_woken()

    def look_again(self) -> None:
        """Damage was repaired, or is known to be lost: pulls that waited before it may continue."""
        for parked in self.hold.all_waiting():
            if not (parked.is_woken or parked.is_scanning):
                parked.is_woken = True
                self._woken.append(parked)
        if self._woken and not self._is_resuming:
            self._serve_woken()

    def on_tick(self, now_ms: int) -> None:
        """Answers pulls whose time is over with the messages there are."""
        for parked in self.hold.expired(now_ms):
            self._serve(parked, is_last=True)

    def answer_waiting(self) -> None:
        """Answers all that wait, with the messages there are."""
        for parked in self.hold.all_waiting():
            self._serve(parked, is_last=True)

    def on_topic_deleted(self, topic: str) -> None:
        """Tells pulls on a deleted topic that no messages will come."""
        for parked in self.hold.waiting_on_topic(topic):
            self.hold.release(parked)
            self._loop.fail(parked.waiting, TopicNotFound(topic))

    def _serve_woken(self) -> None:
        self._is_resuming = False
        for _ in range(min(len(self._woken), self._wakes_per_turn)):
            parked = self._woken.popleft()
            parked.is_woken = False
            if parked.is_parked:
                self._look(parked)
        if self._woken:
            self._is_resuming = True
            self._loop.call_later(0, self._serve_woken)

    def _look(self, parked: Parked[Call[PullMessages]]) -> None:
        """More may be read in the queue of a waiting pull."""
        request = parked.waiting.request
        assert isinstance(request, PullMessages)
        if request.sql:
            self._scan_on(parked)
        else:
            self._serve(parked, is_last=False)

    def _serve(self, parked: Parked[Call[PullMessages]], *, is_last: bool) -> None:
        """Answers a parked pull if there is something for it, or if this is its last chance."""
        request = parked.waiting.request
        assert isinstance(request, PullMessages)
        try:
            result = self._get_for(parked, request)
            parked.is_scanning = False
            if not is_last and result.unread is not None:
                self._read_for(parked, result.unread, result.unread_end)
                return
            may_wait = not is_last and parked.may_wait and _waits(result, parked.queue_offset)
            if may_wait and (parked.has_waited or not _has_passed_over(result, request.queue_offset)):
                is_on_its_way = _is_unfinished(result) and result.next_offset > parked.queue_offset
                parked.has_waited = parked.has_waited or not is_on_its_way
                parked.queue_offset = result.next_offset
                self._hasten_before_damage(parked, result)
                if is_on_its_way:
                    self._scan_on(parked)
                return
            self.hold.release(parked)
            self._answer(parked.waiting, result)
        except ZenitError as error:
            self.hold.release(parked)
            self._loop.fail(parked.waiting, error)

    # ---- scanning

    def _scan_on(self, parked: Parked[Call[PullMessages]]) -> None:
        """Lets a parked pull continue in one of the next turns, at the end of this one at the earliest."""
        parked.is_scanning = True
        self._scans.append(parked)
        if not self._is_scan_due:
            self._is_scan_due = True
            self._loop.call_later(0, self._scan)

    def _scan(self) -> None:
        """One turn's share of scanning: each pull continues a little, until the time is used up."""
        begin_ns = self._now_ns()
        self._scan_end_ns = begin_ns + SCAN_NS
        while self._scans:
            parked = self._scans.popleft()
            if parked.is_parked:
                self._serve(parked, is_last=False)
            if not self._has_scan_time():
                break
        self.scan_ns_max = max(self.scan_ns_max, self._now_ns() - begin_ns)
        self._is_scan_due = bool(self._scans)
        if self._scans:
            self._loop.call_later(0, self._scan)

    def _has_scan_time(self) -> bool:
        return self._now_ns() < self._scan_end_ns

    def _read_for(self, parked: Parked[Call[PullMessages]], unread: memoryview, unread_end: int) -> None:
        """A worker reads what is not in memory; then the pull continues. Raises BrokerBusy."""

        place, store = (unread_end - len(unread), unread_end), self._store

        def work() -> list[tuple[int, int]]:
            if not page_in_all([unread]):
                return store.damaged_in([place])
            store.known_pages.learn([place])
            return []

        def then(damaged: list[tuple[int, int]]) -> None:
            store.damage.add_all(damaged, "the disk could not read it")
            parked.read_below = unread_end
            self._scan_on(parked)

        parked.is_scanning = True
        self._workers.run(parked.waiting, work, then)

    def _get_for(self, parked: Parked[Call[PullMessages]], request: PullMessages) -> GetResult:
        search = None
        if request.sql:
            search = Search(self._conditions.condition(request.sql), self._has_scan_time, parked.read_below)
        result = self._get(request, parked.queue_offset, search)
        if parked.is_scanning and result.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            self.scanned += result.next_offset - parked.queue_offset
        return result

    def _get(self, request: PullMessages, queue_offset: int, search: Search | None = None) -> GetResult:
        return self._store.get_messages(
            request.topic,
            request.queue_id,
            queue_offset,
            max_messages=min(request.max_messages, self._messages_max),
            max_bytes=min(request.max_bytes, self._bytes_max),
            codes=request.tag_codes,
            search=search,
        )

    def _answer(self, call: Call[PullMessages], result: GetResult, *, is_looked_at: bool = False) -> None:
        """A worker first reads what may come from the disk, so that the loop never waits for a page, and never touches
        a page that the disk cannot read. `is_looked_at`: damage in it was found and is quarantined."""
        request = call.request
        if result.misplaced is not None:
            self._set_right(call, request, result.misplaced)
            return
        if not (result.is_cold or result.untouched):
            self._reply(call, result)
            return

        def work() -> tuple[bool, int | None]:
            is_whole = page_in_all(result.slices)
            if is_whole and not result.is_cold:
                self._store.known_pages.learn(result.untouched)
            return is_whole, result.find_misplaced() if is_whole and result.find_misplaced is not None else None

        def then(found: tuple[bool, int | None]) -> None:
            is_whole, misplaced = found
            if misplaced is not None:
                self._set_right(call, request, misplaced)
            elif is_whole:
                self._reply(call, result)
            elif is_looked_at:
                raise BrokerBusy(LOOK_MS, "the disk cannot be read")
            else:
                self._look_closer(call, request, result.next_offset)

        self._workers.run(call, work, then)

    def _reply(self, call: Call[PullMessages], result: GetResult) -> None:
        self.messages += result.count
        slices = result.slices
        size_bytes = sum(map(len, slices))
        self.size_bytes += size_bytes
        request = call.request
        if self.flows is not None and result.count:
            self.flows.gave(request.topic, request.group, result.count, size_bytes)
        reply = PullReply(
            int(result.status),
            result.next_offset,
            result.min_offset,
            result.max_offset,
            result.count,
            self._read_from(result.is_cold, request.queue_id),
            result.lost_from,
            *result.lost,
            result.is_compacted,
        )
        self._loop.reply(call, reply, slices if len(slices) <= FRAMES_MAX else (b"".join(slices),))


def page_in_all(slices: list[memoryview]) -> bool:
    """Any thread. Brings them into memory while other threads run; False if the disk cannot read all of it."""
    return all(page_in(part) for part in slices)


def _waits(result: GetResult, queue_offset: int) -> bool:
    """True if a later message, or one that its filter has not seen yet, may match the pull."""
    status = result.status
    if status == GetStatus.FOUND or result.misplaced is not None:
        return False
    if status == GetStatus.OFFSET_OVERFLOW_ONE:
        return True
    if status == GetStatus.NO_MATCHED_MESSAGE:
        return True
    return status in (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.NO_MATCHED_LOGIC_QUEUE) and queue_offset == 0


def _has_passed_over(result: GetResult, queue_offset: int) -> bool:
    """True if the filter has left out everything from there to the queue's end. The consumer is told at once, so that its
    group's offsets move past that, however soon it ends; messages that arrive while it waits come with the next answer."""
    return result.status == GetStatus.NO_MATCHED_MESSAGE and queue_offset < result.next_offset >= result.max_offset


def _is_unfinished(result: GetResult) -> bool:
    """True if there are messages that the pull's filter has not seen."""
    return result.status == GetStatus.NO_MATCHED_MESSAGE and result.next_offset < result.max_offset
