"""In no second go more requests than are allowed, however fast they are asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.cli.top.request_pace import RequestPace


def test_the_first_ones_go_at_once_and_the_next_when_the_first_is_a_second_old() -> None:
    pace = RequestPace(3, 1000)
    for at_ms in (0, 10, 20):
        assert pace.wait_ms(at_ms) == 0
        pace.on_sent(at_ms)
    assert [pace.wait_ms(at_ms) for at_ms in (20, 999, 1000, 5000)] == [980, 1, 0, 0]


@given(st.lists(st.integers(0, 400), max_size=60))
def test_no_second_has_more(pauses: list[int]) -> None:
    pace, now_ms, sent = RequestPace(10, 1000), 0, list[int]()
    for pause in pauses:
        now_ms += pause
        now_ms += pace.wait_ms(now_ms)
        assert pace.wait_ms(now_ms) == 0
        pace.on_sent(now_ms)
        sent.append(now_ms)
    assert all(sum(begin <= each < begin + 1000 for each in sent) <= 10 for begin in sent)
