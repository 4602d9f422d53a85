"""Averaging: every queue has exactly one owner, and nobody has two more than another."""

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.allocation import averaging
from zenitmq.model.queue import MessageQueue


@given(members=st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=9), count=st.integers(0, 40))
def test_queues_are_shared_out_completely_and_evenly(members: set[str], count: int) -> None:
    queues = [MessageQueue("t", "b", index) for index in range(count)]
    shares = {member: averaging(member, sorted(members), queues) for member in members}
    assert sorted(queue for share in shares.values() for queue in share) == queues
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1


@given(members=st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=6), count=st.integers(0, 20))
def test_the_order_of_the_lists_does_not_matter(members: list[str], count: int) -> None:
    queues = [MessageQueue("t", "b", index) for index in range(count)]
    for member in members:
        assert averaging(member, members, queues) == averaging(member, members[::-1], queues[::-1])


def test_stranger_gets_nothing() -> None:
    assert averaging("x", ["a"], [MessageQueue("t", "b", 0)]) == []
