"""`zenit bench backup`, in small: each of its parts runs, and says how fast."""

from __future__ import annotations

from pathlib import Path

from zenitmq.bench.options import BenchOptions
from zenitmq.cli.bench.bench_backup import run_backup


def test_each_part_is_measured(tmp_path: Path) -> None:
    phases: list[str] = []
    options = BenchOptions(work="backup", log_gib=0.02, size=1024, directory=str(tmp_path))
    document = run_backup(options, lambda progress: phases.append(progress.phase))
    assert {"fill", "backup", "verify", "restore"} <= set(phases)
    assert document["log_bytes"] > 20_000_000
    assert all(document[f"{part}_bytes_per_second"] > 0 for part in ("backup", "verify", "restore"))
    assert not list(tmp_path.iterdir())
