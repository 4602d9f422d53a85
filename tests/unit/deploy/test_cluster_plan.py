"""Which processes a local cluster of a shape has, in which order, and what each is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.deploy.cluster_plan import (
    arguments_of,
    broker_port_of,
    check_settings,
    check_shape,
    choose_metrics_port,
    deciding_addresses,
    plan,
    with_broker_port,
)
from zenitmq.deploy.cluster_record import ClusterRecord, ProcessRecord, Shape
from zenitmq.model.errors import InvalidParameter

THREE = Shape(replicas=3)
STATIC = Shape(replicas=3, controllers=0)


def empty(shape: Shape) -> ClusterRecord:
    return ClusterRecord(
        cluster="zenit", cluster_id="c1", namesrv="127.0.0.1:9876", zookeeper="127.0.0.1:2181", shape=shape
    )


def planned(shape: Shape, *settings: str) -> list[ProcessRecord]:
    return plan("/d", empty(shape), settings)


def names(shape: Shape) -> list[str]:
    return [process.name for process in planned(shape)]


def test_one_replica_needs_a_name_server_and_a_broker() -> None:
    assert names(Shape()) == ["namesrv-1", "broker-a"]
    assert names(Shape(groups=2)) == ["namesrv-1", "broker-a", "broker-b"]


def test_more_have_zookeeper_and_controllers_between_them() -> None:
    assert names(THREE) == ["namesrv-1", "zookeeper", "controller-1", "broker-a-1", "broker-a-2", "broker-a-3"]
    two = Shape(replicas=2, groups=2, controllers=2)
    assert names(two)[2:] == ["controller-1", "controller-2", "broker-a-1", "broker-a-2", "broker-b-1", "broker-b-2"]


def test_a_zookeeper_that_runs_is_not_started() -> None:
    assert "zookeeper" not in names(replace(THREE, zookeeper="zk:2181"))


@pytest.mark.parametrize(("replicas", "minimum"), [(2, 1), (3, 2), (5, 2)])
def test_new_groups_get_the_minimum_that_fits(replicas: int, minimum: int) -> None:
    controller = planned(Shape(replicas=replicas))[2]
    assert controller.settings == (
        f"new_group.min_in_sync={minimum}",
        "new_group.flush_mode=async",
        f"new_group.replicas={replicas}",
    )


def test_new_groups_flush_as_their_brokers_do() -> None:
    process = planned(THREE, "store.flush_mode=async", "store.flush_mode=sync")[2]
    assert process.settings[1] == "new_group.flush_mode=sync"


def test_a_replica_is_told_who_it_is_and_where_controllers_are() -> None:
    record = empty(replace(THREE, controllers=2))
    for number, port in ((1, 9878), (2, 9880)):
        one = ProcessRecord(role="controller", name=f"controller-{number}", address=f"127.0.0.1:{port}", pid=7)
        record = record.with_process(one)
    broker = replace(plan("/d", record, ["store.segment_bytes=65536"])[-1], address="127.0.0.1:10931")
    assert arguments_of(record, broker) == [
        "host=127.0.0.1",
        "port=10931",
        "cluster=zenit",
        "cluster_id=c1",
        "name=broker-a",
        "namesrv=127.0.0.1:9876",
        "store_dir=/d/broker-a-3",
        "replica=broker-a-3",
        "replication_port=10932",
        "controllers=127.0.0.1:9878,127.0.0.1:9880",
        "store.segment_bytes=65536",
    ]


def test_a_controller_is_told_where_zookeeper_is() -> None:
    record = empty(THREE)
    told = arguments_of(record, plan("/d", record, [])[2])
    assert told[:5] == ["host=127.0.0.1", "port=9878", "cluster=zenit", "cluster_id=c1", "zookeeper=127.0.0.1:2181"]


def test_a_static_master_needs_neither_zookeeper_nor_controllers() -> None:
    assert names(STATIC) == ["namesrv-1", "broker-a-1", "broker-a-2", "broker-a-3"]
    one = Shape(controllers=0)
    assert names(one) == ["namesrv-1", "broker-a"]
    assert (one.has_static_masters, one.has_controllers) == (False, False)


def test_replicas_of_a_static_group_are_told_who_leads() -> None:
    record = empty(replace(STATIC, groups=2))
    told = dict[str, list[str]]()
    for number, process in enumerate(plan("/d", record, [])[1:]):
        started = replace(process, pid=7, address=f"127.0.0.1:{11001 + 10 * number}")
        told[process.name] = arguments_of(record, started)[-2:]
        record = record.with_process(started)
    assert {name: address.removeprefix("static_master=127.0.0.1:") for name, (address, _) in told.items()} == {
        **{f"broker-a-{number}": "11001" for number in (1, 2, 3)},
        **{f"broker-b-{number}": "11031" for number in (1, 2, 3)},
    }
    assert {minimum for _, minimum in told.values()} == {"static_min_in_sync=2"}
    assert deciding_addresses(record, "broker-b") == ("127.0.0.1:11031",)


def test_a_static_group_cannot_ask_for_more_than_it_has() -> None:
    check_settings(["static_min_in_sync=3"], STATIC)
    check_settings(["static_min_in_sync=4"], THREE)
    with pytest.raises(InvalidParameter, match=r"static_min_in_sync=4.*at most 3"):
        check_settings(["static_min_in_sync=4"], STATIC)


def test_what_is_recorded_stays_but_for_new_settings_of_brokers() -> None:
    record = empty(THREE)
    for process in plan("/d", record, ["store.flush_mode=sync"]):
        record = record.with_process(replace(process, pid=99, birth="b", address="127.0.0.1:5"))
    assert plan("/d", record, []) == list(record.processes)
    changed = plan("/d", record, ["store.index_enabled=false"])
    assert changed[:3] == list(record.processes[:3]), "a group is founded once"
    assert {process.settings for process in changed[3:]} == {("store.index_enabled=false",)}


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (Shape(replicas=0), "--replicas"),
        (Shape(replicas=10), "--replicas"),
        (Shape(groups=27), "--groups"),
        (Shape(replicas=2, controllers=-1), "--controllers"),
        (Shape(replicas=2, controllers=0, zookeeper="a:1"), "a static master needs none"),
        (Shape(controllers=2), "no controller"),
        (Shape(zookeeper="a:1"), "no controller"),
    ],
)
def test_what_cannot_be_is_refused(shape: Shape, says: str) -> None:
    with pytest.raises(InvalidParameter, match=says):
        check_shape(shape)


def test_several_brokers_cannot_have_one_port() -> None:
    check_settings(["port=12000"], Shape())
    with pytest.raises(InvalidParameter, match="port=12000"):
        check_settings(["port=12000"], Shape(groups=2))
    for setting in ("replica=x", "controllers=a:1", "replication_port=1", "static_master=a:1"):
        with pytest.raises(InvalidParameter, match="decide"):
            check_settings([setting], Shape())


def test_a_proxy_comes_last_and_a_cluster_that_had_it_has_it_again() -> None:
    record = replace(empty(Shape()), keys="/d/keys")
    proxy = plan("/d", record, [], proxy=True)[-1]
    assert (proxy.role, proxy.address) == ("proxy", "127.0.0.1:8081")
    proxy = replace(proxy, remoting="127.0.0.1:8090", address="127.0.0.1:8091", pid=7)
    had = record.with_process(proxy)
    assert plan("/d", had, [])[-1] == proxy
    assert plan("/d", record, [])[-1].role == "broker"
    told = arguments_of(had, proxy)
    assert {"port=8091", "remoting_port=8090", "key=/d/keys/proxy-1.key", f"namesrv={had.namesrv}"} <= set(told)
    assert not any(one.startswith("security.") for one in told)


def test_metrics_go_to_no_port_that_the_process_itself_is_about_to_bind() -> None:
    """The second of two controllers: its usual port is taken by metrics, and the next free one was taken for both."""
    first = ProcessRecord(role="namesrv", name="namesrv-1", address="127.0.0.1:9876", metrics="127.0.0.1:9880")
    second = ProcessRecord(role="controller", name="controller-2", address="127.0.0.1:9878")
    record = ClusterRecord(cluster="c", namesrv=first.address, processes=(first,))
    assert choose_metrics_port(record, second, range(9882, 9883), lambda port: port != 9881) == 9883
    assert choose_metrics_port(record, second, range(9878, 9879), lambda _: True) == 9881


def test_a_proxy_keeps_its_ports_for_brokers_and_what_its_environment_told() -> None:
    record = empty(Shape(groups=2))
    environ = {
        "ZENIT_PROXY__TLS_PORT": "8443",
        "ZENIT_PROXY__LIMITS__POLLS": "9",
        "ZENIT_PROXY__PORT": "1",
        "HOME": "/h",
    }
    proxy = plan("/d", record, [], proxy=True, environ=environ)[-1]
    assert proxy.settings == ("tls_port=8443", "limits.polls=9")
    assert broker_port_of(proxy) == 12_911
    had = record.with_process(with_broker_port(proxy, 13_001))
    again = plan("/d", had, [], environ={"ZENIT_PROXY__TLS_PORT": "-1"})[-1]
    assert again.settings == ("tls_port=-1", "limits.polls=9", "broker_port=13001")
    assert broker_port_of(again) == 13_001
    assert broker_port_of(plan("/d", had, [], environ={"ZENIT_PROXY__BROKER_PORT": "14001"})[-1]) == 14_001
