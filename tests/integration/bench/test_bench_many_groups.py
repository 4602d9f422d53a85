"""The benchmark of a large cluster's name server, on a small one: it comes to its end and prints all its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("spread", ["1", "4"])
def test_it_prints_its_figures(tmp_path: Path, spread: str) -> None:
    sizes = ["--groups", "4", "--replicas", "2", "--topics", "20", "--queues", "3", "--seconds", "1", "--clients", "5"]
    command = [sys.executable, "-m", "zenitmq.bench.scale.many_groups", *sizes, "--spread", spread]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    document = json.loads(done.stdout)
    assert (document["groups"], document["spread"], document["change"]["clients"]) == (4, int(spread), 5)
    assert document["registration"]["bytes_of_one"] > 100
    assert document["registration"]["memory_bytes"] > document["registration"]["memory_bytes_before"] / 2
    assert 0 < document["alive"]["heartbeats_per_second"] <= 8
    assert document["route"]["bytes"] > 50
    for name in ("heard_us", "route_us"):
        assert 0 < document["change"][name]["p50"] <= document["change"][name]["max"]
