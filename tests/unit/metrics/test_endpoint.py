"""The port for scrapes and health: its pages, and that no visitor keeps another one out."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from zenitmq.metrics import http_server
from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import MetricsEndpoint
from zenitmq.metrics.family import Labels, Reading
from zenitmq.metrics.http_server import HttpAnswer, HttpServer
from zenitmq.metrics.process_reader import memory_bytes
from zenitmq.metrics.readiness import ALIVE_MS, Readiness, liveness
from zenitmq.metrics.table import LAG, QUEUE_LAG, TOPICS
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import ConfigError


class Told:
    """A subject that says what a test has put in."""

    labels: Labels = (("cluster", "c"), ("node_id", "broker-a"))

    def __init__(self) -> None:
        self.turned_ms = monotonic_ms()
        self.ready = Readiness("master")
        self.lags = 2
        self.fails = False

    def readiness(self) -> Readiness:
        return self.ready

    def readings(self) -> Iterator[Reading]:
        if self.fails:
            raise RuntimeError("a defect")
        yield TOPICS, [((), 3)]
        yield LAG, [((f"t{number}", "g"), number) for number in range(self.lags)]

    def detail(self, topic: str) -> Iterator[Reading] | None:
        return iter([(QUEUE_LAG, [((topic, "g", "0"), 5)])]) if topic == "trades" else None


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def endpoint(told: Told) -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint(
        MetricsConfig(bind="127.0.0.1:0", compat="rocketmq", series_max=1_000), version="1", kernel="compiled"
    ) as opened:
        opened.serve(told)
        yield opened


def ask(
    address: str, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_a_scrape_has_the_process_the_subject_and_the_old_names(endpoint: MetricsEndpoint) -> None:
    status, text, headers = ask(endpoint.address, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = text.splitlines()
    assert 'zenit_topics{cluster="c",node_id="broker-a"} 3' in lines
    assert 'rocketmq_topic_number{cluster="c",node_id="broker-a"} 3' in lines
    assert 'zenit_ready{cluster="c",node_id="broker-a"} 1' in lines
    assert any(line.startswith("process_cpu_seconds_total{") for line in lines)
    _, text, headers = ask(
        endpoint.address, "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"}
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_what_is_over_the_limit_is_counted(endpoint: MetricsEndpoint, told: Told) -> None:
    told.lags = 5_000
    _, text, _ = ask(endpoint.address, "/metrics")
    dropped = next(line for line in text.splitlines() if line.startswith("zenit_metrics_series_dropped"))
    assert 9_000 < int(dropped.rpartition(" ")[2]) < 9_100
    assert len([line for line in text.splitlines() if not line.startswith("#")]) == 1_001


def test_details_of_one_topic(endpoint: MetricsEndpoint) -> None:
    status, text, _ = ask(endpoint.address, "/metrics/detail?topic=trades")
    assert (status, 'topic="trades",consumer_group="g",queue_id="0"} 5' in text) == (200, True)
    assert ask(endpoint.address, "/metrics/detail?topic=other")[:2] == (404, "no such topic here\n")
    assert ask(endpoint.address, "/metrics/detail")[0] == 400


def test_health_says_why(endpoint: MetricsEndpoint, told: Told) -> None:
    assert ask(endpoint.address, "/livez")[:2] == (200, "alive\n")
    assert ask(endpoint.address, "/readyz")[:2] == (200, "ready: master\n")
    told.ready = Readiness("", ("recovering", "no controller"))
    assert ask(endpoint.address, "/readyz")[:2] == (503, "not ready: recovering\nnot ready: no controller\n")
    told.turned_ms -= ALIVE_MS + 1_500
    status, text, _ = ask(endpoint.address, "/livez")
    assert (status, text) == (503, "not alive: the loop has not turned for 11 s\n")
    endpoint.serve(None)
    assert ask(endpoint.address, "/readyz")[:2] == (503, "not ready: starting\n")
    assert ask(endpoint.address, "/livez")[:2] == (200, "alive: starting\n")
    status, text, _ = ask(endpoint.address, "/metrics")
    assert (status, "zenit_ready 0" in text) == (200, True)


def test_other_requests(endpoint: MetricsEndpoint, told: Told, caplog: pytest.LogCaptureFixture) -> None:
    status, text, headers = ask(endpoint.address, "/metrics", "HEAD")
    assert (status, text, int(headers["Content-Length"]) > 1_000) == (200, "", True)
    assert ask(endpoint.address, "/")[1].startswith("/metrics\n")
    assert ask(endpoint.address, "/nowhere")[0] == 404
    assert ask(endpoint.address, "/metrics", "POST")[0] == 405
    told.fails = True
    assert ask(endpoint.address, "/metrics")[0] == 500
    assert "a page of metrics failed path=/metrics" in caplog.text
    told.fails = False
    assert ask(endpoint.address, "/metrics")[0] == 200


def test_who_says_nothing_keeps_nobody_out(endpoint: MetricsEndpoint) -> None:
    host, _, port = endpoint.address.rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=5) for _ in range(http_server.CONNECTIONS_MAX + 5)]
    try:
        silent[-1].sendall(b"GET /livez HTT")
        assert ask(endpoint.address, "/livez")[0] == 200
        assert silent[0].recv(1) == b"", "the oldest connections were ended"
        silent[-1].sendall(b"P/1.1\r\n\r\n")
        assert silent[-1].recv(100).startswith(b"HTTP/1.1 200 OK")
    finally:
        for connection in silent:
            connection.close()


def test_a_head_without_an_end_is_refused(endpoint: MetricsEndpoint) -> None:
    host, _, port = endpoint.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"GET /" + b"a" * 9_000)
        assert connection.recv(12) == b"HTTP/1.1 431"


def test_who_is_slow_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_MS_MAX", -1)
    with HttpServer("127.0.0.1:0", lambda _: HttpAnswer(200, ("x",))) as server:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            server.turn(1_000)
            assert connection.recv(1) == b""


def test_a_taken_port_is_named() -> None:
    with (
        HttpServer("127.0.0.1:0", lambda _: HttpAnswer(200, ())) as server,
        pytest.raises(ConfigError, match=r"metrics\.bind.*address to listen at"),
    ):
        HttpServer(server.address, lambda _: HttpAnswer(200, ()))


@pytest.mark.parametrize("bind", ["x", "127.0.0.1", ":1", "h:x", "h:70000"])
def test_an_address_is_checked(bind: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        MetricsConfig(bind=bind)


def test_memory_is_read_from_the_systems_text() -> None:
    assert memory_bytes("Name:\tx\nVmRSS:\t  10 kB\nRssAnon:\t 3 kB\n") == {"VmRSS": 10_240, "RssAnon": 3_072}


def test_a_loop_that_does_not_run_yet_is_alive() -> None:
    assert liveness(None, 5)[0]
