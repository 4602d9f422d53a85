"""The benchmark of light queues, on few: it comes to its end and prints all its figures."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("engine", ["file", "rocksdb", "both"])
def test_it_prints_its_figures(tmp_path, engine: str) -> None:
    command = [sys.executable, "-m", "zenitmq.bench.scale.light_queues", "--queues", "50", "--messages", "300"]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "--engine", engine], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    document = json.loads(done.stdout)
    assert (document["light_queues"], document["messages"]) == (50, 300)
    for step in ("encode", "write", "read"):
        assert document[f"{step}_messages_per_second"] > 0
        assert document[f"{step}_cpu_us_a_message"] > 0
    assert document["queue_disk_bytes_a_queue"] > 0
