"""Whom to ask for damaged bytes, and when they count as lost."""

from __future__ import annotations

import pytest

from zenitmq.broker.repair.repair_plan import LOST_RETRY_MS, RETRY_MS, SETTLE_MS, RangeAsk, RepairOutcome, RepairPlan

A, B = (0, 100), (500, 700)
OTHERS = ("x", "y")
FAR = 1 << 40


def plan_of(*ranges: tuple[int, int], wait_ms: int = 60_000) -> RepairPlan:
    plan = RepairPlan(wait_ms=wait_ms)
    plan.on_damage(ranges, 0)
    return plan


def test_each_is_asked_for_one_range_at_a_time_and_no_two_for_the_same() -> None:
    plan = plan_of(B, A, (900, 950))
    asks = [plan.next_ask(0, OTHERS, FAR) for _ in range(3)]
    assert asks == [RangeAsk(0, 100, "x"), RangeAsk(500, 700, "y"), None]
    plan.on_outcome(RangeAsk(0, 100, "x"), RepairOutcome.REFUSED, 5)
    assert plan.next_ask(5, OTHERS, FAR) == RangeAsk(900, 950, "x")
    plan.on_outcome(RangeAsk(500, 700, "y"), RepairOutcome.MENDED, 6)
    plan.on_damage([A, (900, 950)], 6)
    assert plan.next_ask(6, OTHERS, FAR) == RangeAsk(0, 100, "y")
    assert (plan.mended, plan.awaited, plan.lost) == (1, (A, (900, 950)), ())


def test_who_hangs_keeps_nobody_from_giving_what_he_has() -> None:
    """Each question to it runs out only after ten seconds; the other has all that is damaged here, and is asked for it."""
    left = [(begin, begin + 900) for begin in range(0, 300_000, 1000)]
    plan = plan_of(*left, wait_ms=60_000)
    hangs: tuple[int, RangeAsk] | None = None
    now_ms = 0
    while left and not plan.lost:
        if hangs is not None and now_ms - hangs[0] >= 10_000:
            plan.on_outcome(hangs[1], RepairOutcome.UNANSWERED, now_ms)
            hangs = None
        ask = plan.next_ask(now_ms, OTHERS, FAR)
        if ask is not None and ask.replica == "x":
            hangs = now_ms, ask
        elif ask is not None:
            left.remove((ask.begin, ask.end))
            plan.on_outcome(ask, RepairOutcome.MENDED, now_ms)
            plan.on_damage(left, now_ms)
        now_ms += 100
    assert (left, plan.mended) == ([], 300)


def test_what_nobody_gives_keeps_nothing_else_from_being_asked_for() -> None:
    """Fifty ranges that one has not and the other does not answer for: each is due again before all have had their turn."""
    hopeless = {(begin, begin + 9) for begin in range(0, 500, 10)}
    plan = plan_of(*hopeless, B)
    now_ms = 0
    while not plan.mended and not plan.lost:
        ask = plan.next_ask(now_ms, OTHERS, FAR)
        if ask is not None and (ask.begin, ask.end) in hopeless:
            plan.on_outcome(ask, RepairOutcome.REFUSED if ask.replica == "x" else RepairOutcome.UNANSWERED, now_ms)
        elif ask is not None:
            plan.on_outcome(ask, RepairOutcome.MENDED if ask.replica == "x" else RepairOutcome.UNANSWERED, now_ms)
        now_ms += 100
    assert plan.mended == 1


def test_only_what_is_confirmed_is_asked_for() -> None:
    plan = plan_of(A, B)
    plan.on_outcome(plan.next_ask(0, OTHERS, 100) or RangeAsk(0, 0, ""), RepairOutcome.MENDED, 0)
    plan.on_damage([B], 0)
    assert plan.next_ask(0, OTHERS, 699) is None
    assert plan.next_ask(0, OTHERS, 700) == RangeAsk(500, 700, "x")


def test_what_all_have_refused_is_lost_and_asked_for_again_later() -> None:
    plan = plan_of(A)
    for name in OTHERS:
        assert plan.next_ask(0, OTHERS, FAR) == RangeAsk(0, 100, name)
        assert plan.awaited == (A,)
        plan.on_outcome(RangeAsk(0, 100, name), RepairOutcome.REFUSED, 0)
    assert plan.next_ask(SETTLE_MS - 1, OTHERS, FAR) is None
    assert (plan.awaited, plan.lost) == ((A,), ()), "another may yet register"
    assert plan.next_ask(SETTLE_MS, OTHERS, FAR) is None
    assert (plan.awaited, plan.lost, plan.sought) == ((), (A,), ())
    later = SETTLE_MS + LOST_RETRY_MS
    assert plan.next_ask(later - 1, OTHERS, FAR) is None
    ask = plan.next_ask(later, OTHERS, FAR)
    assert ask is not None
    plan.on_outcome(ask, RepairOutcome.MENDED, later)
    plan.on_damage([], later)
    assert (plan.mended, plan.lost) == (1, ())


def test_who_lacks_the_bytes_and_can_get_them_from_nobody_keeps_no_reader_waiting() -> None:
    """A slave that begins anew ends before what is damaged at its master: it is sent nothing of it."""
    plan = plan_of(A)
    for now_ms, name, outcome in ((0, "x", RepairOutcome.NOT_THERE_YET), (RETRY_MS, "y", RepairOutcome.REFUSED)):
        assert plan.next_ask(now_ms, OTHERS, FAR) == RangeAsk(0, 100, name)
        plan.on_outcome(RangeAsk(0, 100, name), outcome, now_ms)
    assert plan.awaited == (A,)
    plan.next_ask(SETTLE_MS, OTHERS, FAR)
    assert (plan.awaited, plan.lost, plan.sought) == ((), (A,), ())


@pytest.mark.parametrize("silent", ["y", "x"])
def test_who_was_behind_is_asked_again_while_its_source_does_not_answer(silent: str) -> None:
    """It may have got the bytes before the source died."""
    plan = plan_of(A)
    for now_ms in range(0, 3 * SETTLE_MS, 100):
        ask = plan.next_ask(now_ms, OTHERS, FAR)
        if ask is not None:
            plan.on_outcome(
                ask, RepairOutcome.UNANSWERED if ask.replica == silent else RepairOutcome.NOT_THERE_YET, now_ms
            )
        assert plan.awaited == (A,)
    asked = [plan.next_ask(3 * SETTLE_MS + RETRY_MS, OTHERS, FAR)]
    plan.on_outcome(asked[0] or RangeAsk(0, 0, ""), RepairOutcome.UNANSWERED, 3 * SETTLE_MS + RETRY_MS)
    asked.append(plan.next_ask(3 * SETTLE_MS + 2 * RETRY_MS, OTHERS, FAR))
    assert {ask.replica for ask in asked if ask is not None} == set(OTHERS)
    plan.on_outcome(asked[1] or RangeAsk(0, 0, ""), RepairOutcome.UNANSWERED, 3 * SETTLE_MS + 2 * RETRY_MS)
    plan.next_ask(4 * SETTLE_MS, OTHERS, FAR)
    assert plan.awaited == (A,), "who was behind and is silent now may have them"


def test_who_joins_is_asked_at_once() -> None:
    plan = plan_of(A)
    assert plan.next_ask(0, ("x",), FAR) == RangeAsk(0, 100, "x")
    plan.on_outcome(RangeAsk(0, 100, "x"), RepairOutcome.UNANSWERED, 0)
    assert plan.next_ask(1, ("x",), FAR) is None
    assert plan.next_ask(2, ("x", "y"), FAR) == RangeAsk(0, 100, "y")


def test_who_does_not_answer_is_asked_again_until_the_wait_is_over() -> None:
    plan = plan_of(A, wait_ms=5_000)
    asked = []
    for now_ms in range(0, 5_000, 100):
        ask = plan.next_ask(now_ms, OTHERS, FAR)
        if ask is not None:
            asked.append((now_ms, ask.replica))
            plan.on_outcome(ask, RepairOutcome.UNANSWERED, now_ms)
        assert plan.awaited == (A,)
    assert asked == [(n * RETRY_MS + late_ms, name) for n in range(5) for name, late_ms in (("x", 0), ("y", 100))]
    for now_ms, name in ((5_000, "x"), (5_100, "y")):
        assert plan.next_ask(now_ms, OTHERS, FAR) == RangeAsk(0, 100, name), "still, but nobody waits any more"
        assert plan.lost == (A,)
        plan.on_outcome(RangeAsk(0, 100, name), RepairOutcome.UNANSWERED, now_ms)
    assert plan.next_ask(5_000 + LOST_RETRY_MS - 1, OTHERS, FAR) is None
    assert plan.next_ask(5_000 + LOST_RETRY_MS, OTHERS, FAR) is not None


def test_a_group_of_one_has_lost_it_soon_and_one_that_is_not_known_yet_waits() -> None:
    plan = plan_of(A)
    assert plan.next_ask(0, None, FAR) is None
    assert plan.awaited == (A,)
    assert plan.next_ask(SETTLE_MS - 1, (), FAR) is None
    assert plan.awaited == (A,)
    assert plan.next_ask(SETTLE_MS, (), FAR) is None
    assert plan.lost == (A,)


def test_an_answer_for_a_range_that_is_gone_meanwhile_is_taken() -> None:
    plan = plan_of(A)
    ask = plan.next_ask(0, OTHERS, FAR)
    assert ask is not None
    plan.on_damage([B], 1)
    plan.on_outcome(ask, RepairOutcome.REFUSED, 2)
    assert plan.next_ask(2, OTHERS, FAR) == RangeAsk(500, 700, "x")


def test_what_a_replica_that_does_not_answer_may_have_is_sought_though_readers_go_on() -> None:
    plan = plan_of(A)
    assert plan.next_ask(0, OTHERS, FAR) == RangeAsk(0, 100, "x")
    plan.on_outcome(RangeAsk(0, 100, "x"), RepairOutcome.REFUSED, 0)
    assert plan.sought == (), "it is awaited still"
    ask = plan.next_ask(1 << 40, OTHERS, FAR)
    assert (ask, plan.lost, plan.sought) == (RangeAsk(0, 100, "y"), (A,), (A,))
    plan.on_outcome(RangeAsk(0, 100, "y"), RepairOutcome.REFUSED, 1 << 40)
    plan.next_ask((1 << 40) + 1, OTHERS, FAR)
    assert (plan.lost, plan.sought) == ((A,), ())
    assert plan.next_ask((1 << 40) + 2, (*OTHERS, "z"), FAR) is not None
    assert (plan.lost, plan.sought) == ((A,), (A,)), "who joins may have it"
    plan.next_ask((1 << 40) + 3, (), FAR)
    assert plan.sought == (), "those who have left do not count"
