"""Benchmarks of engines, small: everything comes out, on each kind, and all of their figures are there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from zenitmq.bench import engines
from zenitmq.bench.measure import Load, measure
from zenitmq.bench.options import BenchOptions, BenchProgress
from zenitmq.bench.runner import run
from zenitmq.bench.works.e2e import ReceiveJob, ScheduleJob
from zenitmq.bench.works.thread_worker import ThreadWorker
from zenitmq.client.admin import Admin
from zenitmq.model.errors import InvalidParameter

KINDS = ["memory", "embedded", "local"]


def named(kind: str, tmp_path: Path) -> str:
    return "memory://bench-engines" if kind == "memory" else f"{kind}://{tmp_path}/store"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", ["produce", "consume", "e2e", "latency", "pop"])
def test_zenit_bench_runs_on_an_engine_with_loads_in_threads(kind: str, work: str, tmp_path: Path) -> None:
    options = BenchOptions(
        work=work, namesrv=named(kind, tmp_path), seconds=0.2, messages=2000 if work in ("consume", "pop") else 0,
        rate=1000, producers=2 if work == "produce" else 1, limit_seconds=0, directory=str(tmp_path),
    )  # fmt: skip
    document = run(options, lambda _: None).document
    assert document["work"] == work
    assert document["messages"] > 0
    assert document["cluster"]["namesrv"] == options.namesrv


def test_loads_in_the_middle_of_their_work_end_when_the_run_does(tmp_path: Path) -> None:
    """As Ctrl-C has it: nobody waits until all messages of the schedule are sent."""
    namesrv = named("memory", tmp_path)
    with Admin(namesrv) as admin:
        admin.create_topic("scheduled", queues=1)
        (queue,) = admin.queues("scheduled")
    sent = ScheduleJob(
        namesrv=namesrv, topic="scheduled", size=64, rate=500, seconds=60, samples_path=str(tmp_path / "sent.npy")
    )
    received = ReceiveJob(
        namesrv=namesrv, group="g", topic="scheduled", queues=[(queue.broker_name, queue.queue_id, 0)],
        messages=30_000, alone=True, push=False, samples_path=str(tmp_path / "received.npy"),
    )  # fmt: skip
    loads = [Load(role=role, job=job, samples_path="") for role, job in (("receive", received), ("schedule", sent))]
    begun: list[float] = []

    def interrupt(progress: BenchProgress) -> None:
        if progress.messages:
            begun.append(time.monotonic())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(loads, phase="e2e", seconds=60, report=interrupt, new_worker=ThreadWorker)
    assert time.monotonic() - begun[0] < 5
    assert not [thread for thread in threading.enumerate() if thread.name in ("bench-receive", "bench-schedule")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"work": "produce", "prebuilt": True}, "--prebuilt"),
        ({"work": "produce", "stages": True}, "--stages"),
        ({"work": "transactions"}, "this has no transactions"),
    ],
)
def test_what_needs_processes_or_is_lacking_is_refused(options: dict, told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=told):
        run(BenchOptions(namesrv=named("embedded", tmp_path), directory=str(tmp_path), **options), lambda _: None)


def test_the_command_takes_the_name_of_an_engine() -> None:
    zenit = str(Path(sys.executable).with_name("zenit"))
    command = [
        zenit,
        "bench",
        "produce",
        "--namesrv",
        "memory://x",
        "--seconds",
        "0.2",
        "--limit-seconds",
        "0",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cluster"]["namesrv"] == "memory://x"
    refused = subprocess.run([*command[:4], "local://x"], capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "local:///DIRECTORY" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_is_measured(kind: str, tmp_path: Path) -> None:
    name = named(kind, tmp_path)
    found = engines.measure(name, messages=1000, batch=100, sends=20)
    for way in ("send_batch_and_poll", "send_bodies_and_poll"):
        assert found[way]["messages_per_second"] > 0
        assert found[way]["cpu_us"] > 0
    assert 0 < found["send_us"]["p50"] <= found["send_us"]["max"]
