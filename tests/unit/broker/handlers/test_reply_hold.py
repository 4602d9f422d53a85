"""Replies that wait for their requester: handed out when it shows up, given up in time, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.broker.handlers.reply_hold import ReplyHold


def test_a_client_that_shows_up_gets_its_own_in_order() -> None:
    hold: ReplyHold[str] = ReplyHold(held_max=10)
    for client, item in (("a", "1"), ("b", "2"), ("a", "3")):
        assert hold.add(client, item, until_ms=100)
    assert (hold.take("a"), hold.take("a"), hold.count) == (["1", "3"], [], 1)


def test_what_waits_too_long_is_given_up() -> None:
    hold: ReplyHold[str] = ReplyHold(held_max=10)
    for until_ms in (100, 50, 150):
        hold.add("a", str(until_ms), until_ms=until_ms)
    assert hold.due(49) == []
    assert hold.due(100) == ["100", "50"]
    assert (hold.take("a"), hold.count) == (["150"], 0)


def test_there_is_room_for_so_many() -> None:
    hold: ReplyHold[str] = ReplyHold(held_max=1)
    assert hold.add("a", "1", until_ms=1)
    assert not hold.add("b", "2", until_ms=1)
    assert hold.due(1) == ["1"]
    assert hold.add("b", "2", until_ms=1)


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "due"]), st.sampled_from("abc"), st.integers(0, 20))))
def test_each_item_comes_out_once(steps: list[tuple[str, str, int]]) -> None:
    hold: ReplyHold[int] = ReplyHold(held_max=5)
    inside: dict[int, tuple[str, int]] = {}
    for number, (step, client, time_ms) in enumerate(steps):
        if step == "add":
            assert hold.add(client, number, until_ms=time_ms) is (len(inside) < 5)
            if len(inside) < 5:
                inside[number] = (client, time_ms)
        else:
            out = hold.take(client) if step == "take" else hold.due(time_ms)
            wanted = {n for n, (c, t) in inside.items() if (c == client if step == "take" else t <= time_ms)}
            assert set(out) == wanted
            assert len(out) == len(wanted)
            for item in out:
                del inside[item]
        assert hold.count == len(inside)
