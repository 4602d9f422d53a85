"""What clients count, read by prometheus_client."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from zenitmq.client.client_counts import ClientCounts
from zenitmq.client.consuming.push.counted_handle import counted_handle
from zenitmq.client.metrics_collector import metrics_collector
from zenitmq.metrics.family import Exporter
from zenitmq.metrics.table import FAMILIES
from zenitmq.model.errors import RequirementMissing


def client() -> Any:
    return SimpleNamespace(counts=ClientCounts())


def text_of(collector: Any) -> list[str]:
    registry = CollectorRegistry()
    registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_numbers_of_several_clients_are_added_up() -> None:
    one, other = client(), client()
    collector = metrics_collector(one)
    assert text_of(collector) == []
    collector.add(other)
    one.counts.on_sent("trades", 3, 4, is_ok=True)
    other.counts.on_sent("trades", 2, 30_000, is_ok=True)
    other.counts.on_sent("orders", 1, 0, is_ok=False)
    one.counts.on_consumed("trades", "g", 5)
    lines = text_of(collector)
    assert 'zenit_client_sent_messages_total{topic="trades"} 5.0' in lines
    assert 'zenit_client_send_failed_messages_total{topic="orders"} 1.0' in lines
    assert 'zenit_client_consumed_messages_total{consumer_group="g",topic="trades"} 5.0' in lines
    assert 'zenit_client_send_seconds_bucket{le="0.005"} 2.0' in lines
    assert 'zenit_client_send_seconds_bucket{le="+Inf"} 3.0' in lines
    assert "zenit_client_send_seconds_sum 30.004" in lines


def test_a_handler_is_timed_however_it_ends() -> None:
    one = client()

    async def handle(messages: list[Any]) -> None:
        if len(messages) > 1:
            raise RuntimeError("no")

    counted = counted_handle(one.counts, "g", handle)
    message: Any = SimpleNamespace(topic="trades")
    asyncio.run(counted([message]))
    with pytest.raises(RuntimeError):
        asyncio.run(counted([message] * 2))
    lines = text_of(metrics_collector(one))
    assert 'zenit_client_consumed_messages_total{consumer_group="g",topic="trades"} 3.0' in lines
    assert 'zenit_client_process_seconds_count{consumer_group="g"} 2.0' in lines


def test_every_family_of_a_client_is_read() -> None:
    one = client()
    one.counts.on_sent("t", 1, 1, is_ok=True)
    one.counts.on_sent("t", 1, 1, is_ok=False)
    one.counts.on_consumed("t", "g", 1)
    one.counts.on_handled("g", 1)
    told = {family.name for family, samples in one.counts.readings() if samples}
    assert told == {family.name for family in FAMILIES if Exporter.CLIENT in family.exporters}


def test_without_prometheus_client_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(RequirementMissing, match=r"pip install 'zenitmq\[prometheus\]'"):
        metrics_collector()
