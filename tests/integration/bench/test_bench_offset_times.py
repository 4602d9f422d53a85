"""The benchmark of offsets by time, on a short queue: its answers are checked, and it prints its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_it_prints_its_figures(tmp_path: Path, engine: str) -> None:
    command = [sys.executable, "-m", "zenitmq.bench.scale.offset_times", "--engine", engine]
    command += ["--messages", "50000", "--queries", "200"]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    document = json.loads(done.stdout)
    assert (document["engine"], document["messages"]) == (engine, 50_000)
    for name in ("search", "max_offset"):
        assert 0 < document[name]["p50"] <= document[name]["max"]
