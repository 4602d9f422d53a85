"""The benchmark of a large cluster's controller, on a few groups: it comes to its end and prints all its figures."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def test_it_prints_its_figures(tmp_path: Path) -> None:
    port, zookeeper_port = free_ports(2)
    sizes = [
        "--groups",
        "4",
        "--seconds",
        "1",
        "--dead",
        "2",
        "--port",
        str(port),
        "--zookeeper-port",
        str(zookeeper_port),
    ]
    command = [sys.executable, "-m", "zenitmq.cli.bench.many_replicas", *sizes]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["groups"], document["replicas"], document["failover"]["groups"]) == (4, 3, 2)
    assert 5 < document["alive"]["heartbeats_per_second"] <= 24
    assert document["alive"]["memory_bytes"]["controller"] > 1 << 20
    assert 2 <= document["failover"]["first_seconds"] <= document["failover"]["last_seconds"] < 30
    assert list(tmp_path.iterdir()) == []
