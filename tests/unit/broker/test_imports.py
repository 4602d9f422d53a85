"""What a broker's process loads before it serves: what few brokers need, only those load."""

from __future__ import annotations

import subprocess
import sys

LOADED = "import sys, zenitmq.broker.service; print(*sys.modules)"


def test_numpy_is_not_loaded_until_it_is_needed() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert "zenitmq.store.message_store" in loaded
    assert {"numpy", "pyarrow", "kazoo", "typer"}.isdisjoint(loaded)
