"""What a broker says at a scrape: it follows what was sent and read, and what is deleted leaves at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from scrape_kit import Scrape

from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import MetricsEndpoint
from zenitmq.metrics.family import Exporter
from zenitmq.metrics.table import FAMILIES
from zenitmq.remoting import commands

if TYPE_CHECKING:
    from .conftest import Served


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint(MetricsConfig(bind="127.0.0.1:0"), version="1", kernel="compiled") as opened:
        yield opened


@pytest.fixture
def measured(serve: Callable[..., Served], endpoint: MetricsEndpoint) -> Served:
    return serve(metrics_endpoint=endpoint, timer_deliver_per_second=100)


def test_messages_lag_and_deletions(measured: Served, endpoint: MetricsEndpoint, record: Callable[..., bytes]) -> None:
    measured.create("trades")
    measured.call(commands.CreateGroup("g"))
    measured.send("trades", *(record("trades", b"x" * 100) for _ in range(5)))
    measured.pull("trades")
    measured.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 2),)))
    found = Scrape.until(endpoint.address, lambda one: one.value("zenit_consumer_lag_messages") == 3)
    assert found.value("zenit_messages_in_total", topic="trades") == 5
    assert found.value("zenit_messages_out_total", topic="trades", consumer_group="g") == 5
    assert found.value("zenit_throughput_in_bytes_total", topic="trades") > 500
    assert found.value("zenit_throughput_out_bytes_total") == found.value("zenit_throughput_in_bytes_total")
    assert 0 < found.value("zenit_consumer_lag_latency_seconds", topic="trades", consumer_group="g") < 60
    assert found.value("zenit_lane_handled_total", lane="send") == 1
    assert found.value("zenit_store_size_bytes") > 500
    assert found.value("zenit_replica_is_master", group="broker-a") == 1
    assert found.value("zenit_consumer_groups") == 1
    detail = Scrape.take(endpoint.address, "/metrics/detail?topic=trades")
    assert detail.value("zenit_queue_lag_messages", consumer_group="g", queue_id="0") == 3
    assert detail.value("zenit_queue_committed_offset", consumer_group="g", queue_id="0") == 2
    assert detail.value("zenit_queue_end_offset", queue_id="0") == 5

    measured.call(commands.DeleteTopic("trades"))
    Scrape.until(endpoint.address, lambda one: not one.has(topic="trades"))  # once the deletion's record is dispatched
    measured.create("trades")
    measured.send("trades", record("trades"))
    assert Scrape.take(endpoint.address).value("zenit_messages_in_total", topic="trades") == 1


def test_every_family_of_a_broker_is_read(measured: Served, endpoint: MetricsEndpoint, record: Any) -> None:
    """But those of replicas, of pops and of clients, which nothing here has."""
    measured.create("trades")
    measured.call(commands.CreateGroup("g"))
    measured.send("trades", record("trades"))
    measured.pull("trades")
    measured.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 0),)))
    for _ in range(50):  # of which some are timed
        measured.call(commands.GetTopics())
    with pytest.raises(Exception, match="nowhere"):
        measured.pull("nowhere")
    whole = Scrape.until(endpoint.address, lambda one: "zenit_consumer_lag_messages" in one.families)
    names = {*whole.families, *Scrape.take(endpoint.address, "/metrics/detail?topic=trades").families}
    expected = {family.name for family in FAMILIES if Exporter.BROKER in family.exporters}
    absent = {
        *("zenit_replica_lag_bytes", "zenit_replica_caught_up_seconds", "zenit_consumer_connections"),
        *("zenit_consumer_inflight_messages", "zenit_consumer_ready_messages"),
    }
    assert expected - names == absent
    assert names <= expected


def test_it_is_ready_between_its_start_and_its_end(
    measured: Served, endpoint: MetricsEndpoint, record: Callable[..., bytes]
) -> None:
    assert Scrape.page(endpoint.address, "/readyz") == (200, "ready: master\n")
    assert Scrape.page(endpoint.address, "/livez") == (200, "alive\n")
    measured.create("trades")
    measured.send("trades", record("trades"))
    before = Scrape.take(endpoint.address).value("zenit_store_written_bytes_total")
    measured.stop()
    assert Scrape.page(endpoint.address, "/readyz") == (503, "not ready: starting\n")
    measured.start()
    assert Scrape.page(endpoint.address, "/readyz")[0] == 200
    assert Scrape.take(endpoint.address).value("zenit_store_written_bytes_total") >= before
