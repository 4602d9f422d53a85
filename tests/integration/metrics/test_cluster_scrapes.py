"""The scrapes of a real group of three, its controller and its name server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from scrape_kit import Scrape

from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.metrics.family import Exporter
from zenitmq.metrics.table import FAMILIES

if TYPE_CHECKING:
    from zenitmq.testing import LocalCluster

Ports = Callable[[str], dict[str, str]]


@pytest.fixture
def ports(three_replicas: LocalCluster) -> Ports:
    """{name: "host:port" of its metrics} of the processes of a role."""
    processes = ProcessCluster(three_replicas.directory).status()["processes"]
    return lambda role: {one["name"]: one["metrics"] for one in processes if one["role"] == role}


def test_every_process_but_zookeeper_is_ready_and_tells_what_its_role_has(ports: Ports) -> None:
    seen = {Exporter.NAME_SERVER: "namesrv", Exporter.CONTROLLER: "controller"}
    for exporter, role in seen.items():
        for address in ports(role).values():
            assert Scrape.page(address, "/readyz")[0] == 200
            assert Scrape.page(address, "/metrics/detail?topic=t")[0] == 404
            names = Scrape.take(address).families
            expected = {family.name for family in FAMILIES if exporter in family.exporters}
            assert names <= expected
            assert expected - names <= {"zenit_rpc_failed_total", "zenit_elections_total"}
    assert len({address for role in ("namesrv", "controller", "broker") for address in ports(role).values()}) == 5
    with pytest.raises(KeyError):
        ports("zookeeper")


def test_the_master_tells_of_its_group_and_one_alone_is_master(ports: Ports) -> None:
    scrapes = {name: Scrape.take(address) for name, address in ports("broker").items()}
    masters = [name for name, one in scrapes.items() if one.value("zenit_replica_is_master") == 1]
    assert len(masters) == 1
    master = scrapes[masters[0]]
    group = [master.value(f"zenit_group_{name}") for name in ("in_sync", "min_in_sync", "replicas")]
    assert group == [3, 2, 3]
    assert {told["replica"] for name, told, _ in master.rows if name == "zenit_replica_lag_bytes"} == {
        *scrapes.keys() - {masters[0]}
    }
    assert max(master.values("zenit_replica_caught_up_seconds")) < 5
    for name, one in scrapes.items():
        assert one.value("zenit_ready", node_id=name, group="broker-a") == 1
        assert one.value("zenit_group_epoch") == master.value("zenit_group_epoch")


def test_the_controller_counts_the_elections_that_were_written(ports: Ports) -> None:
    (address,) = ports("controller").values()
    found = Scrape.take(address)
    assert found.value("zenit_controller_is_leader") == 1
    assert found.value("zenit_elections_total", group="broker-a", forced="false") >= 1


def test_brokers_that_are_lost_are_counted(three_replicas: LocalCluster, ports: Ports) -> None:
    """The cluster is whole again for the next test by its fixture."""
    (name_server,) = ports("namesrv").values()
    assert Scrape.take(name_server).value("zenit_namesrv_brokers") == 3
    before = ports("broker")
    slave = next(name for name, address in before.items() if Scrape.take(address).value("zenit_replica_is_master") == 0)
    three_replicas.kill(slave)
    master = next(
        address
        for name, address in before.items()
        if name != slave and Scrape.take(address).value("zenit_replica_is_master") == 1
    )
    found = Scrape.until(master, lambda one: one.value("zenit_group_in_sync") == 2)
    assert found.value("zenit_replica_caught_up_seconds", replica=slave) > 0
    assert Scrape.page(master, "/readyz") == (200, "ready: master\n")
