"""When a scrub reads, how fast, and what it remembers."""

from __future__ import annotations

import json

import pytest

from zenitmq.store.integrity.scrub_plan import STEP_BYTES_MAX, STEP_TRIES, ScrubPlan, ScrubStep

RATE = 1 << 20
DAY = 86_400_000
END = 3 << 20


def plan_of(document: dict | None = None, *, rate: int = RATE, interval_ms: int = DAY, now_ms: int = 0) -> ScrubPlan:
    return ScrubPlan(document or {}, bytes_per_second=rate, interval_ms=interval_ms, now_ms=now_ms)


def run(plan: ScrubPlan, begin_ms: int, end_ms: int, *, begin: int = 0, end: int = END, is_busy: bool = False) -> int:
    """Ticks each 100 ms; each step is read at once, as many bytes as it may. Returns how many were read."""
    read = 0
    for now_ms in range(begin_ms, end_ms, 100):
        step = plan.next_step(now_ms, begin=begin, end=end, is_busy=is_busy)
        if step is not None:
            size = min(step.bytes_max, step.limit - step.begin)
            plan.on_step(step, end=step.begin + size, read_bytes=size, vouched_bytes=size, damaged=0, sizes=0)
            read += size
    return read


def test_the_first_round_begins_an_interval_after_the_store_and_the_next_after_its_end() -> None:
    plan = plan_of()
    assert (plan.next_due_ms(), run(plan, 0, DAY // 100)) == (DAY, 0)
    assert run(plan, DAY, DAY + 10_000) == END
    assert plan.last is not None
    assert (plan.last.begun_ms, plan.last.begin, plan.last.end, plan.last.vouched_bytes) == (DAY, 0, END, END)
    assert plan.next_due_ms() == plan.last.ended_ms + DAY


def test_bytes_a_second_are_bounded() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=1 << 40)
    read = run(plan, 0, 60_000, end=1 << 40)
    assert 59 * RATE < read <= 60 * RATE


def test_what_a_step_read_beyond_its_share_is_waited_for() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=1 << 40)
    step = plan.next_step(200, begin=0, end=1 << 40, is_busy=False)
    assert step is not None
    plan.on_step(step, end=5 * RATE, read_bytes=5 * RATE, vouched_bytes=0, damaged=0, sizes=0)
    waited = next(
        now for now in range(200, 20_000, 100) if plan.next_step(now, begin=0, end=1 << 40, is_busy=False) is not None
    )
    assert 4_900 <= waited <= 5_300


def test_a_pause_saves_up_no_more_than_a_step() -> None:
    plan = plan_of(rate=64 << 20)
    plan.ask(0, bytes_per_second=0, begin=0, end=1 << 40)
    step = plan.next_step(3_600_000, begin=0, end=1 << 40, is_busy=False)
    assert step == ScrubStep(0, STEP_BYTES_MAX, 1 << 40)
    assert plan.next_step(3_600_100, begin=0, end=1 << 40, is_busy=False) is None, "one at a time"


def test_a_busy_broker_is_left_alone_unless_it_was_asked() -> None:
    plan = plan_of()
    assert (run(plan, DAY, DAY + 5_000, is_busy=True), plan.is_waiting_for_calm) == (0, True)
    assert run(plan, DAY + 5_000, DAY + 15_000) == END
    plan.ask(2 * DAY, bytes_per_second=1 << 30, begin=0, end=END)
    assert run(plan, 2 * DAY, 2 * DAY + 300, is_busy=True) == END


def test_none_but_what_is_asked_for_where_the_interval_is_0() -> None:
    plan = plan_of(interval_ms=0)
    assert plan.next_due_ms() is None
    assert plan.next_step(100 * DAY, begin=0, end=END, is_busy=False) is None
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    assert run(plan, 0, 10_000) == END
    assert plan.current is None


def test_retention_moves_the_beginning_and_a_cut_the_end() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    step = plan.next_step(500, begin=1 << 20, end=2 << 20, is_busy=False)
    assert step is not None
    assert (step.begin, step.limit) == (1 << 20, 2 << 20)
    plan.on_failed(step, 500, "gone")
    assert plan.next_step(600, begin=2 << 20, end=2 << 20, is_busy=False) is None
    assert plan.last is not None
    assert plan.last.read_bytes == 0


def test_a_round_goes_on_after_a_restart_with_what_it_found() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    step = plan.next_step(1_000, begin=0, end=END, is_busy=False)
    assert step is not None
    plan.on_step(step, end=1 << 20, read_bytes=1 << 20, vouched_bytes=5, damaged=2, sizes=300)
    again = plan_of(json.loads(json.dumps(plan.document())), now_ms=5_000)
    assert (again.current, again.last, again.since_ms) == (plan.current, None, 0)
    assert run(again, 5_000, 15_000) == END - (1 << 20)
    assert again.last is not None
    assert (again.last.damaged_ranges, again.last.damaged_bytes, again.last.read_bytes) == (2, 300, END)


def test_a_document_that_is_none_counts_as_none() -> None:
    for document in ({"since_ms": "x"}, {"since_ms": 5}, {"since_ms": 5, "current": {"begin": 1}, "last": None}):
        plan = plan_of(document, now_ms=7)
        assert (plan.since_ms, plan.current, plan.last) == (7, None, None)


def test_a_step_of_a_round_that_is_over_counts_for_nothing() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    step = plan.next_step(1_000, begin=0, end=END, is_busy=False)
    assert step is not None
    plan.ask(1_100, bytes_per_second=0, begin=1 << 20, end=END)
    plan.on_step(step, end=1 << 20, read_bytes=1 << 20, vouched_bytes=0, damaged=1, sizes=9)
    assert plan.current is not None
    assert (plan.current.position, plan.current.damaged_ranges) == (1 << 20, 0)


def test_a_clock_that_was_wrong_puts_off_no_round() -> None:
    first = plan_of()
    first.ask(2 * DAY * 365, bytes_per_second=0, begin=0, end=0)
    first.next_step(2 * DAY * 365, begin=0, end=0, is_busy=False)
    assert first.last is not None
    assert plan_of(first.document(), now_ms=10 * DAY).next_due_ms() == 11 * DAY


@pytest.mark.parametrize("has_last", [True, False])
def test_a_clock_that_is_set_right_while_a_store_is_open_puts_off_no_round(has_last: bool) -> None:
    ahead = 100 * 365 * DAY
    plan = plan_of(now_ms=ahead)
    if has_last:
        plan.ask(ahead, bytes_per_second=0, begin=0, end=0)
        assert plan.next_step(ahead, begin=0, end=0, is_busy=False) is None
        assert plan.last is not None
    assert run(plan, 0, 1_000) == 0
    assert plan.next_due_ms() == DAY
    assert run(plan, DAY, DAY + 10_000) == END
    assert plan.last is not None
    assert plan.last.begun_ms == DAY


def fail(plan: ScrubPlan, begin_ms: int, *, begin: int = 0) -> int:
    """Each step fails; returns how many there were before the round ended."""
    for count in range(100):
        step = plan.next_step(begin_ms + 1_000 * count, begin=begin, end=END, is_busy=False)
        if step is None:
            return count
        plan.on_failed(step, begin_ms + 1_000 * count, "cannot be read")
    raise AssertionError("it is tried for ever")


def test_a_place_that_cannot_be_read_ends_the_round_with_an_error() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    step = plan.next_step(1_000, begin=0, end=END, is_busy=False)
    assert step is not None
    plan.on_step(step, end=1 << 20, read_bytes=1 << 20, vouched_bytes=0, damaged=1, sizes=9)
    assert fail(plan, 3_000) == STEP_TRIES
    assert (plan.current, plan.last is not None) == (None, True)
    assert plan.last is not None
    assert (plan.last.error, plan.last.position, plan.last.damaged_ranges) == ("cannot be read", 1 << 20, 1)
    assert plan_of(json.loads(json.dumps(plan.document())), now_ms=DAY).last == plan.last
    plan.ask(DAY, bytes_per_second=0, begin=0, end=END)
    assert run(plan, DAY, DAY + 10_000) == END
    assert plan.last.error == "", "a result is its own round's"


def test_what_retention_takes_each_time_is_no_error() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    for begin in range(STEP_TRIES + 1):
        step = plan.next_step(1_000 * (begin + 1), begin=begin, end=END, is_busy=False)
        assert step is not None
        plan.on_failed(step, 1_000 * (begin + 1), "gone")
    assert plan.current is not None


def test_a_failed_step_of_a_round_that_was_replaced_counts_for_nothing() -> None:
    plan = plan_of()
    plan.ask(0, bytes_per_second=0, begin=0, end=END)
    step = plan.next_step(1_000, begin=0, end=END, is_busy=False)
    assert step is not None
    plan.ask(1_100, bytes_per_second=0, begin=1 << 20, end=END)
    for _ in range(STEP_TRIES):
        plan.on_failed(step, 1_200, "gone")
    assert plan.current is not None
    assert run(plan, 1_200, 12_000) == END - (1 << 20)
