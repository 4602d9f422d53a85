"""What a local process is started with: where it listens, whom it serves, and what the user asked for, last."""

from __future__ import annotations

import pytest

from zenitmq.deploy.cluster_plan import arguments_of, asked_port, check_settings, plan
from zenitmq.deploy.cluster_record import ClusterRecord, ProcessRecord, Shape
from zenitmq.deploy.setting_check import check_planned
from zenitmq.model.errors import ConfigError, InvalidParameter

RECORD = ClusterRecord(cluster="zenit", cluster_id="c1", namesrv="127.0.0.1:9886")


def test_a_name_server_is_told_where_to_listen() -> None:
    process = ProcessRecord(role="namesrv", name="namesrv-1", address="127.0.0.1:9886")
    assert arguments_of(RECORD, process) == ["host=127.0.0.1", "port=9886"]


def test_a_broker_is_told_its_name_its_store_and_the_users_settings_last() -> None:
    process = ProcessRecord(
        role="broker",
        name="broker-a",
        address="127.0.0.1:10921",
        store_dir="/tmp/a dir=odd/broker-a",
        settings=("store.flush_mode=sync",),
    )
    assert arguments_of(RECORD, process) == [
        "host=127.0.0.1",
        "port=10921",
        "cluster=zenit",
        "cluster_id=c1",
        "name=broker-a",
        "namesrv=127.0.0.1:9886",
        "store_dir=/tmp/a dir=odd/broker-a",
        "store.flush_mode=sync",
    ]


@pytest.mark.parametrize(
    ("settings", "port"),
    [((), None), (("port=12000",), 12000), (("port=1", "port=2"), 2), (("store.port=3",), None), (("port=x",), None)],
)
def test_a_port_can_be_asked_for(settings: tuple[str, ...], port: int | None) -> None:
    assert asked_port(settings) == port


@pytest.mark.parametrize("setting", ["store_dir=/elsewhere", "name=b", " namesrv=a:1"])
def test_what_up_decides_itself_cannot_be_set(setting: str) -> None:
    check_settings(["store.flush_mode=sync", "port=12000"], Shape())
    with pytest.raises(InvalidParameter, match="decide"):
        check_settings([setting], Shape())


SHAPES = [Shape(), Shape(replicas=3), Shape(replicas=3, zookeeper="z:2181"), Shape(replicas=2, controllers=0, groups=2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_cluster_is_started_with_is_taken_by_each_role(shape: Shape) -> None:
    record = ClusterRecord(cluster="zenit", cluster_id="c1", namesrv="", shape=shape, zookeeper=shape.zookeeper)
    settings = ["store.flush_mode=sync"]
    planned = plan("/d", record, settings)
    check_planned(record, planned, settings, {})
    with pytest.raises(ConfigError, match="ZENIT_NAMESRV__NIX"):
        check_planned(record, planned, settings, {"ZENIT_NAMESRV__NIX": "1"})


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("nix=1", "a known key"),
        ("flush_mode", "key=value"),
        ("store.flush_mode=maybe", "one of async, sync"),
        ("publish_port=1", "of the namesrv, which takes it from \\$ZENIT_NAMESRV__PUBLISH_PORT"),
        ("zookeeper=z:1", "of the controller, which takes it from \\$ZENIT_CONTROLLER__ZOOKEEPER"),
    ],
)
def test_a_setting_that_no_broker_takes(setting: str, told: str) -> None:
    record = ClusterRecord(cluster="zenit", cluster_id="c1", namesrv="")
    with pytest.raises(InvalidParameter, match=told):
        check_planned(record, plan("/d", record, [setting]), [setting], {})


def test_a_port_of_the_name_server_that_was_asked_for_is_kept() -> None:
    record = ClusterRecord(cluster="zenit", cluster_id="c1", namesrv="")
    name_server = plan("/d", record, (), 12_000)[0]
    assert (name_server.address, asked_port(name_server.settings)) == ("127.0.0.1:12000", 12_000)
    assert plan("/d", record.with_process(name_server), ())[0] == name_server
