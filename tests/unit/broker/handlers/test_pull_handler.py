"""Pulls against a queue that is a list: what is answered at once, what waits, and what ends the wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.filter.condition_cache import ConditionCache
from zenitmq.broker.handlers import pull_handler
from zenitmq.broker.handlers.pull_handler import DAMAGE_MS, LOOK_MS, SCAN_NS, PullHandler
from zenitmq.broker.state.group_table import GroupTable
from zenitmq.broker.state.topic_table import TopicTable
from zenitmq.model.errors import BrokerBusy, InvalidParameter, SqlSyntaxError, TopicNotFound, ZenitError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.route import MASTER_ID, TopicConfig
from zenitmq.remoting.commands import PullMessages, PullReply
from zenitmq.store.get_result import GetResult, Search


class Call:
    def __init__(self, request: PullMessages) -> None:
        self.request = request
        self.deadline_ms = 1 << 40


class World:
    """The loop, the clock, the store and the state in one, as far as pulls see them."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.is_cold = False
        self.untouched: tuple[tuple[int, int], ...] = ()
        self.learnt: list[tuple[int, int]] = []
        self.paged_in: list[Callable[[], None]] = []
        self.messages: list[int] = []  # tag code of each
        self.step = 1 << 40  # how many a pull with tag codes looks at in one go
        self.unread_below = 0  # what lies below this offset is to be read by a worker before it is searched
        self.now_ns = 0
        self.damaged_at = -1  # the message at this offset is damaged, and a replica may have it
        self.damage = Damage()
        self.cost_ns = 1000  # of a message that is searched
        self.replies: list[tuple[int, int, int]] = []  # status, next offset, count
        self.errors: list[type[ZenitError]] = []
        self.later: list[Callable[[], None]] = []
        self.group_table = GroupTable()
        self.topic_table = TopicTable()
        self.topic_table.on_event(self.topic_table.event_set(TopicConfig("t", 1, 1)), {}, 100)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def reply(self, call: Call, reply: PullReply, payload: object = ()) -> None:
        self.replies.append((reply.status, reply.next_offset, reply.count))

    def fail(self, call: Call, error: ZenitError) -> None:
        self.errors.append(type(error))

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def has_light_queue(self, name: str) -> bool:
        return False

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        search: Search | None,
    ) -> GetResult:
        end = len(self.messages)
        if end == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if queue_offset == end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, end, 0, end)
        if queue_offset > end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, 0, 0, end)
        if queue_offset == self.damaged_at:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, 0, end)
        if search is not None:
            return self._search(queue_offset, end, search)
        if codes and queue_offset + self.step < end:
            end = queue_offset + self.step
        found = [code for code in self.messages[queue_offset:end] if not codes or code in codes]
        status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
        total = len(self.messages)
        slices = [memoryview(b"r" * 10)] * len(found)
        return GetResult(status, end, 0, total, len(found), slices, self.is_cold, untouched=self.untouched)

    def _search(self, queue_offset: int, end: int, search: Search) -> GetResult:
        """Message n has the property n = its code and lies at physical offset n."""
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, 0, end)
        while not result.count and result.next_offset < end:
            if search.read_below <= result.next_offset < self.unread_below:
                result.unread, result.unread_end = memoryview(b"u"), result.next_offset + 3
                return result
            if search.condition.matches([b"%d" % self.messages[result.next_offset]]):
                result.status, result.count, result.slices = GetStatus.FOUND, 1, [memoryview(b"r" * 10)]
            result.next_offset += 1
            self.now_ns += self.cost_ns
            if not search.has_time():
                break
        return result

    @property
    def known_pages(self) -> World:
        return self

    def learn(self, places: Iterable[tuple[int, int]]) -> None:
        self.learnt += places

    def run(self, call: Call, work: Callable[[], object], then: Callable[[object], None]) -> None:
        self.paged_in.append(lambda: then(work()))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pulls(world: World) -> PullHandler:
    it: Any = world
    config = BrokerConfig(parked_pulls_max=4, wakes_per_turn=2, suspend_ms_max=1000)
    return PullHandler(it, it, it, it, it, config, ConditionCache(), lambda *_: MASTER_ID, now_ns=lambda: it.now_ns)


def pull(
    pulls: PullHandler, offset: int = 0, *, suspend_ms: int = 500, codes: tuple[int, ...] = (), **other: Any
) -> None:
    fields = {"group": "g", "topic": "t", "queue_id": 0, "max_messages": 10, "max_bytes": 1000, **other}
    call: Any = Call(PullMessages(queue_offset=offset, suspend_ms=suspend_ms, tag_codes=codes, **fields))
    pulls.on_pull(call)


def turn(world: World) -> None:
    """The loop's timers."""
    due, world.later = world.later, []
    for callback in due:
        callback()


def arrive(world: World, pulls: PullHandler, *codes: int) -> None:
    world.messages.extend(codes)
    pulls.on_arrivals([("t", 0)])


def test_what_is_there_is_answered_at_once(world: World, pulls: PullHandler) -> None:
    world.messages = [1, 2]
    pull(pulls)
    assert world.replies == [(GetStatus.FOUND, 2, 2)]
    assert (pulls.messages, pulls.size_bytes) == (2, 20)


@pytest.mark.parametrize("there", [[], [1, 2]])
def test_at_the_end_a_pull_waits_for_the_next_message(world: World, pulls: PullHandler, there: list[int]) -> None:
    world.messages = there
    end = len(there)
    pull(pulls, end)
    assert world.replies == []
    arrive(world, pulls, 7)
    assert world.replies == [(GetStatus.FOUND, end + 1, 1)]
    assert pulls.hold.count == 0


def test_what_may_be_on_the_disk_only_is_read_by_a_worker_first(world: World, pulls: PullHandler) -> None:
    world.messages, world.is_cold = [1, 2], True
    pull(pulls)
    assert world.replies == []
    world.paged_in.pop()()
    assert world.replies == [(GetStatus.FOUND, 2, 2)]


def test_what_this_process_has_not_had_in_memory_is_read_by_a_worker_and_known_from_then_on(
    world: World, pulls: PullHandler
) -> None:
    world.messages, world.untouched = [1, 2], ((30, 50),)
    pull(pulls)
    assert (world.replies, world.learnt) == ([], [])
    world.paged_in.pop()()
    assert (world.replies, world.learnt) == ([(GetStatus.FOUND, 2, 2)], [(30, 50)])


def test_without_suspend_nothing_waits(world: World, pulls: PullHandler) -> None:
    world.messages = [1]
    pull(pulls, 1, suspend_ms=0)
    assert world.replies == [(GetStatus.OFFSET_OVERFLOW_ONE, 1, 0)]


@pytest.mark.parametrize(("messages", "offset"), [([1], 5), ([], 5)])
def test_a_wrong_offset_is_answered_and_not_waited_for(
    world: World, pulls: PullHandler, messages: list[int], offset: int
) -> None:
    world.messages = messages
    pull(pulls, offset)
    assert [reply[1] for reply in world.replies] == [0]


def test_the_wait_ends_at_its_time_and_at_the_limit(world: World, pulls: PullHandler) -> None:
    pull(pulls, suspend_ms=500)
    pull(pulls, suspend_ms=60_000)
    pulls.on_tick(499)
    assert world.replies == []
    pulls.on_tick(500)
    assert len(world.replies) == 1
    pulls.on_tick(1000)
    assert world.replies == [(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0)] * 2


@pytest.mark.parametrize("sql", ["", "n > 0"])
def test_a_wait_before_damage_ends_soon_so_that_the_consumer_is_told(
    world: World, pulls: PullHandler, sql: str
) -> None:
    pulls._suspend_ms_max = 60_000
    world.messages, world.damaged_at = [1, 2], 0
    pull(pulls, suspend_ms=60_000, sql=sql)
    while world.later:
        turn(world)
    pulls.on_tick(DAMAGE_MS - 1)
    assert world.replies == []
    pulls.on_tick(DAMAGE_MS)
    assert world.replies == [(GetStatus.OFFSET_OVERFLOW_ONE, 0, 0)]


def test_a_message_of_another_tag_does_not_end_the_wait_but_moves_it_on(world: World, pulls: PullHandler) -> None:
    pull(pulls, codes=(7,))
    arrive(world, pulls, 1, 2)
    assert world.replies == []
    arrive(world, pulls, 7)
    assert world.replies == [(GetStatus.FOUND, 3, 1)]


def test_a_wait_that_nothing_matched_ends_behind_what_it_saw(world: World, pulls: PullHandler) -> None:
    pull(pulls, codes=(7,))
    arrive(world, pulls, 1, 2)
    pulls.on_tick(500)
    assert world.replies == [(GetStatus.OFFSET_OVERFLOW_ONE, 2, 0)]


def test_wakes_are_bounded_in_a_turn_and_go_on_in_the_next(world: World, pulls: PullHandler) -> None:
    for _ in range(4):
        pull(pulls)
    arrive(world, pulls, 1)
    assert (len(world.replies), len(world.later)) == (2, 1)
    pulls.on_arrivals([("t", 0)])  # the two that wait still are not served twice
    world.later.pop()()
    assert (len(world.replies), pulls.hold.count) == (4, 0)


def test_pulls_that_nothing_passes_are_woken_once_however_much_arrives(world: World, pulls: PullHandler) -> None:
    for _ in range(4):
        pull(pulls, codes=(7,))
    for _ in range(100):
        arrive(world, pulls, 1)
        assert len(pulls._woken) <= 4
    while world.later:
        turn(world)
    assert (world.replies, pulls.hold.count) == ([], 4)
    arrive(world, pulls, 7)
    while world.later:
        turn(world)
    assert [reply[0] for reply in world.replies] == [GetStatus.FOUND] * 4


def test_too_many_waiting_pulls_are_refused(world: World, pulls: PullHandler) -> None:
    for _ in range(4):
        pull(pulls)
    with pytest.raises(BrokerBusy):
        pull(pulls)


def test_a_deleted_topic_ends_the_wait(world: World, pulls: PullHandler) -> None:
    pull(pulls)
    pulls.on_topic_deleted("t")
    pulls.on_tick(1000)
    assert (world.errors, world.replies) == ([TopicNotFound], [])


@pytest.mark.parametrize("other", [{"max_messages": 0}, {"max_bytes": 0}, {"queue_id": 1}, {"codes": (7,) * 4097}])
def test_wrong_parameters_are_refused(world: World, pulls: PullHandler, other: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        pull(pulls, **other)


# ---- scanning: filters that pass little


def test_tags_that_match_little_are_looked_for_over_several_turns(world: World, pulls: PullHandler) -> None:
    world.messages, world.step = [1] * 10 + [7], 4
    pull(pulls, codes=(7,))
    assert (world.replies, pulls.hold.count) == ([], 1)
    turn(world)
    assert world.replies == [(GetStatus.FOUND, 11, 1)]
    assert (pulls.hold.count, pulls.scanned) == (0, 7)


def test_a_pull_that_may_not_wait_is_told_how_far_it_came(world: World, pulls: PullHandler) -> None:
    world.messages, world.step = [1] * 10, 4
    pull(pulls, codes=(7,), suspend_ms=0)
    assert world.replies == [(GetStatus.NO_MATCHED_MESSAGE, 4, 0)]


@pytest.mark.parametrize("step", [4, 100])
def test_what_a_filter_leaves_out_is_told_at_once_and_then_waited_behind(
    world: World, pulls: PullHandler, step: int
) -> None:
    """A consumer that ends soon leaves no lag of what its filter passed over."""
    world.messages, world.step = [1] * 10, step
    pull(pulls, codes=(7,))
    turn(world)
    assert world.replies.pop() == (GetStatus.NO_MATCHED_MESSAGE, 10, 0)
    pull(pulls, 10, codes=(7,))
    turn(world)
    assert (world.replies, world.later, pulls.hold.count) == ([], [], 1)
    arrive(world, pulls, 1)
    assert world.replies == [], "one by one they are no news"
    arrive(world, pulls, 7)
    assert world.replies == [(GetStatus.FOUND, 12, 1)]


def test_a_condition_is_evaluated_in_the_turn_s_share(world: World, pulls: PullHandler) -> None:
    world.messages, world.cost_ns = [1] * 5000 + [7], SCAN_NS // 1000
    pull(pulls, sql="n = 7")
    assert pulls.scanned == 0
    for looked_at in (1000, 2000, 3000, 4000, 5000):
        turn(world)
        assert (pulls.scanned, world.replies) == (looked_at, [])
    turn(world)
    assert world.replies == [(GetStatus.FOUND, 5001, 1)]
    assert pulls.scan_ns_max == SCAN_NS
    assert world.later == []


def test_scanning_pulls_take_turns(world: World, pulls: PullHandler) -> None:
    world.messages, world.cost_ns = [1] * 3, SCAN_NS
    pull(pulls, sql="n = 7", suspend_ms=0)
    pull(pulls, sql="n = 1", suspend_ms=0)
    turn(world)
    assert world.replies == [(GetStatus.NO_MATCHED_MESSAGE, 1, 0)]
    turn(world)
    assert world.replies[1:] == [(GetStatus.FOUND, 1, 1)]


def test_a_condition_waits_on_when_all_was_seen(world: World, pulls: PullHandler) -> None:
    world.messages = [1, 2]
    pull(pulls, sql="n = 7")
    turn(world)
    assert world.replies.pop() == (GetStatus.NO_MATCHED_MESSAGE, 2, 0)
    pull(pulls, 2, sql="n = 7")
    turn(world)
    assert (world.replies, world.later) == ([], [])
    arrive(world, pulls, 3)
    turn(world)
    assert world.replies == []
    arrive(world, pulls, 7)
    pulls.on_arrivals([("t", 0)])  # it is on its way already
    turn(world)
    assert world.replies == [(GetStatus.FOUND, 4, 1)]
    assert world.later == []


def test_at_its_time_a_scan_is_told_how_far_it_came(world: World, pulls: PullHandler) -> None:
    world.messages, world.cost_ns = [1] * 10, SCAN_NS
    pull(pulls, sql="n = 7", suspend_ms=500)
    turn(world)
    turn(world)
    pulls.on_tick(500)
    assert world.replies == [(GetStatus.NO_MATCHED_MESSAGE, 3, 0)]
    turn(world)
    assert (world.later, pulls.hold.count, len(world.replies)) == ([], 0, 1)


def test_a_scan_that_never_gets_its_turn_is_answered_in_time(world: World, pulls: PullHandler) -> None:
    world.messages = [1]
    pull(pulls, sql="n = 7", suspend_ms=0)
    pulls.on_tick(LOOK_MS)
    assert world.replies == [(GetStatus.NO_MATCHED_MESSAGE, 1, 0)]


def test_what_is_searched_is_read_by_a_worker_where_memory_may_not_have_it(world: World, pulls: PullHandler) -> None:
    world.messages, world.unread_below = [1, 1, 1, 1, 7, 1], 6
    pull(pulls, sql="n = 7")
    turn(world)
    pulls.on_arrivals([("t", 0)])
    assert (len(world.paged_in), world.later, world.replies) == (1, [], [])
    world.paged_in.pop()()
    turn(world)
    assert (len(world.paged_in), world.replies) == (1, [])  # the next part
    world.paged_in.pop()()
    turn(world)
    assert world.replies == [(GetStatus.FOUND, 5, 1)]


def test_without_a_worker_for_it_the_pull_is_refused(
    world: World, pulls: PullHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BrokerBusy(1, "all are busy")

    world.messages, world.unread_below = [1], 1
    monkeypatch.setattr(world, "run", refuse)
    pull(pulls, sql="n = 7")
    turn(world)
    assert (world.errors, pulls.hold.count) == ([BrokerBusy], 0)


def test_a_broken_condition_is_refused_at_once(world: World, pulls: PullHandler) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        pull(pulls, sql="n = ")
    assert (raised.value.position, pulls.hold.count) == (5, 0)


def test_a_deleted_topic_ends_a_scan(world: World, pulls: PullHandler) -> None:
    world.messages = [1]
    pull(pulls, sql="n = 7")
    pulls.on_topic_deleted("t")
    turn(world)
    assert (world.errors, world.replies, world.later) == ([TopicNotFound], [], [])


def test_conditions_count_against_what_may_wait(world: World, pulls: PullHandler) -> None:
    for _ in range(4):
        pull(pulls, sql="n = 7")
    with pytest.raises(BrokerBusy):
        pull(pulls, sql="n = 7")


def test_pulls_that_wait_before_damage_look_again_once_it_is_settled(world: World, pulls: PullHandler) -> None:
    """Of whichever queue: the record that was damaged may be anybody's."""
    world.messages = [1]
    pull(pulls, 1)
    assert (world.replies, pulls.hold.count) == ([], 1)
    world.messages = [1, 1]
    pulls.look_again()
    assert (world.replies, pulls.hold.count) == ([(GetStatus.FOUND, 2, 1)], 0)
    pulls.look_again()


class Damage:
    """What the store has quarantined."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def add_all(self, ranges: list[tuple[int, int]], how: str) -> None:
        self.found += ranges


@pytest.mark.parametrize("is_found", [False, True])
def test_pages_that_the_disk_cannot_give_are_quarantined_and_not_touched(
    world: World, pulls: PullHandler, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    """To touch one is the end of the process. What is whole is answered; where nothing is found, the pull may come again."""
    it: Any = world
    it.damage, it.places_of = Damage(), lambda *_: [(100, 200)]

    def damaged_in(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        assert places == [(100, 200)]
        if is_found:
            world.messages.pop()
            monkeypatch.undo()
        return [(150, 200)] if is_found else []

    it.damaged_in = damaged_in
    monkeypatch.setattr(pull_handler, "page_in", lambda view: False)
    world.messages, world.is_cold = [1, 2], True
    pull(pulls)
    world.paged_in.pop()()
    world.paged_in.pop()()
    if is_found:
        world.paged_in.pop()()
        assert world.replies == [(GetStatus.FOUND, 1, 1)]
        assert it.damage.found == [(150, 200)]
    else:
        with pytest.raises(BrokerBusy):
            world.paged_in.pop()()
        assert (world.replies, it.damage.found) == ([], [])


def test_a_search_goes_on_behind_pages_that_the_disk_cannot_give(
    world: World, pulls: PullHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    it: Any = world
    it.damage, it.damaged_in = Damage(), lambda places: places
    monkeypatch.setattr(pull_handler, "page_in", lambda view: False)
    world.messages, world.unread_below = [1, 2, 3], 1
    pull(pulls, sql="n = 3", suspend_ms=500)
    turn(world)
    while world.paged_in:
        world.paged_in.pop()()
        turn(world)
    assert it.damage.found == [(2, 3)]
    assert world.replies == [(GetStatus.FOUND, 3, 1)]


class Units:
    """The first message's unit is damaged, until it is set right or given up."""

    def __init__(self, world: World, *, is_there: bool) -> None:
        self.is_there = is_there
        self.done: list[str] = []
        self._read = world.get_messages

    def get_messages(self, *place: Any, **how: Any) -> GetResult:
        if self.done:
            return self._read(*place, **how)
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, 0, 0, 2, misplaced=0)

    def misplaced(self, *place: object) -> tuple[object, ...]:
        return place

    def span(self, _misplaced: object) -> tuple[int, int]:
        return 10, 90

    def find(self, _misplaced: object) -> str | None:
        return "unit" if self.is_there else None

    def set_right(self, wrong: list[str]) -> None:
        self.done += wrong

    def give_up(self, misplaced: tuple[object, ...]) -> None:
        assert misplaced == ("t", 0, 0)
        self.done.append("given up")


@pytest.mark.parametrize(("is_there", "done"), [(True, "unit"), (False, "given up")])
@pytest.mark.parametrize("is_cold", [False, True])
def test_a_message_whose_unit_is_damaged_is_found_by_a_worker_or_given_up(
    world: World, pulls: PullHandler, is_there: bool, done: str, is_cold: bool
) -> None:
    it: Any = world
    units = it.damaged_units = Units(world, is_there=is_there)
    it.get_messages, it.damaged_in = units.get_messages, lambda places: [] if places == [(10, 90)] else places
    world.messages = [1, 2]
    if is_cold:
        cold = GetResult(GetStatus.FOUND, 2, 0, 2, 2, [memoryview(b"r")], is_cold=True, find_misplaced=lambda: 0)
        answers = [cold]
        it.get_messages = lambda *place, **how: answers.pop() if answers else units.get_messages(*place, **how)
    pull(pulls)
    while is_cold and not pulls._is_searching:
        world.paged_in.pop()()
    with pytest.raises(BrokerBusy):  # one is looked up at a time
        pull(pulls)
    while world.paged_in:
        world.paged_in.pop()()
    assert units.done == [done]
    assert world.replies == [(GetStatus.FOUND, 2, 2)]
    pull(pulls)
    assert world.replies[1:] == [(GetStatus.FOUND, 2, 2)]
