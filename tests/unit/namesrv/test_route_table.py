"""The route table's rules, one by one: what changes, what is refused, what is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.model.cluster_id import Standing
from zenitmq.model.errors import (
    BrokerBusy,
    InvalidName,
    InvalidParameter,
    NoRoute,
    NotMaster,
    TopicNotFound,
    WrongCluster,
)
from zenitmq.namesrv.route_table import RouteTable
from zenitmq.remoting.commands import (
    BrokerHeartbeat,
    ClaimClusterId,
    RegisterBroker,
    RegisterTopics,
    UnregisterBroker,
    UpdateTopics,
)

TIMEOUT_MS = 10_000
ORDERS = ("orders", 8, 8, 6)
TRADES = ("trades", 4, 4, 6)
PAYMENTS = ("payments", 1, 1, 6)


def table(*, brokers_max: int = 100, topics_max: int = 100) -> RouteTable:
    return RouteTable(heartbeat_timeout_ms=TIMEOUT_MS, brokers_max=brokers_max, topics_max=topics_max)


def registration(
    *topics: tuple[str, int, int, int],
    name: str = "broker-a",
    broker_id: int = 0,
    address: str = "h:1",
    epoch: int = 1,
    cluster: str = "c",
    cluster_id: str = "id-1",
) -> RegisterBroker:
    return RegisterBroker(cluster, name, broker_id, address, epoch, topics, "", cluster_id)


def heartbeat(
    *, name: str = "broker-a", broker_id: int = 0, address: str = "h:1", epoch: int = 1, cluster_id: str = "id-1"
) -> BrokerHeartbeat:
    return BrokerHeartbeat("c", name, broker_id, address, epoch, cluster_id)


def addresses(routes: RouteTable, topic: str) -> dict[str, dict[int, str]]:
    return {data.broker_name: data.addresses for data in routes.route(topic).brokers}


def queues(routes: RouteTable, topic: str) -> dict[str, tuple[int, int, int]]:
    return {
        data.broker_name: (data.read_queues, data.write_queues, data.permission) for data in routes.route(topic).queues
    }


# ---- registering


def test_a_first_registration_makes_routes() -> None:
    routes = table()
    assert routes.topics() == ()
    assert routes.on_register(registration(ORDERS, TRADES), 0) == {"orders", "trades"}
    assert routes.topics() == ("orders", "trades")
    assert addresses(routes, "orders") == {"broker-a": {0: "h:1"}}
    assert queues(routes, "trades") == {"broker-a": (4, 4, 6)}
    with pytest.raises(TopicNotFound):
        routes.route("payments")


def test_light_queues_may_be_at_every_broker() -> None:
    routes = table()
    with pytest.raises(NoRoute):
        routes.route("%LMQ%")
    routes.on_register(registration(ORDERS, name="broker-b"), 0)
    routes.on_register(registration(name="broker-a", address="h:2"), 0)
    assert addresses(routes, "%LMQ%") == {"broker-a": {0: "h:2"}, "broker-b": {0: "h:1"}}
    assert [queue.broker_name for queue in routes.route("%LMQ%").read_queues()] == ["broker-a", "broker-b"]
    assert "%LMQ%" not in routes.topics()
    with pytest.raises(TopicNotFound):
        routes.route("%LMQ%a")


def test_a_topic_whose_last_broker_left_is_known_and_has_no_route() -> None:
    routes = table()
    routes.on_register(registration(TRADES, name="broker-b", address="h:2"), 0)
    routes.on_register(registration(ORDERS), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    with pytest.raises(NoRoute, match="broker-a, which has it, is not registered now"):
        routes.route("orders")
    with pytest.raises(TopicNotFound):
        routes.route("payments")
    assert routes.topics() == ("trades",)
    routes.on_register(registration(ORDERS), 1)
    assert addresses(routes, "orders") == {"broker-a": {0: "h:1"}}


def test_a_topic_whose_last_broker_is_silent_is_known_and_has_no_route() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_scan(1)
    routes.on_register(registration(TRADES, name="broker-b", address="h:2"), TIMEOUT_MS // 3)
    for now_ms in (TIMEOUT_MS // 3, 2 * TIMEOUT_MS // 3, TIMEOUT_MS):
        routes.on_scan(now_ms)
    with pytest.raises(NoRoute, match="broker-a"):
        routes.route("orders")


def test_a_broker_that_comes_back_tells_which_topics_it_still_has() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    routes.on_register(registration(TRADES), 1)
    with pytest.raises(TopicNotFound):
        routes.route("orders")


def test_a_deleted_topic_of_a_broker_that_left_is_not_known() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(TRADES, name="broker-b", address="h:2"), 0)
    routes.on_register(registration(TRADES, name="broker-c", address="h:3"), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    routes.on_unregister(UnregisterBroker("c", "broker-b", 0, "h:2", "id-1"))
    assert routes.on_delete_topic("orders") == frozenset()
    with pytest.raises(TopicNotFound):
        routes.route("orders")


def test_while_no_broker_is_registered_no_topic_is_said_not_to_exist() -> None:
    with pytest.raises(NoRoute, match="no broker is registered"):
        table().route("orders")


def test_brokers_that_left_are_remembered_as_far_as_topics_max_goes() -> None:
    routes = table(topics_max=2)
    for number, listed in enumerate((("t1", 1, 1, 6), ("t2", 1, 1, 6), ("t3", 1, 1, 6))):
        name = f"broker-{number}"
        routes.on_register(registration(listed, name=name), 0)
        routes.on_unregister(UnregisterBroker("c", name, 0, "h:1", "id-1"))
    routes.on_register(registration(name="broker-z"), 1)
    with pytest.raises(TopicNotFound):
        routes.route("t1")
    for topic in ("t2", "t3"):
        with pytest.raises(NoRoute):
            routes.route(topic)


def test_registering_the_same_again_changes_nothing() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    assert routes.on_register(registration(ORDERS), 5) == frozenset()


def test_only_what_differs_is_told() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES), 0)
    assert routes.on_register(registration(("orders", 16, 8, 6), TRADES), 1) == {"orders"}
    assert routes.on_register(registration(("orders", 16, 8, 6), TRADES, ("new", 1, 1, 6)), 1) == {"new"}


def test_fewer_topics_remove_those_left_out() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES), 0)
    assert routes.on_register(registration(TRADES), 1) == {"orders"}
    assert routes.topics() == ("trades",)
    assert routes.on_register(registration(), 2) == {"trades"}
    assert routes.topics() == ()
    assert routes.on_heartbeat(heartbeat(), 3), "a broker without topics lives all the same"


def test_two_groups_share_a_topic_in_the_order_of_their_names() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, name="broker-b", address="h:2"), 0)
    routes.on_register(registration(("orders", 2, 2, 4)), 0)
    assert list(queues(routes, "orders")) == list(addresses(routes, "orders")) == ["broker-a", "broker-b"]
    assert routes.on_unregister(UnregisterBroker("c", "broker-b", 0, "h:2", "id-1")) == {"orders"}
    assert queues(routes, "orders") == {"broker-a": (2, 2, 4)}


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (registration(("../x", 1, 1, 6)), InvalidName),
        (registration(("t\x00", 1, 1, 6)), InvalidName),
        (registration(("t" * 128, 1, 1, 6)), InvalidName),
        (registration(("t", -1, 1, 6)), InvalidParameter),
        (registration(("t", 1, 1 << 31, 6)), InvalidParameter),
        (registration(("t", 1, 1, 8)), InvalidParameter),
        (registration(ORDERS, name=""), InvalidName),
        (registration(ORDERS, name="a\nb"), InvalidName),
        (registration(ORDERS, cluster="c" * 128), InvalidName),
        (registration(ORDERS, broker_id=-1), InvalidParameter),
        (registration(ORDERS, epoch=-1), InvalidParameter),
        *(
            (registration(ORDERS, address=address), InvalidParameter)
            for address in ("", "h", "h:", ":1", "h:0", "h:65536", "h:-1", "h:1x", "h" * 300 + ":1", "h:" + "9" * 5000)
        ),
    ],
)
def test_a_broken_registration_leaves_nothing_behind(broken: RegisterBroker, error: type[Exception]) -> None:
    routes = table()
    with pytest.raises(error):
        routes.on_register(broken, 0)
    assert routes.topics() == ()
    assert routes.cluster_info(0)["brokers"] == []


def test_brokers_over_the_limit_are_refused_until_one_leaves() -> None:
    routes = table(brokers_max=2)
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(broker_id=1, address="h:2"), 0)
    for one_more in (registration(broker_id=2, address="h:3"), registration(ORDERS, name="broker-b", address="h:3")):
        with pytest.raises(BrokerBusy, match="2 brokers"):
            routes.on_register(one_more, 0)
    routes.on_register(registration(ORDERS, TRADES), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 1, "h:2", "id-1"))
    assert routes.on_register(registration(ORDERS, name="broker-b", address="h:3"), 0) == {"orders"}


def test_topics_over_the_limit_are_refused_until_some_go() -> None:
    routes = table(topics_max=3)
    routes.on_register(registration(ORDERS, TRADES), 0)
    second = registration(ORDERS, TRADES, name="broker-b", address="h:2")
    with pytest.raises(BrokerBusy, match="3 topics"):
        routes.on_register(second, 0)
    with pytest.raises(BrokerBusy):
        routes.on_register(registration(*((f"topic-{number}", 1, 1, 6) for number in range(4))), 0)
    assert routes.topics() == ("orders", "trades")
    routes.on_register(registration(ORDERS, TRADES, ("third", 1, 1, 6)), 0)
    assert routes.on_delete_topic("third") == {"third"}
    routes.on_register(registration(ORDERS), 0)
    assert routes.on_register(second, 0) == {"orders", "trades"}
    scan_until(routes, TIMEOUT_MS)
    assert routes.on_register(registration(ORDERS, TRADES, ("third", 1, 1, 6)), TIMEOUT_MS) == {
        "orders",
        "trades",
        "third",
    }


def test_a_group_lives_in_one_cluster() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    with pytest.raises(InvalidParameter):
        routes.on_register(registration(ORDERS, broker_id=1, address="h:2", cluster="other"), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    assert routes.on_register(registration(ORDERS, cluster="other"), 0) == {"orders"}


# ---- masters, slaves, epochs


def test_a_newer_master_takes_the_place_and_the_old_one_cannot_take_it_back() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, epoch=5), 0)
    assert routes.on_register(registration(ORDERS, address="h:2", epoch=6), 0) == {"orders"}
    assert addresses(routes, "orders") == {"broker-a": {0: "h:2"}}
    assert not routes.on_heartbeat(heartbeat(epoch=5), 1)
    with pytest.raises(NotMaster) as refused:
        routes.on_register(registration(TRADES, epoch=5), 1)
    assert refused.value.epoch == 6
    assert routes.topics() == ("orders",)


def test_a_second_master_of_one_epoch_is_refused_while_the_first_lives() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    with pytest.raises(NotMaster):
        routes.on_register(registration(TRADES, address="h:2"), 1)
    assert addresses(routes, "orders") == {"broker-a": {0: "h:1"}}
    scan_until(routes, TIMEOUT_MS)
    assert routes.on_register(registration(TRADES, address="h:2"), TIMEOUT_MS) == {"trades"}


def test_a_slave_that_becomes_master_is_listed_once() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, epoch=5), 0)
    routes.on_register(registration(broker_id=1, address="h:2", epoch=5), 0)
    assert addresses(routes, "orders") == {"broker-a": {0: "h:1", 1: "h:2"}}
    routes.on_register(registration(ORDERS, address="h:2", epoch=6), 0)
    assert addresses(routes, "orders") == {"broker-a": {0: "h:2"}}
    routes.on_register(registration(broker_id=1, address="h:1", epoch=6), 0)
    assert addresses(routes, "orders") == {"broker-a": {0: "h:2", 1: "h:1"}}


def test_a_slave_of_a_newer_epoch_drops_the_older_master() -> None:
    """Nobody writes to a master that a member knows to be deposed, even before the new one speaks."""
    routes = table()
    routes.on_register(registration(ORDERS, epoch=5), 0)
    assert routes.on_register(registration(ORDERS, broker_id=1, address="h:2", epoch=6), 0) == {"orders"}
    assert addresses(routes, "orders") == {"broker-a": {1: "h:2"}}
    assert routes.route("orders").write_queues() == []


def test_a_slaves_topics_count_only_without_a_master() -> None:
    routes = table()
    routes.on_register(registration(TRADES, broker_id=1, address="h:2"), 0)
    assert routes.topics() == ("trades",)
    assert routes.on_register(registration(ORDERS), 0) == {"orders", "trades"}
    assert routes.on_register(registration(TRADES, broker_id=1, address="h:2"), 0) == frozenset()
    assert routes.topics() == ("orders",)


def test_reading_goes_on_from_slaves_when_the_master_left() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(broker_id=1, address="h:2"), 0)
    assert routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1")) == {"orders"}
    assert routes.route("orders").write_queues() == []
    assert len(routes.route("orders").read_queues()) == 8


def test_a_group_that_is_gone_leaves_no_epoch_behind() -> None:
    """A broker on an empty disk begins at epoch 1 again and must be found."""
    routes = table()
    routes.on_register(registration(ORDERS, epoch=7), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    assert routes.on_register(registration(ORDERS, epoch=1), 0) == {"orders"}


# ---- silence


def scan_until(routes: RouteTable, end_ms: int, *, step_ms: int = 1000) -> tuple[list[tuple[str, str]], set[str]]:
    dead: list[tuple[str, str]] = []
    changed: set[str] = set()
    for now_ms in range(0, end_ms + 1, step_ms):
        gone, topics = routes.on_scan(now_ms)
        dead += gone
        changed |= topics
    return dead, changed


def test_ten_seconds_of_silence_are_death() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    assert scan_until(routes, TIMEOUT_MS - 1000) == ([], set())
    assert routes.on_scan(TIMEOUT_MS) == ([("broker-a", "h:1")], {"orders"})
    assert routes.topics() == ()
    assert not routes.on_heartbeat(heartbeat(), TIMEOUT_MS), "it must register again"
    assert routes.on_scan(TIMEOUT_MS + 1000) == ([], frozenset())


def test_heartbeats_keep_a_broker_alive() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    for now_ms in range(0, 60_000, 1000):
        assert routes.on_heartbeat(heartbeat(), now_ms)
        assert routes.on_scan(now_ms) == ([], frozenset())


def test_only_the_silent_member_dies() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(broker_id=1, address="h:2"), 0)
    routes.on_scan(4000)
    routes.on_heartbeat(heartbeat(broker_id=1, address="h:2"), 4000)
    routes.on_scan(8000)
    assert routes.on_scan(TIMEOUT_MS) == ([("broker-a", "h:1")], {"orders"})
    assert addresses(routes, "orders") == {"broker-a": {1: "h:2"}}


def test_all_that_die_in_one_scan_are_told() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(TRADES, name="broker-b", address="h:2"), 0)
    assert scan_until(routes, TIMEOUT_MS) == ([("broker-a", "h:1"), ("broker-b", "h:2")], {"orders", "trades"})


def test_when_the_name_server_itself_was_away_nobody_dies_of_it() -> None:
    """Stopped for an hour, its sockets are full of heartbeats that it has not read yet."""
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_scan(1000)
    assert routes.on_scan(3_600_000) == ([], frozenset())
    for now_ms in range(3_601_000, 3_610_000, 1000):
        assert routes.on_scan(now_ms) == ([], frozenset())
    assert routes.on_scan(3_610_000) == ([("broker-a", "h:1")], {"orders"})


@pytest.mark.parametrize(
    "stranger",
    [
        heartbeat(name="broker-b"),
        heartbeat(broker_id=1),
        heartbeat(address="h:2"),
        heartbeat(epoch=2),
        heartbeat(epoch=0),
    ],
)
def test_a_heartbeat_of_somebody_else_is_unknown_and_keeps_nobody_alive(stranger: BrokerHeartbeat) -> None:
    routes = table()
    assert not routes.on_heartbeat(stranger, 0)
    routes.on_register(registration(ORDERS), 0)
    for now_ms in range(0, TIMEOUT_MS, 1000):
        assert not routes.on_heartbeat(stranger, now_ms)
        routes.on_scan(now_ms)
    assert routes.on_scan(TIMEOUT_MS) == ([("broker-a", "h:1")], {"orders"})


@pytest.mark.parametrize(
    "stranger",
    [
        UnregisterBroker("c", "broker-b", 0, "h:1", "id-1"),
        UnregisterBroker("c", "broker-a", 1, "h:1", "id-1"),
        UnregisterBroker("c", "broker-a", 0, "h:2", "id-1"),
    ],
)
def test_leaving_for_somebody_else_does_nothing(stranger: UnregisterBroker) -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    assert routes.on_unregister(stranger) == frozenset()
    assert routes.topics() == ("orders",)


# ---- operators


def test_wiped_write_permission_survives_registrations_and_death_until_given_back() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, ("readonly", 1, 1, 4)), 0)
    assert routes.on_wipe_write_permission("broker-a") == {"orders"}
    assert queues(routes, "orders") == {"broker-a": (8, 8, 4)}
    assert routes.on_wipe_write_permission("broker-a") == frozenset()
    routes.on_register(registration(ORDERS, TRADES), 1)
    assert queues(routes, "trades")["broker-a"][2] == 4
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    routes.on_register(registration(ORDERS, epoch=2), 2)
    assert routes.route("orders").write_queues() == []
    assert routes.on_add_write_permission("broker-a") == {"orders"}
    assert len(routes.route("orders").write_queues()) == 8
    assert routes.on_add_write_permission("broker-a") == frozenset()


def test_wiping_a_name_nobody_has_is_not_remembered() -> None:
    routes = table()
    assert routes.on_wipe_write_permission("broker-a") == frozenset()
    routes.on_register(registration(ORDERS), 0)
    assert routes.route("orders").write_queues()


def test_a_deleted_topic_is_forgotten_until_registered_again() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES), 0)
    routes.on_register(registration(ORDERS, name="broker-b", address="h:2"), 0)
    assert routes.on_delete_topic("orders") == {"orders"}
    assert routes.topics() == ("trades",)
    assert routes.on_delete_topic("orders") == frozenset()
    assert routes.on_register(registration(ORDERS, name="broker-b", address="h:2"), 0) == {"orders"}
    assert list(queues(routes, "orders")) == ["broker-b"]


def test_cluster_info_lists_members_with_their_silence() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 100)
    routes.on_register(registration(broker_id=1, address="h:2"), 200)
    routes.on_register(registration(ORDERS, name="broker-b", address="h:3", cluster="d"), 300)
    routes.on_wipe_write_permission("broker-b")
    info = routes.cluster_info(1000)
    assert info["clusters"] == {"c": ["broker-a"], "d": ["broker-b"]}
    assert [
        (broker["address"], broker["last_heartbeat_ms_ago"], broker["writeable"]) for broker in info["brokers"]
    ] == [
        ("h:1", 900, True),
        ("h:2", 800, False),
        ("h:3", 700, False),
    ]
    assert set(info["brokers"][0]) == {
        *("cluster", "cluster_id", "broker_name", "broker_id", "address", "replication_address", "epoch"),
        *("last_heartbeat_ms_ago", "writeable"),
    }


# ---- clusters of one name


def test_a_cluster_of_the_same_name_is_refused_while_the_first_lives() -> None:
    """It need not even have the same broker's name; once the first has gone it is the one."""
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    for name in ("broker-a", "broker-b"):
        with pytest.raises(WrongCluster) as refused:
            routes.on_register(registration(ORDERS, name=name, address="h:2", epoch=9, cluster_id="id-2"), 1)
        assert refused.value.args == ("c", "id-1", "id-2")
    assert addresses(routes, "orders") == {"broker-a": {0: "h:1"}}
    routes.on_scan(0)
    routes.on_scan(TIMEOUT_MS - 1)
    routes.on_register(registration(ORDERS), TIMEOUT_MS)  # our own silence is not theirs
    assert routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1")) == {"orders"}
    routes.on_register(registration(ORDERS, address="h:2", cluster_id="id-2"), TIMEOUT_MS)
    assert {broker.cluster_id for broker in routes.route("orders").brokers} == {"id-2"}


def test_clusters_of_two_names_live_side_by_side() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    routes.on_register(registration(TRADES, name="broker-b", address="h:2", cluster="d", cluster_id="id-2"), 0)
    for cluster_id in ("id-1", "id-2"):
        routes.check_lives(cluster_id)
    with pytest.raises(WrongCluster) as refused:
        routes.check_lives("id-3")
    assert refused.value.args == ("c", "id-1", "id-3")


def test_a_table_that_nobody_has_registered_with_yet_denies_no_cluster() -> None:
    table().check_lives("id-1")


def test_who_took_an_address_over_keeps_nobody_alive_and_says_goodbye_for_nobody() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    assert not routes.on_heartbeat(heartbeat(cluster_id="id-2"), 1)
    assert routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-2")) == frozenset()
    assert routes.on_heartbeat(heartbeat(), 1)


@pytest.mark.parametrize("offered", ["", "two words", "x" * 65])
def test_an_offer_that_is_no_id_is_refused(offered: str) -> None:
    with pytest.raises(InvalidParameter):
        table().on_claim(ClaimClusterId("c", offered), 0)


def test_a_broker_without_an_id_is_told_the_one_that_lives_and_later_the_one_that_lived() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    claim = ClaimClusterId("c", "id-2")
    assert routes.on_claim(claim, 1) == ("id-1", Standing.LIVING)
    routes.on_scan(1)
    routes.on_scan(TIMEOUT_MS - 1)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    assert routes.on_claim(claim, TIMEOUT_MS) == ("id-1", Standing.REMEMBERED)


def test_a_broker_whose_disk_is_full_is_not_writeable_until_it_says_so() -> None:
    routes = table()
    routes.on_register(registration(ORDERS), 0)
    for takes_writes in (True, False, True):
        assert routes.on_heartbeat(replace(heartbeat(), takes_writes=takes_writes), 0)
        assert [broker["writeable"] for broker in routes.cluster_info(0)["brokers"]] == [takes_writes]
    routes.on_heartbeat(replace(heartbeat(), takes_writes=False), 0)
    routes.on_unregister(UnregisterBroker("c", "broker-a", 0, "h:1", "id-1"))
    routes.on_register(registration(ORDERS), 0)
    assert [broker["writeable"] for broker in routes.cluster_info(0)["brokers"]] == [True]


# ---- many topics


def more(
    version: int, piece: int, *topics: tuple[str, int, int, int], is_last: bool = False, address: str = "h:1"
) -> RegisterTopics:
    return RegisterTopics("broker-a", 0, address, version, piece, tuple((*topic, 0) for topic in topics), is_last)


def test_a_registration_in_pieces_removes_what_is_in_none_of_them_at_its_end() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES), 0)
    routes.on_register(replace(registration(TRADES), version=7, is_whole=False), 0)
    assert routes.topics() == ("orders", "trades")
    assert not routes.on_heartbeat(replace(heartbeat(), version=7), 0)
    for wrong in (more(7, 2, PAYMENTS), more(6, 1, PAYMENTS), more(7, 1, PAYMENTS, address="h:2")):
        assert routes.on_more_topics(wrong, 0) == (False, frozenset())
    assert routes.on_more_topics(more(7, 1, PAYMENTS), 0) == (True, {"payments"})
    assert routes.on_more_topics(more(7, 2, is_last=True), 0) == (True, {"orders"})
    assert routes.topics() == ("payments", "trades")
    assert routes.on_heartbeat(replace(heartbeat(), version=7), 0)


def test_an_update_is_taken_by_who_knows_what_it_changes() -> None:
    routes = table()
    routes.on_register(replace(registration(ORDERS), version=7), 0)
    update = UpdateTopics("broker-a", 0, "h:1", 7, 9, ((*TRADES, 0),), ("orders",))
    assert routes.on_update_topics(replace(update, since=6), 0) == (False, frozenset())
    assert routes.on_update_topics(update, 0) == (True, {"orders", "trades"})
    assert routes.on_update_topics(update, 0) == (False, frozenset())
    assert routes.topics() == ("trades",)
    assert [routes.on_heartbeat(replace(heartbeat(), version=at), 0) for at in (7, 9, 0)] == [False, True, True]


def test_who_tells_of_topics_is_alive() -> None:
    routes = table()
    routes.on_register(replace(registration(ORDERS), version=7), 0)
    routes.on_update_topics(UpdateTopics("broker-a", 0, "h:1", 7, 8, ((*TRADES, 0),), ()), 8000)
    for now_ms in range(1000, 17_000, 1000):
        assert routes.on_scan(now_ms) == ([], frozenset())


def test_a_deleted_route_comes_back_with_the_next_registration() -> None:
    routes = table()
    routes.on_register(replace(registration(ORDERS), version=7), 0)
    routes.on_delete_topic("orders")
    assert not routes.on_heartbeat(replace(heartbeat(), version=7), 0)


def test_topics_are_listed_page_by_page() -> None:
    routes = table()
    routes.on_register(registration(ORDERS, TRADES, PAYMENTS), 0)
    assert routes.topics_after("", 0) == (("orders", "payments", "trades"), False)
    assert routes.topics_after("", 2) == (("orders", "payments"), True)
    assert routes.topics_after("payments", 2) == (("trades",), False)
    assert routes.topics_after("zzz", 2) == ((), False)
    assert routes.topics_after("", 1, "orders".__lt__) == (("payments",), True)
    assert routes.topics_after("payments", 1, "orders".__lt__) == (("trades",), False)
    assert routes.topics_after("", 0, "orders".__eq__) == (("orders",), False)
    with pytest.raises(InvalidParameter):
        routes.topics_after("", -1)
