"""The benchmark of lite topics, on few: it comes to its end and prints all its figures."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_it_prints_its_figures(tmp_path, engine: str) -> None:
    command = [sys.executable, "-m", "zenitmq.bench.scale.lite_topics", "--engine", engine]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "--topics", "50", "--messages", "2000"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    document = json.loads(done.stdout)
    assert (document["topics"], document["messages"], document["engine"]) == (50, 2000, engine)
    for part in ("written", "subscribed", "read"):
        assert document[part]["messages_per_second"] > 0
    assert document["broker_memory_bytes"] > 0
