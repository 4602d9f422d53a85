"""`zenit doctor` of a cluster, of a machine alone, and of a configuration that does not run yet."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zenit_kit import run_zenit

from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import MetricsEndpoint
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer
from zenitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(replicas=2) as running:
        yield running


def examined(home: Path, *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    done = run_zenit("doctor", *arguments, "--json", home=home)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, {one["what"]: one["findings"] for one in document["examined"]}


def problems(findings: list[dict[str, str]]) -> list[str]:
    return [f"{one['check']}: {one['text']}" for one in findings if one["severity"] == "problem"]


def test_each_server_examines_itself_and_says_whom_it_does_not_reach(tmp_path: Path, cluster: LocalCluster) -> None:
    code, found = examined(tmp_path, "--namesrv", cluster.namesrv)
    servers = [what.split()[0] for what in found]
    assert (code, servers) == (0, ["this", "the", "namesrv", "broker", "broker", "controller"])
    for what, findings in found.items():
        assert problems(findings) == []
        if what.split()[0] in ("broker", "controller", "namesrv"):
            assert {"open files", "reach", "clock apart"} <= {one["check"] for one in findings}
    slave = next(name for name in cluster.brokers if name != cluster.master)
    address = cluster.process(slave).address
    cluster.kill(slave)
    code, found = examined(tmp_path, "--namesrv", cluster.namesrv)
    assert code == 1
    assert any(f"no connection to the broker {address}" in one for one in problems(found[f"namesrv {cluster.namesrv}"]))
    for _ in range(30):  # the master strikes it off after a moment
        if problems(found["the cluster"]):
            break
        code, found = examined(tmp_path, "--namesrv", cluster.namesrv)
    assert problems(found["the cluster"]) == [f"group: broker-a: not in sync: {slave}"]
    master = f"broker {cluster.process(cluster.master).address}"
    assert any(f"no connection to the replica {address}" in one for one in problems(found[master]))
    cluster.restart()


def test_a_machine_alone(tmp_path: Path) -> None:
    code, found = examined(tmp_path, "--machine")
    assert (code, len(found)) == (0, 1)
    text = run_zenit("doctor", "--machine", "--all", home=tmp_path).stdout
    assert "ok       record kernel: " in text


def test_a_proxy_by_its_metrics(tmp_path: Path) -> None:
    with MetricsEndpoint(MetricsConfig(bind="127.0.0.1:0"), version="0.1.0", kernel="none") as endpoint:
        code, found = examined(tmp_path, "--machine", "--proxy", endpoint.address)
    assert (code, problems(found[f"proxy {endpoint.address}"])) == (1, ["ready: starting"])


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    code, found = examined(tmp_path, "--namesrv", "127.0.0.1:9")
    assert code == 1
    assert problems(found["the cluster"]) == ["name servers: cannot reach 127.0.0.1:9; is it running? (zenit status)"]


def test_a_cluster_without_a_broker_is_not_well(tmp_path: Path) -> None:
    with NameServer(NameServerConfig(port=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            code, found = examined(tmp_path, "--namesrv", server.address)
        finally:
            server.stop()
            thread.join()
    assert (code, problems(found["the cluster"])) == (1, ["brokers: none is registered with the name servers"])


def test_a_configuration_before_it_is_started(tmp_path: Path, cluster: LocalCluster) -> None:
    file = tmp_path / "broker.toml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file.write_text(
            f'host = "127.0.0.1"\nport = {port}\nnamesrv = ["{cluster.namesrv}", "127.0.0.1:9"]\n'
            f'store_dir = "{tmp_path}/store"\n'
            f'[security]\nkey = "{tmp_path}/none.key"\ntrusted = "{tmp_path}/trusted.toml"\n'
        )
        code, found = examined(tmp_path, "--config", str(file))
    assert code == 1
    told = problems(found[f"broker of {file}"])
    assert f"port: 127.0.0.1:{port}: Address already in use" in told
    assert any(one.startswith("security.key: ") and "none.key" in one for one in told)
    assert any(one.startswith("reach: no connection to the name server 127.0.0.1:9") for one in told)
    assert not os.path.exists(tmp_path / "store")


def test_a_configuration_with_a_wrong_value_and_a_wrong_role(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("port = 70000\n")
    code, found = examined(tmp_path, "--config", str(file))
    assert (code, problems(found[f"broker of {file}"])) == (1, ["port: '70000'"])
    done = run_zenit("doctor", "--config", str(file), "--role", "brocker", home=tmp_path)
    assert (done.returncode, "expected one of broker, namesrv, controller" in done.stderr) == (2, True)
