"""The bench of engines, small: everything comes out, on both kinds, and all of its figures are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.bench import engines


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_an_engine_is_measured(kind: str, tmp_path: Path) -> None:
    name = "memory://bench-engines" if kind == "memory" else f"local://{tmp_path}/store"
    found = engines.measure(name, messages=1000, batch=100, sends=20)
    for way in ("send_batch_and_poll", "send_bodies_and_poll"):
        assert found[way]["messages_per_second"] > 0
        assert found[way]["cpu_us"] > 0
    assert 0 < found["send_us"]["p50"] <= found["send_us"]["max"]
