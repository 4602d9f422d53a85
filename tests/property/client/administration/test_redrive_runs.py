"""Redrives in any order, ended anywhere: none without `again` sends a letter twice, and what it skips it has told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.administration.redrive_plan import QueueState, plan_redrive
from zenitmq.model.queue import MessageQueue

QUEUE = MessageQueue("%DLQ%g", "broker-a", 0)
BOUND = st.none() | st.integers(0, 40)
RUNS = st.lists(
    st.tuples(BOUND, BOUND, st.none() | st.integers(1, 10), st.integers(0, 40), st.integers(0, 5)), max_size=8
)


@given(minimum=st.integers(0, 20), count=st.integers(0, 20), runs=RUNS)
def test_no_letter_is_sent_twice(minimum: int, count: int, runs: list[tuple]) -> None:
    done, maximum = -1, minimum + count
    sent: list[int] = []
    passed_over = 0
    for since, until, max_messages, ends_after, arrived in runs:
        state = QueueState(QUEUE, minimum, maximum, done, since, until)
        for plan in plan_redrive([state], again=False, max_messages=max_messages):
            assert minimum <= plan.begin < plan.end <= maximum
            position = min(plan.end, plan.begin + ends_after)
            sent += range(plan.begin, position)
            remembered = plan.remembered(position)
            if remembered is not None:
                done = remembered
                passed_over += plan.passed_over
        maximum += arrived
    assert len(sent) == len(set(sent))
    assert len(sent) + passed_over == max(0, done - minimum)
    rest = plan_redrive([QueueState(QUEUE, minimum, maximum, done)], again=False, max_messages=None)
    assert [offset for plan in rest for offset in range(plan.begin, plan.end)] == list(
        range(max(minimum, done), maximum)
    )
