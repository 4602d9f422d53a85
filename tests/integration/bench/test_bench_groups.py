"""The works that need a replica group start one, measure, and leave nothing behind."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from zenitmq.bench.options import BenchOptions, BenchProgress
from zenitmq.bench.own_cluster import LogFiles, spare_files
from zenitmq.bench.raw.raw_path import RawPath, RawShape
from zenitmq.bench.runner import run
from zenitmq.cli.bench import bench_replicas
from zenitmq.cli.bench.bench_catch_up import run_catch_up
from zenitmq.cli.bench.bench_replicas import run_on_replicas
from zenitmq.model.errors import InvalidParameter


@pytest.mark.timeout(180)
def test_a_group_is_measured_beside_a_single_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm: all replicas have expired files to write over before the clock starts, as the single broker has."""
    files = LogFiles(segment_bytes=4 << 20, retained_bytes=8 << 20, pool_segments=4, index_entries=20_000)
    monkeypatch.setattr(bench_replicas, "GROUP_FILES", files)
    monkeypatch.setattr(bench_replicas, "run", partial(run, files=files))
    touched: set[str] = set()
    cache_spares = bench_replicas.cache_spares

    def cache(store_directory: str) -> None:
        assert spare_files(store_directory)
        touched.add(store_directory)
        cache_spares(store_directory)

    monkeypatch.setattr(bench_replicas, "cache_spares", cache)
    told: list[BenchProgress] = []
    options = BenchOptions(
        work="produce", prebuilt=True, size=1024, seconds=0.5, limit_seconds=0.1, queues=2, warm=True,
        directory=str(tmp_path),
    )  # fmt: skip
    document = run_on_replicas(options, 2, told.append).document
    assert document["replicas"] == len(touched) == 2
    assert str(document["pages"]).startswith("warm")
    assert document["messages"]
    single = document["single"]
    assert isinstance(single, dict)
    assert document["share_of_single"] == pytest.approx(
        float(str(document["messages_per_second"])) / single["messages_per_second"], abs=0.01
    )
    limits = [document["limit"], single["limit"]]
    assert ["held by 2 processes" in limit["of"] for limit in limits if isinstance(limit, dict)] == [True, False]
    assert document["share_of_limit"]
    assert sum(progress.phase == "start cluster" for progress in told) == 1, "the group is started by zenit up"
    assert os.listdir(tmp_path) == []


def test_the_raw_path_s_copies_hold_what_its_server_has_answered(tmp_path: Path) -> None:
    with RawPath(str(tmp_path), warm=False, sync=False, seconds=0.2, copies=2) as raw:
        shape = RawShape(size=1024, batch=64, in_flight=4)
        found = raw.measure(shape, seconds=0.2, phase="raw", report=lambda _: None)
        files = [(tmp_path / place / "raw-000").read_bytes() for place in ("", "copy-0", "copy-1")]
        assert found.messages_per_second > 0
        assert files[0] == files[1] == files[2]
        assert len(files[0].rstrip(b"\0")) >= min(found.messages * 1024, 100 << 20)
    assert list(tmp_path.rglob("raw-*")) == []


@pytest.mark.timeout(180)
def test_a_wiped_slave_catches_up_while_the_master_serves(tmp_path: Path) -> None:
    told: list[BenchProgress] = []
    options = BenchOptions(work="catch-up", log_gib=0.01, directory=str(tmp_path))
    document = run_catch_up(options, 2, told.append)
    assert document["log_bytes"] > 0.01 * (1 << 30)
    assert document["bytes_per_second"] == pytest.approx(document["log_bytes"] / document["seconds"], rel=0.01)
    assert document["sends"] > 0
    assert document["latency_us"]["p99"] > 0
    assert os.listdir(tmp_path) == []


def test_a_group_is_for_works_that_write_and_is_started_for_the_run() -> None:
    with pytest.raises(InvalidParameter):
        run_on_replicas(BenchOptions(work="consume"), 3, lambda _: None)
    with pytest.raises(InvalidParameter):
        run_on_replicas(BenchOptions(work="produce", namesrv="127.0.0.1:1"), 3, lambda _: None)
    with pytest.raises(InvalidParameter):
        run(BenchOptions(work="catch-up"), lambda _: None)
