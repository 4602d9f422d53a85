"""Who is in a group, and whom a change concerns."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.client_registry import UNTOLD, ClientInfo, ClientOwner, ClientRegistry
from zenitmq.model.errors import AllocationConflict, BrokerBusy, DuplicateClient

TRADES = (("trades", "TAG", "*"),)


def beat(
    registry: ClientRegistry,
    client_id: str,
    now_ms: int,
    *groups: str,
    subscriptions: tuple[tuple[str, str, str], ...] = TRADES,
    model: str = "CLUSTERING",
    info: ClientInfo = UNTOLD,
) -> list[str]:
    consumers = tuple((group, model, subscriptions) for group in groups)
    return registry.on_heartbeat(
        now_ms, client_id=client_id, identity=client_id.encode(), producers=(), consumers=consumers, info=info
    )


def sharers(registry: ClientRegistry, group: str, topic: str) -> list[str]:
    return [member.client_id for member in registry.sharers(group, topic)]


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
    assert [member.identity for member in registry.sharers("g", "trades")] == [b"a"]
    assert registry.sharers("nobody", "trades") == []


def test_who_does_not_subscribe_to_a_topic_has_no_part_in_it(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    beat(registry, "b", 0, "g", subscriptions=(("orders", "TAG", "*"), ("trades", "TAG", "buy")))
    beat(registry, "c", 0, "g", subscriptions=(("orders", "TAG", "*"),))
    assert registry.members("g") == ("a", "b", "c")
    assert sharers(registry, "g", "trades") == ["a", "b"]
    assert sharers(registry, "g", "orders") == ["b", "c"]
    assert sharers(registry, "g", "other") == sharers(registry, "h", "trades") == []


def test_who_reads_all_by_itself_has_no_part_either_and_changing_that_changes_the_group(
    registry: ClientRegistry,
) -> None:
    beat(registry, "a", 0, "g")
    assert beat(registry, "b", 0, "g", model="BROADCASTING") == ["g"]
    assert sharers(registry, "g", "trades") == ["a"]
    assert beat(registry, "b", 0, "g") == ["g"]
    assert sharers(registry, "g", "trades") == ["a", "b"]


def test_another_process_of_the_same_id_is_refused_while_the_first_lives(registry: ClientRegistry) -> None:
    first, second = ClientInfo(host="one", pid=7, started_at_ms=5), ClientInfo(host="two", pid=7, started_at_ms=6)
    beat(registry, "a", 0, "g", info=first)
    with pytest.raises(DuplicateClient) as caught:
        beat(registry, "a", 10, "g", info=second)
    assert (caught.value.client_id, caught.value.host, caught.value.pid) == ("a", "one", 7)
    assert beat(registry, "a", 20, "g", info=first) == []
    assert registry.is_of("a", first)
    assert not registry.is_of("a", second)
    assert registry.is_of("a", UNTOLD), "who does not say is taken at its word"
    assert registry.is_of("b", second)
    assert registry.on_tick(321) == ["g"]
    assert beat(registry, "a", 322, "g", info=second) == ["g"]


def test_a_process_that_says_nothing_of_itself_is_never_another(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    assert beat(registry, "a", 1, "g", info=ClientInfo(pid=1, started_at_ms=1)) == []


def test_members_tell_of_themselves(registry: ClientRegistry) -> None:
    info = ClientInfo("PYTHON", "0.1", "host", 7, 5, "averaging")
    beat(registry, "b", 0, "g", info=info)
    beat(registry, "a", 30, "g")
    assert registry.describe("g", 50) == [
        {
            "client_id": "a",
            "model": "CLUSTERING",
            "language": "",
            "version": "",
            "host": "",
            "pid": 0,
            "started_at_ms": 0,
            "allocation": "",
            "silent_ms": 20,
            "subscriptions": [["trades", "TAG", "*"]],
        },
        {
            "client_id": "b",
            "model": "CLUSTERING",
            "language": "PYTHON",
            "version": "0.1",
            "host": "host",
            "pid": 7,
            "started_at_ms": 5,
            "allocation": "averaging",
            "silent_ms": 50,
            "subscriptions": [["trades", "TAG", "*"]],
        },
    ]
    assert registry.describe("h", 50) == []


@pytest.mark.parametrize(
    ("names", "agreed"),
    [
        ((), None),
        (("averaging",), "averaging"),
        (("averaging", ""), None),
        (("",), None),
        (("custom",), "custom"),
    ],
)
def test_an_allocation_is_known_where_all_who_share_agree(
    registry: ClientRegistry, names: tuple[str, ...], agreed: str | None
) -> None:
    for number, name in enumerate(names):
        beat(registry, f"m{number}", 0, "g", info=ClientInfo(allocation=name))
    sharing = registry.sharing("g", "trades")
    assert sharing == {"members": [f"m{number}" for number in range(len(names))], "allocation": agreed}


def test_who_shares_out_queues_in_another_way_is_refused_until_the_others_have_gone(registry: ClientRegistry) -> None:
    averaging, circle = ClientInfo(allocation="averaging"), ClientInfo(allocation="averaging_by_circle")
    beat(registry, "old", 0, "g", info=averaging)
    with pytest.raises(AllocationConflict) as caught:
        beat(registry, "new", 0, "g", info=circle)
    assert caught.value.args == ("g", "averaging_by_circle", "averaging", "old")
    assert registry.members("g") == ("old",)
    beat(registry, "new", 0, "another group", info=circle)
    with pytest.raises(AllocationConflict):
        beat(registry, "new", 0, "g", info=circle)  # known, but not of this group
    beat(registry, "old", 1, "g", info=averaging)
    registry.on_unregister("old")
    assert beat(registry, "new", 2, "g", info=circle)
    beat(registry, "new", 3, "g", info=averaging)  # alone it may change its mind
    assert registry.sharing("g", "trades")["allocation"] == "averaging"


def test_a_member_that_changes_its_mind_is_held_to_what_the_others_do(registry: ClientRegistry) -> None:
    for name in ("a", "b"):
        beat(registry, name, 0, "g", info=ClientInfo(allocation="averaging"))
    with pytest.raises(AllocationConflict):
        beat(registry, "a", 1, "g", info=ClientInfo(allocation="custom"))
    assert registry.sharing("g", "trades")["allocation"] == "averaging"


def test_who_does_not_lead_knows_nobody(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    registry.forget_all()
    assert (registry.counts(), registry.groups()) == ((0, 0), set())


SQL = (("trades", "SQL92", "amount > 1"),)


def test_members_who_subscribe_differently_are_found(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    assert (registry.disagreements("g"), registry.others("a")) == ((), ())
    beat(registry, "b", 0, "g", subscriptions=SQL)
    assert [found.topic for found in registry.disagreements("g")] == ["trades"]
    assert registry.others("a") == (("g", "trades", "b"),)
    assert registry.others("b") == (("g", "trades", "a"),)
    beat(registry, "b", 1, "g")
    assert registry.others("a") == ()


def test_who_leaves_disagrees_no_more(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    beat(registry, "b", 0, "g", subscriptions=SQL)
    registry.on_unregister("b")
    assert registry.disagreements("g") == ()
    registry.on_unregister("a")
    assert (registry.disagreements("g"), registry.others("a")) == ((), ())


def test_members_of_one_process_are_told_once(registry: ClientRegistry) -> None:
    for client_id in "ab":
        consumers = (("g", "CLUSTERING", TRADES),)
        registry.on_heartbeat(0, client_id=client_id, identity=b"one", producers=(), consumers=consumers)
    assert registry.identities("g") == [b"one"]


def test_who_broadcasts_reads_all_by_itself_and_may_want_something_else(registry: ClientRegistry) -> None:
    beat(registry, "a", 0, "g")
    for model, others in (("BROADCASTING", ()), ("CLUSTERING", (("g", "trades", "a"),)), ("BROADCASTING", ())):
        registry.on_heartbeat(1, client_id="b", identity=b"b", producers=(), consumers=(("g", model, SQL),))
        assert registry.others("b") == others
    registry.on_unregister("b")
    assert registry.disagreements("g") == ()


def test_a_client_is_its_users_alone(registry: ClientRegistry) -> None:
    """Who takes over another user's client id would get the replies and questions that are pushed to it."""
    ours = ClientOwner("app", "a" * 40)
    registry.on_heartbeat(
        0, client_id="a", identity=b"ours", producers=(), consumers=(("g", "CLUSTERING", TRADES),), owner=ours
    )
    for owner in (ClientOwner("mallory", "m" * 40), ClientOwner()):
        with pytest.raises(DuplicateClient):
            registry.on_heartbeat(1, client_id="a", identity=b"theirs", producers=(), consumers=(), owner=owner)
        assert not registry.is_of("a", UNTOLD, owner.user)
    assert registry.identity_of("a") == b"ours"
    assert registry.members("g") == ("a",)
    assert registry.is_of("a", UNTOLD, "app")
    second_key = ClientOwner("app", "b" * 40)
    registry.on_heartbeat(2, client_id="a", identity=b"anew", producers=(), consumers=(), owner=second_key)
    assert registry.identity_of("a") == b"anew"
    assert [client.owner for client in registry.clients()] == [second_key]
