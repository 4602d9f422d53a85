"""The benchmark of leases, on few: it comes to its end and prints all its figures."""

import json
import subprocess
import sys
from pathlib import Path


def test_it_prints_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zenitmq.bench.leases", "--leases", "3000", "--batch", "4", "--ending", "2500"]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    document = json.loads(done.stdout)
    assert (document["batch"], document["open"]["leased"], document["ending"]["leases"]) == (4, 3000, 2500)
    for name in (
        "popped_per_second",
        "memory_bytes",
        "memory_bytes_after_restart",
        "restart_seconds",
        "restart_cpu_seconds",
    ):
        assert document["open"][name] > 0
    for name in ("other_sends_before_ms", "other_sends_meanwhile_ms"):
        assert 0 < document["ending"][name]["p50"] <= document["ending"][name]["max"]
    assert 0 <= document["ending"]["all_ended_ms"] < 10_000
