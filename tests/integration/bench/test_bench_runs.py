"""Each work runs end to end on a cluster of its own, tells the promised figures, and leaves nothing behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from zenitmq.bench.options import BenchProgress
from zenitmq.bench.own_cluster import LogFiles
from zenitmq.bench.runner import USUAL_FILES, BenchOptions, run
from zenitmq.bench.target import opened_target
from zenitmq.model.errors import InvalidParameter
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

SHORT = {"seconds": 0.4, "limit_seconds": 0.1, "own_cluster": True, "queues": 2}


def bench(
    tmp_path: Path,
    files: LogFiles = USUAL_FILES,
    **options: Any,
) -> tuple[dict[str, Any], list[BenchProgress]]:
    told: list[BenchProgress] = []
    result = run(BenchOptions(directory=str(tmp_path), **options), told.append, files=files)
    ET.fromstring(result.svg)
    assert os.listdir(tmp_path) == []
    return json.loads(json.dumps(result.document)), told


def test_limits_need_no_cluster(tmp_path: Path) -> None:
    document, _ = bench(tmp_path, work="limits", seconds=0.1)
    table = document["limits"]
    assert set(table) == {
        "write_cold",
        "write_warm",
        "singles_warm",
        "round_trip_warm",
        "read_warm",
        "fdatasync_64_kib",
    }
    assert all(figures["latency_us"]["p50"] > 0 for figures in table.values())
    assert document["messages"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"prebuilt": True, "stages": True, "keys": 1, "tags": True},
        {"prebuilt": True, "batch": 1, "in_flight": 64},
        {"api": "post", "producers": 2},
        {"api": "send_async", "stages": True},
        {"api": "send_batch", "batch": 16},
        {"api": "send_bodies", "batch": 16, "flush": "sync"},
        {"api": "send", "in_flight": 4},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_produce_by_every_road(tmp_path: Path, options: dict[str, Any]) -> None:
    document, told = bench(tmp_path, work="produce", **(SHORT | options))
    assert document["messages"] > 0
    assert document["messages_per_second"] > 0
    assert document["share_of_limit"] > 0
    assert document["broker_cpu_seconds_per_million"] >= 0
    assert document["broker_memory_bytes"] > 0
    assert told[0].phase == "start cluster"
    assert document["latency_us"]["p50"] > 0
    if options.get("stages"):
        assert set(document["stages"]["client"]) == {"build", "encode", "send", "queue"}
        assert {"receive", "stage", "write", "reply", "dispatch"} <= set(document["stages"]["broker"])
    if options.get("flush") == "sync":
        assert document["fdatasync_us"]["p50"] > 0


@pytest.mark.parametrize("untouched", [False, True])
def test_consume_reads_the_whole_backlog(tmp_path: Path, untouched: bool) -> None:
    document, _ = bench(tmp_path, work="consume", messages=20_000, consumers=2, untouched=untouched, **SHORT)
    assert document["messages"] >= 20_000 - 255
    assert document["bytes_per_second"] == pytest.approx(128 * document["messages_per_second"], rel=0.01)


def test_latency_is_told_beside_the_raw_round_trips_between(tmp_path: Path) -> None:
    document, _ = bench(tmp_path, work="latency", **SHORT)
    assert document["latency_us"]["p50"] > 0
    assert document["raw_latency_us"]["p50"] > 0
    assert document["ratio_to_raw"]["p50"] > 0.5


def test_stages_of_a_send_add_up_to_it(tmp_path: Path) -> None:
    document, _ = bench(tmp_path, work="latency", stages=True, **(SHORT | {"own_cluster": False}))
    stages = document["stages"]
    assert document["cluster"]["started_for_this"]  # whatever runs here: another broker has no stamps
    for table in (stages["us"], stages["raw_us"]):
        parts = [time for name, time in table.items() if name != "all"]
        assert sum(parts) == pytest.approx(table["all"], abs=0.5)
        assert min(parts) >= 0
    assert stages["us"]["all"] == pytest.approx(document["latency_us"]["p50"], rel=0.2)
    assert stages["trips"]["shown"] > document["messages"] / 2
    assert stages["share_of_raw"]["all"] > 0.5
    threads = stages["threads_us"]
    assert set(threads) == {"client", "client's I/O", "broker's I/O", "broker's loop"}
    assert threads["client's I/O"]["on_core"] == pytest.approx(
        0, abs=2
    )  # a caller's thread writes to the network itself
    working = [threads[name] for name in threads if name != "client's I/O"]
    assert all(times["on_core"] > 0 for times in (*working, *stages["raw_threads_us"].values()))


def test_many_single_requests_in_flight_have_stages_of_the_loop(tmp_path: Path) -> None:
    document, _ = bench(tmp_path, work="latency", stages=True, in_flight=16, **SHORT)
    assert document["in_flight"] == 16
    assert document["messages"] > 0
    assert 0 < document["share_of_raw"] < 2
    stages = document["stages"]
    loop = stages["us"]["broker: its loop in all"]
    assert 0 < stages["us"]["broker: check, stamp, place"] < loop
    assert stages["threads_us"]["broker's loop"]["on_core"] == pytest.approx(loop, abs=0.1)


@pytest.mark.parametrize("at_a_time", [1, 32, 100])
def test_pop_counts_what_was_acknowledged(tmp_path: Path, at_a_time: int) -> None:
    document, _ = bench(tmp_path, work="pop", messages=1_000, consumers=2, at_a_time=at_a_time, **SHORT)
    assert 0 < document["messages"] < 1_000 + 9 * 256  # batches that were under way when there were enough
    assert document["latency_us"]["p50"] > 0
    assert document["broker_cpu_seconds_per_million"] > 0


def test_who_stands_still_holds_up_only_what_it_has(tmp_path: Path) -> None:
    options = {**SHORT, "seconds": 3.0}
    document, _ = bench(tmp_path, work="pop", consumers=2, at_a_time=32, stalled=1, **options)
    stall = document["stall"]
    assert stall["stalled"] == 1
    assert stall["messages_per_second_of_the_others"] > 0
    with pytest.raises(InvalidParameter, match="fewer than the 2"):
        BenchOptions(work="pop", consumers=2, stalled=2)


@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
def test_transactions_count_what_was_committed(tmp_path: Path, tasks: bool) -> None:
    document, _ = bench(tmp_path, work="transactions", asyncio=tasks, **SHORT)
    assert document["api"] == ("asyncio" if tasks else None)
    assert document["messages"] >= document["in_flight"] == 16
    assert document["latency_us"]["p50"] > 0


@pytest.mark.parametrize("push", [False, True])
def test_e2e_keeps_its_schedule_and_loses_nothing(tmp_path: Path, push: bool) -> None:
    document, _ = bench(tmp_path, work="e2e", rate=1000, push=push, **SHORT)
    assert ("consumer_idle_cpu" in document) == push
    assert 0 <= document.get("consumer_idle_cpu", 0) < 1
    assert document["messages"] == 400
    assert document["latency_us"]["max"] >= document["latency_us"]["p50"] > 0
    assert document["share_of_limit"] is None


def test_restart_after_a_kill_keeps_everything(tmp_path: Path) -> None:
    document, _ = bench(tmp_path, work="restart", log_gib=0.02, **SHORT)
    assert document["kept"] >= document["messages"]
    assert document["ready_seconds"] > 0


def test_spark_measures_a_cluster_whatever_its_flush_mode(tmp_path: Path) -> None:
    """It has no option for it, which could be wrong."""
    with LocalCluster(settings=(*SMALL_STORE, "store.flush_mode=sync")) as cluster:
        options = BenchOptions(work="spark", namesrv=cluster.namesrv, queues=2)
        with opened_target(options, str(tmp_path), USUAL_FILES, lambda _: None) as target:
            assert len(target.write_queues()) == 2
        produce = BenchOptions(work="produce", namesrv=cluster.namesrv)
        with pytest.raises(InvalidParameter, match="flush"), opened_target(produce, "", USUAL_FILES, lambda _: None):
            pass


def test_a_warm_run_writes_over_recycled_segments(tmp_path: Path) -> None:
    """The pool is made by filling a log and letting it expire; the document tells how large it became."""
    files = LogFiles(segment_bytes=4 << 20, retained_bytes=8 << 20, pool_segments=4, index_entries=20_000)
    document, _ = bench(tmp_path, work="produce", warm=True, files=files, **SHORT)
    assert document["messages"] > 0
    assert document["pages"].startswith("warm")
    assert document["warm_up"]["segment_bytes"] == 4 << 20
    assert document["warm_up"]["filled_bytes"] == (8 << 20) + 5 * (4 << 20)
    assert document["warm_up"]["settled_bytes"] == 16 << 20
    assert 3 <= document["warm_up"]["recycled_segments"] <= 4
    assert document["warm_up"]["recycled_index_files"] >= 1
