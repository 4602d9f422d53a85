"""What the doctor makes of a proxy's pages."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from zenitmq.deploy.doctor.proxy_pages import examine_proxy, judged_metrics, judged_readiness
from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import MetricsEndpoint
from zenitmq.model.examination.finding import Severity

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("status", "text", "told"),
    [
        (200, "ready: proxy\n", ["it serves, and the cluster answers it"]),
        (
            503,
            "not ready: starting, or stopping\nnot ready: no cluster: x\n",
            ["starting, or stopping", "no cluster: x"],
        ),
        (200, "ready: master\n", ["no proxy answers there, but: ready: master"]),
        (404, "", ["no proxy answers there, but: status 404"]),
    ],
)
def test_whether_it_is_ready(status: int, text: str, told: list[str]) -> None:
    found = list(judged_readiness(status, text))
    assert [one.text for one in found] == told
    assert {one.severity for one in found} == {Severity.OK if text == "ready: proxy\n" else Severity.PROBLEM}
    assert all(one.remedy for one in found if one.severity is not Severity.OK)


@pytest.mark.parametrize(
    ("page", "severity"),
    [
        ('zenit_clock_seconds{node_type="proxy"} 1700000000.01\n', Severity.OK),
        ("zenit_clock_seconds 1700000100\n", Severity.PROBLEM),
        ("zenit_clock_seconds 1.2.3\n", Severity.NOTE),
        ("bring a token\n", Severity.NOTE),
    ],
)
def test_its_clock(page: str, severity: Severity) -> None:
    assert [one.severity for one in judged_metrics(page, NOW_MS, 10)] == [severity]


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint(MetricsConfig(bind="127.0.0.1:0"), version="7.8.9", kernel="none") as serving:
        yield serving


def test_a_port_that_answers_and_one_that_does_not(endpoint: MetricsEndpoint) -> None:
    one = examine_proxy(endpoint.address)
    assert (one.what, one.version) == (f"proxy {endpoint.address}", "7.8.9")
    assert [(found.check, found.text) for found in one.findings if found.severity is Severity.PROBLEM] == [
        ("ready", "starting")
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (reach,) = examine_proxy(f"127.0.0.1:{free.getsockname()[1]}").findings
    assert (reach.severity, reach.check) == (Severity.PROBLEM, "reach")
    assert "metrics.bind" in reach.remedy
    (wrong,) = examine_proxy("here").findings
    assert "HOST:PORT" in wrong.text
