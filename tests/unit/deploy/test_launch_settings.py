"""What a local process is started with: where it listens, whom it serves, and what the user asked for, last."""

from __future__ import annotations

import pytest

from zenitmq.deploy.cluster_plan import arguments_of, asked_port, check_settings
from zenitmq.deploy.cluster_record import ClusterRecord, ProcessRecord, Shape
from zenitmq.model.errors import InvalidParameter

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
