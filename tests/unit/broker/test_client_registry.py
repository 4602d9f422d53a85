"""Who is in a group, and whom a change concerns."""

from __future__ import annotations

import pytest

from zenitmq.broker.client_registry import ClientRegistry
from zenitmq.model.errors import BrokerBusy

TRADES = (("trades", "TAG", "*"),)


def beat(
    registry: ClientRegistry,
    client_id: str,
    now_ms: int,
    *groups: str,
    subscriptions: tuple[tuple[str, str, str], ...] = TRADES,
) -> list[str]:
    consumers = tuple((group, "CLUSTERING", subscriptions) for group in groups)
    return registry.on_heartbeat(
        now_ms, client_id=client_id, identity=client_id.encode(), producers=(), consumers=consumers
    )


@pytest.fixture
def registry() -> ClientRegistry:
    return ClientRegistry(heartbeat_ms=100, clients_max=3)


def test_joining_changes_the_group_and_staying_does_not(registry: ClientRegistry) -> None:
    assert beat(registry, "b", 0, "g") == ["g"]
    assert beat(registry, "a", 0, "g") == ["g"]
    assert beat(registry, "a", 50, "g") == []
    assert registry.members("g") == ("a", "b")
    assert sorted(registry.identities("g")) == [b"a", b"b"]


def test_another_subscription_changes_the_group(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    assert beat(registry, "a", 1, "g", subscriptions=(("orders", "TAG", "*"),)) == ["g"]
    assert registry.topics_of("g") == ["orders"]


def test_a_heartbeat_without_a_group_leaves_it(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g", "h")
    assert beat(registry, "a", 1, "h") == ["g"]
    assert registry.members("g") == ()
    assert registry.groups() == {"h"}


def test_three_missed_heartbeats_end_a_client_and_not_two(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    beat(registry, "b", 200, "g")
    assert registry.on_tick(300) == []
    assert registry.on_tick(301) == ["g"]
    assert registry.members("g") == ("b",)


def test_unregistering_leaves_all_groups_at_once(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g", "h")
    assert registry.on_unregister("a") == ["g", "h"]
    assert registry.on_unregister("a") == []
    assert registry.counts() == (0, 0)


def test_clients_are_bounded_and_known_ones_stay(registry: ClientRegistry) -> None:
    for client_id in "abc":
        beat(registry, client_id, 0, "g")
    with pytest.raises(BrokerBusy):
        beat(registry, "d", 0, "g")
    assert beat(registry, "a", 1, "g") == []
    assert registry.counts() == (3, 3)


def test_a_reconnected_client_is_told_on_its_new_connection(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    registry.on_heartbeat(1, client_id="a", identity=b"new", producers=("p",), consumers=(("g", "CLUSTERING", TRADES),))
    assert registry.identities("g") == [b"new"]


def test_only_those_who_share_the_queues_of_a_topic_are_moved(registry: ClientRegistry) -> None:
    for client_id, model, topic in (
        ("a", "CLUSTERING", "trades"),
        ("b", "BROADCASTING", "trades"),
        ("c", "CLUSTERING", "x"),
    ):
        subscriptions = ((topic, "TAG", "*"),)
        registry.on_heartbeat(
            0, client_id=client_id, identity=client_id.encode(), producers=(), consumers=(("g", model, subscriptions),)
        )
    assert registry.sharers("g", "trades") == {b"a"}
    assert registry.sharers("nobody", "trades") == set()
