"""Allocations: whatever the members and the order of the lists, each queue has exactly one owner."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.client.consuming.allocation import (
    ALLOCATIONS,
    CUSTOM,
    Allocation,
    allocation_of,
    averaging,
    averaging_by_circle,
    by_configuration,
    consistent_hash,
    name_of,
    share_of,
)
from zenitmq.client.consuming.machine_rooms import by_machine_room, check_room, nearby_machine_room, room_of_client
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.queue import MessageQueue

BROKERS = ("east-1", "east-2", "west-1", "lost")
ROOMS = ("east", "west", "south")


def room_of_broker(name: str) -> str | None:
    return name.partition("-")[0] if "-" in name else None


MEMBERS = st.sets(
    st.builds(
        lambda host, room: f"{host}@7#1{'@' + room if room else ''}",
        st.text("abc", min_size=1),
        st.sampled_from(["", *ROOMS]),
    ),
    min_size=1,
    max_size=12,
)
QUEUES = st.sets(st.builds(MessageQueue, st.just("t"), st.sampled_from(BROKERS), st.integers(0, 15)), max_size=40)
TOTAL = {
    **ALLOCATIONS,
    "a finer ring": consistent_hash(100),
    "nearby": nearby_machine_room(room_of_broker),
    "nearby, by circle": nearby_machine_room(room_of_broker, within=averaging_by_circle),
    "nearby, by host": nearby_machine_room(room_of_broker, lambda client_id: "east" if client_id < "b" else None),
}
EVERYWHERE = by_machine_room(["east", "west"], room_of_broker)


def shares(allocation: Allocation, members: set[str], queues: set[MessageQueue]) -> dict[str, list[MessageQueue]]:
    return {member: share_of(allocation, member, sorted(members), sorted(queues)) for member in members}


def owners_of(taken: dict[str, list[MessageQueue]]) -> dict[MessageQueue, str]:
    assert all(count == 1 for count in Counter(queue for share in taken.values() for queue in share).values())
    return {queue: member for member, share in taken.items() for queue in share}


@pytest.mark.parametrize("name", TOTAL)
@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES)
def test_each_queue_has_one_owner(name: str, members: set[str], queues: set[MessageQueue]) -> None:
    assert owners_of(shares(TOTAL[name], members, queues)).keys() == queues


@pytest.mark.parametrize("name", [*TOTAL, "by machine room"])
@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES, data=st.data())
def test_the_order_of_the_lists_does_not_matter(
    name: str, members: set[str], queues: set[MessageQueue], data: st.DataObject
) -> None:
    allocation = TOTAL.get(name, EVERYWHERE)
    shuffled_members = data.draw(st.permutations(sorted(members)))
    shuffled_queues = data.draw(st.permutations(sorted(queues)))
    for member in members:
        usual = share_of(allocation, member, sorted(members), sorted(queues))
        assert share_of(allocation, member, shuffled_members, shuffled_queues) == usual


@pytest.mark.parametrize("name", [*TOTAL, "by machine room"])
@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES)
def test_a_stranger_gets_nothing(name: str, members: set[str], queues: set[MessageQueue]) -> None:
    allocation = TOTAL.get(name, EVERYWHERE)
    assert share_of(allocation, "stranger@1#1@east", sorted(members), sorted(queues)) == []
    assert share_of(allocation, "stranger@1#1@east", [], sorted(queues)) == []


@pytest.mark.parametrize("allocation", [averaging, averaging_by_circle])
@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES)
def test_averages_differ_by_one_at_most_and_the_first_members_have_more(
    allocation: Allocation, members: set[str], queues: set[MessageQueue]
) -> None:
    sizes = [len(share) for _, share in sorted(shares(allocation, members, queues).items())]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def rocketmqs_average(index: int, members: int, queues: int) -> list[int]:
    """Its arithmetic, written out: who is before `rest` has one more, and begins at as many times that."""
    rest = queues % members
    size = 1 if queues <= members else queues // members + (1 if index < rest else 0)
    begin = index * size if index < rest else index * size + rest
    return list(range(begin, begin + min(size, queues - begin))) if begin < queues else []


@settings(max_examples=50)
@given(members=st.integers(1, 30), queues=st.integers(0, 64))
def test_averaging_is_rocketmqs(members: int, queues: int) -> None:
    names = [f"{number:02}" for number in range(members)]
    every = [MessageQueue("t", "b", number) for number in range(queues)]
    for index, name in enumerate(names):
        assert [queue.queue_id for queue in averaging(name, names, every)] == rocketmqs_average(index, members, queues)


@pytest.mark.parametrize("virtual_nodes", [1, 10, 100])
@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES, joins=st.text("abc", min_size=1))
def test_who_joins_the_ring_moves_nothing_between_others(
    virtual_nodes: int, members: set[str], queues: set[MessageQueue], joins: str
) -> None:
    """And who leaves moves only its own: the same two rings, read the other way round."""
    newcomer = f"{joins}@8#1"
    ring = consistent_hash(virtual_nodes)
    before = owners_of(shares(ring, members, queues))
    after = owners_of(shares(ring, {*members, newcomer}, queues))
    assert {queue: owner for queue, owner in after.items() if owner != newcomer}.items() <= before.items()


@settings(max_examples=5)
@given(seed=st.integers(0, 1 << 30))
def test_a_finer_ring_shares_evenly_enough(seed: int) -> None:
    members = {f"10.0.0.{number}@{seed}#1" for number in range(8)}
    queues = {MessageQueue("t", f"broker-{number % 16}", number // 16) for number in range(400)}
    sizes = [len(share) for share in shares(consistent_hash(500), members, queues).values()]
    assert max(sizes) < 100, "twice its part"


def test_points_of_the_ring_are_where_rocketmq_has_them() -> None:
    """By hand: the first four bytes of MD5 over "a-0" ... and over the queue's text, the next point from there on."""

    def at(text: str) -> int:
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)

    points = sorted((at(f"{member}-{number}"), member) for member in "ab" for number in range(10))
    for number in range(64):
        own = at(f"MessageQueue [topic=trades, brokerName=broker-a, queueId={number}]")
        owner = next((member for point, member in points if point >= own), points[0][1])
        assert consistent_hash()(owner, ["a", "b"], [MessageQueue("trades", "broker-a", number)])


@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES)
def test_queues_of_a_room_stay_in_it_where_it_has_members(members: set[str], queues: set[MessageQueue]) -> None:
    rooms = {room_of_client(member) for member in members}
    for member, share in shares(TOTAL["nearby"], members, queues).items():
        for queue in share:
            room = room_of_broker(queue.broker_name)
            assert room == room_of_client(member) or room not in rooms or room is None


@settings(max_examples=50)
@given(members=MEMBERS, queues=QUEUES)
def test_only_queues_of_the_rooms_are_read_and_evenly(members: set[str], queues: set[MessageQueue]) -> None:
    taken = shares(EVERYWHERE, members, queues)
    assert owners_of(taken).keys() == {queue for queue in queues if queue.broker_name != "lost"}
    sizes = [len(share) for _, share in sorted(taken.items())]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_the_remainder_of_rooms_goes_to_the_first_members_from_the_end() -> None:
    """RocketMQ's rule: even shares first, then one of what is left over to each of the first members."""
    queues = [MessageQueue("t", "east-1", number) for number in range(5)]
    taken = {member: EVERYWHERE(member, ["a", "b", "c"], queues) for member in "abc"}
    assert [[queue.queue_id for queue in share] for share in taken.values()] == [[0, 3], [1, 4], [2]]


def test_a_configuration_is_taken_as_it_is_as_far_as_its_queues_exist() -> None:
    queues = [MessageQueue("t", "b", number) for number in range(4)]
    allocation = by_configuration([queues[3], queues[1], MessageQueue("t", "gone", 0)])
    assert share_of(allocation, "whoever", [], queues) == [queues[1], queues[3]]


def test_a_room_is_read_off_a_client_id() -> None:
    assert room_of_client("10.0.0.1@7#1-ab@fra1") == "fra1"
    for client_id in ("10.0.0.1@7#1-ab", "10.0.0.1@7#1-ab@", "x", "a@b@c@d"):
        assert room_of_client(client_id) is None
    assert check_room("fra_1-b") == "fra_1-b"
    for room in ("", "a@b", "x" * 65, "ä"):
        with pytest.raises(InvalidParameter):
            check_room(room)


def test_allocations_by_name_and_by_function() -> None:
    def own(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return [MessageQueue("other", "b", 0)]

    assert allocation_of("averaging") is averaging
    assert allocation_of(own) is own
    assert (name_of(averaging), name_of(own)) == ("averaging", CUSTOM)
    with pytest.raises(InvalidParameter, match="averaging_by_circle"):
        allocation_of("mean")
    with pytest.raises(InvalidParameter, match="queues of the topic only"):
        share_of(own, "a", ["a"], [MessageQueue("t", "b", 0)])
    for virtual_nodes in (0, 1001):
        with pytest.raises(InvalidParameter):
            consistent_hash(virtual_nodes)
