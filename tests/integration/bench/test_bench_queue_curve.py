"""The benchmark of throughput over the number of queues, on a few: it comes to its end, prints its figures and draws them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_it_prints_its_figures(tmp_path: Path, engine: str) -> None:
    sizes = ["--counts", "10,40", "--seconds", "1", "--batch", "8", "--segment-mib", "1", "--log-gib", "0.002"]
    picture = tmp_path / "curve.svg"
    command = [
        sys.executable,
        "-m",
        "zenitmq.bench.scale.queue_curve",
        *sizes,
        "--engine",
        engine,
        "--plot",
        str(picture),
    ]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    points = json.loads(done.stdout)["points"]
    assert [(point["queues"], point["engine"]) for point in points] == [(10, engine), (40, engine)]
    for point in points:
        assert len(point["stretches"]) == 10
        assert min(min(stretch.values()) for stretch in point["stretches"]) > 0
        assert -3 < point["drift"] < 3
        assert min(point["messages"], point["messages_per_second"], point["start_seconds"]) > 0
        assert 1 << 20 < point["memory_bytes"]["topics"] < 1 << 30
    assert picture.read_text().startswith("<svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.svg"]
