"""`zenit bench proxy`, in small: each part of it runs, and says how fast; after rubbish both fronts still serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.bench.options import PROXY_PARTS, BenchOptions
from zenitmq.bench.proxy import proxy_bench


def test_each_part_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_bench, "ROUNDS", 1)
    monkeypatch.setattr(proxy_bench, "FILL_S", 0.05)
    monkeypatch.setattr(proxy_bench, "SETTLED_MS", 10)
    options = BenchOptions(
        work="proxy", size=100, seconds=0.2, clients=20, in_flight=8, own_cluster=True, directory=str(tmp_path)
    )
    document = proxy_bench.run_proxy(options, lambda _: None)
    for part in (name.replace("-", "_") for name in PROXY_PARTS if name not in ("idle", "hostile")):
        assert document[part]["messages_per_second"] > 0, part
        assert document[part]["per_core_second"] > 0, part
    assert document["idle"]["memory_bytes"] > document["idle"]["memory_bytes_before"]
    assert len(document["hostile"]["left"]) == 1
    assert document["hostile"]["closed"] == [0]
    assert all(rate > 0 for rate in document["hostile"]["after"].values())
    assert not list(tmp_path.iterdir())
