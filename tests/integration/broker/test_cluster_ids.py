"""How brokers come by their cluster's id: from their store, from name servers, drawn here; and who is refused by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.broker.conftest import Served

from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.model.errors import ConfigError, WrongCluster
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient

WAIT_S = 10
Run = Callable[..., Served]


@pytest.fixture
def namesrv() -> Iterator[str]:
    with NameServer(NameServerConfig(host="127.0.0.1", port=0, listen_ms=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join(5)


@pytest.fixture
def run(namesrv: str, tmp_path: Path) -> Iterator[Run]:
    """run(broker name, **settings): a broker that registers with the name server, in a directory of its name."""
    with ExitStack() as running:

        def start(name: str, **settings: Any) -> Served:
            served = Served(tmp_path / name, name=name, namesrv=(namesrv,), namesrv_heartbeat_ms=50, **settings)
            running.callback(served.close)
            return served

        yield start


def cluster_id(broker: Any) -> str:
    told: str = broker.ask(commands.GetBrokerStatistics())["cluster_id"]
    return told


def wait(is_so: Callable[[], bool]) -> None:
    for _ in range(WAIT_S * 50):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come to that")


def kept(broker: Any) -> ClusterFile:
    return ClusterFile.open(broker.config.store_dir)


def test_a_broker_alone_draws_an_id_and_keeps_it(serve: Callable[..., Any]) -> None:
    broker = serve()
    first = cluster_id(broker)
    assert len(first) == 16
    broker.restart()
    assert cluster_id(broker) == first
    assert kept(broker).is_settled


def test_brokers_of_one_name_that_begin_together_are_one_cluster(run: Run) -> None:
    brokers = [run(f"broker-{number}") for number in range(3)]
    wait(lambda: all(kept(broker).is_settled for broker in brokers))
    assert len({cluster_id(broker) for broker in brokers}) == 1


def test_a_broker_waits_for_a_name_server_rather_than_begin_a_cluster(serve: Callable[..., Any]) -> None:
    """Who asks it as a member of a cluster is refused meanwhile: it may be another one's."""
    broker = serve(namesrv=("127.0.0.1:1",), namesrv_heartbeat_ms=50)
    assert cluster_id(broker) == ""
    with RemotingClient() as client:
        client.name_cluster("c7")
        with pytest.raises(WrongCluster):
            client.call(broker.address, commands.GetBrokerStatistics(), timeout_ms=5000)
    assert not kept(broker).is_settled


def test_the_second_cluster_of_a_name_is_kept_out_and_says_so_once(
    run: Run, namesrv: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = run("broker-a", cluster_id="c1")
    first.create("t")
    wait(lambda: "t" in first.client.call(namesrv, commands.GetTopicList(), timeout_ms=1000)[0].topics)
    with caplog.at_level(logging.ERROR):
        run("broker-b", cluster_id="c2")
        wait(lambda: "c2" in caplog.text)
        threading.Event().wait(0.3)
    assert len([line for line in caplog.records if "another cluster named zenit lives there" in line.getMessage()]) == 1
    info = first.client.call(namesrv, commands.GetClusterInfo(), timeout_ms=1000)[1]
    assert b"broker-b" not in info


def test_a_store_of_one_cluster_is_not_opened_for_another(serve: Callable[..., Any]) -> None:
    broker = serve(cluster_id="c1")
    broker.stop()
    with pytest.raises(ConfigError, match="c1: the store in"):
        serve(cluster_id="c2")


def test_nothing_of_a_request_for_another_cluster_is_done(serve: Callable[..., Any]) -> None:
    broker = serve(cluster_id="c1")
    with RemotingClient() as client:
        client.name_cluster("c2")
        with pytest.raises(WrongCluster) as refused:
            client.call(broker.address, commands.CreateTopic("t", 1, 1), timeout_ms=5000)
        assert refused.value.args == ("zenit", "c1", "c2")
        client.name_cluster("c1")
        client.call(broker.address, commands.GetBrokerStatistics(), timeout_ms=5000)
    assert [topic for topic in broker.ask(commands.GetTopics())["topics"] if topic["name"] == "t"] == []
    assert broker.broker._loop.statistics().other_cluster == 1
