"""`zenit proxy` as a process: ready once it serves and the cluster answers; several on one port; why one does not start."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from classic_kit import BareClient
from port_kit import free_row

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(120)

ZENIT = str(Path(sys.executable).with_name("zenit"))
WAIT_MS = 30_000


def asked(port: int, path: str) -> tuple[int, str]:
    """0 while nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def started(cluster: LocalCluster, *settings: str) -> subprocess.Popen[str]:
    command = [
        ZENIT,
        "proxy",
        "--set",
        f"namesrv={cluster.namesrv}",
        "--set",
        "remoting_port=-1",
        "--set",
        "drain_ms=500",
    ]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.Popen(command, env=cluster.environ, stderr=subprocess.PIPE, text=True)


def counted(port: int) -> set[str]:
    """The requests that a proxy has counted: "series protocol method [code] number"."""
    lines = re.findall(
        r"^zenit_proxy_(errors_total|request_seconds_count)\{(.*)\} (\d+)$", asked(port, "/metrics")[1], re.MULTILINE
    )
    found = set()
    for series, labels, number in lines:
        values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        words = [values[name] for name in ("protocol", "method", "code") if name in values]
        found.add(" ".join((series, *words, number)))
    return found


def await_ready(port: int) -> None:
    deadline_ms = monotonic_ms() + WAIT_MS
    while asked(port, "/readyz") != (200, "ready: proxy\n"):
        assert monotonic_ms() < deadline_ms, asked(port, "/readyz")
        sleep_ms(50)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(secure=False) as made:
        yield made


def test_it_is_ready_while_it_serves_and_ends_when_it_is_told_to(cluster: LocalCluster) -> None:
    port, metrics = free_row(2)
    process = started(cluster, f"port={port}", f"metrics.bind=127.0.0.1:{metrics}")
    try:
        await_ready(metrics)
        status, text = asked(metrics, "/metrics")
        assert status == 200
        assert 'zenit_proxy_clients{cluster="zenit",node_type="proxy"' in text
        with socket.create_connection(("127.0.0.1", port), 5):
            pass
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            heartbeat = channel.unary_unary("/apache.rocketmq.v2.MessagingService/Heartbeat")
            heartbeat(b"", timeout=10)
            heartbeat(b"", metadata=[("x-mq-client-id", "one")], timeout=10)
        assert counted(metrics) == {
            "errors_total grpc Heartbeat CLIENT_ID_REQUIRED 1",
            "request_seconds_count grpc Heartbeat 2",
        }
        taken = started(cluster, f"port={port}")
        _, said = taken.communicate(timeout=60)
        assert (taken.returncode, said.count("\nzenit: ")) == (1, 1), said
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "proxy stopped" in said


def test_a_key_of_tls_that_others_may_read_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("a key")
    key.chmod(0o644)
    process = started(cluster, "port=0", "tls_port=0", f"tls_key={key}", f"tls_certificate={key}")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert f"others than its owner may use it (mode 644): chmod 600 {key}" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("tls_port=0", "tls_key={key}", "tls_certificate={key}"), "tls_certificate = '{key}': expected a certificate"),
        (
            ("tls_port=0", "tls_key={key}", "tls_certificate=/no"),
            "tls_certificate = '/no': expected a file that can be",
        ),
        (("host=nosuch.invalid",), "host = 'nosuch.invalid': expected a host that has an address"),
    ],
)
def test_what_is_wrong_is_not_told_as_a_taken_port(
    cluster: LocalCluster, tmp_path: Path, settings: tuple[str, ...], says: str
) -> None:
    key = tmp_path / "key.pem"
    key.write_text("no key")
    key.chmod(0o600)
    process = started(cluster, "port=0", *(setting.format(key=key) for setting in settings))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert says.format(key=key) in said.splitlines()[-1]


def test_clients_of_the_remoting_protocol_get_its_port_as_their_name_server(cluster: LocalCluster) -> None:
    """One process alone serves it, and the ports that stand for brokers."""
    topic = cluster.create_topic("remoting")
    port, metrics, _, remoting, _, _, broker = free_row(7)
    settings = (
        f"remoting_port={remoting}",
        f"broker_port={broker}",
        "processes=2",
        f"metrics.bind=127.0.0.1:{metrics}",
    )
    process = started(cluster, f"port={port}", *settings)
    try:
        await_ready(metrics)
        with BareClient(remoting) as client:
            route = json.loads(client.ask(105, topic=topic).body)
            assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.1:{broker}"}
            assert (client.ask(105, topic="nowhere").code, client.ask(9999).code) == (17, 3)
        assert {line for line in counted(metrics) if "remoting" in line} == {
            "errors_total remoting GET_ROUTEINFO_BY_TOPIC TOPIC_NOT_EXIST 1",
            "errors_total remoting UNKNOWN REQUEST_CODE_NOT_SUPPORTED 1",
            "request_seconds_count remoting GET_ROUTEINFO_BY_TOPIC 2",
            "request_seconds_count remoting UNKNOWN 1",
        }
        for at in (broker, broker - 2):
            with BareClient(at) as client:
                assert client.ask(310, b"x", b=topic, e=0).code == 0
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_several_processes_share_a_port_and_have_a_port_for_metrics_each(cluster: LocalCluster) -> None:
    port, first, second = free_row(3)
    process = started(cluster, f"port={port}", "processes=2", f"metrics.bind=127.0.0.1:{first}")
    try:
        await_ready(first)
        await_ready(second)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len(re.findall("proxy stopped", said)) == 2


def test_without_its_cluster_it_is_not_ready_and_says_why(cluster: LocalCluster) -> None:
    port, metrics, nobody = free_row(3)
    command = [ZENIT, "proxy"]
    for setting in (
        f"namesrv=127.0.0.1:{nobody}",
        f"port={port}",
        "remoting_port=-1",
        f"metrics.bind=127.0.0.1:{metrics}",
    ):
        command += ["--set", setting]
    process = subprocess.Popen(command, env=cluster.environ, stderr=subprocess.PIPE, text=True)
    try:
        deadline_ms = monotonic_ms() + WAIT_MS
        while "cannot reach" not in asked(metrics, "/readyz")[1]:
            assert monotonic_ms() < deadline_ms
            sleep_ms(50)
        assert asked(metrics, "/readyz")[0] == 503
        assert asked(metrics, "/livez")[0] == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
