"""`zenit canary` as a process: probes come back, are lost while the broker stands still, and come back again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from scrape_kit import Scrape

from zenitmq import Message
from zenitmq.deploy.canary import TOPIC, Canary

if TYPE_CHECKING:
    from zenitmq.testing import LocalCluster


@pytest.fixture
def address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def canary(one_broker: LocalCluster, address: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "zenitmq", "canary", "--namesrv", one_broker.namesrv, "--metrics-bind", address]
    process = subprocess.Popen(command, env=one_broker.environ, stderr=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait(10)


def test_probes_come_back_and_a_broker_that_stands_still_is_seen(
    one_broker: LocalCluster, canary: subprocess.Popen[bytes], address: str
) -> None:
    group = "broker-a"
    found = Scrape.when_up(address, lambda one: one.value("zenit_canary_round_seconds_count", group=group) >= 2)
    assert 0 < found.value("zenit_canary_seconds", group=group) < 1
    assert found.value("zenit_canary_failed_total", group=group) == 0
    assert Scrape.page(address, "/readyz") == (200, "ready: canary\n")
    (broker,) = one_broker.brokers
    with one_broker.paused(broker):
        Scrape.until(address, lambda one: one.value("zenit_canary_seconds", group=group) > 1.5)
    Scrape.until(address, lambda one: 0 < one.value("zenit_canary_seconds", group=group) < 1)
    canary.send_signal(signal.SIGTERM)
    assert canary.wait(15) == 0


def test_where_the_reading_begins_is_known_before_a_probe_is_sent(one_broker: LocalCluster) -> None:
    """Else the first probe is before it, and taken for lost."""
    with Canary(one_broker.namesrv) as canary:
        canary._look()
        sent_to = canary._producer.send(Message(TOPIC.format("broker-a"), b"probe"))
        (queue,) = canary._consumer.assignment()
        assert canary._consumer.position(queue) <= sent_to.queue_offset
