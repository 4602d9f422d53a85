"""Drills on real clusters: what was promised holds over a fault, and where it does not, the drill says so and fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from zenitmq.deploy.drills import run as drill_run
from zenitmq.deploy.drills.process_servers import ProcessServers
from zenitmq.deploy.drills.run import DrillOptions, run
from zenitmq.deploy.embedded_zookeeper import find_jars, find_java
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import RequirementMissing

from .one_fault import SECURE

COMMAND = (sys.executable, "-P", "-m", "zenitmq")


def has_zookeeper() -> bool:
    try:
        find_java()
        find_jars()
    except RequirementMissing:
        return False
    return True


needs_zookeeper = pytest.mark.skipif(not has_zookeeper(), reason="no ZooKeeper can run here")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where drills make their directories; nothing may be left in it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def left_in(work: Path) -> list[str]:
    return [path.name for path in work.iterdir() if path.name.startswith("zenit-drill")]


def small(name: str, **more: Any) -> DrillOptions:
    """A drill that takes seconds."""
    usual = {"drill": name, "rate": 400.0, "seconds": 0.3, "replicas": 1, "controllers": 1}
    return DrillOptions(**{**usual, "secure": SECURE and "directory" not in more, **more})


@needs_zookeeper
def test_a_secured_group_survives_its_masters_death(work: Path) -> None:
    """With keys, users and rights everywhere the promise is the same."""
    before = os.environ.get("ZENIT_KEY")
    told = run(small("kill-master", replicas=3, secure=True))
    assert told["passed"], told
    assert os.environ.get("ZENIT_KEY") == before


def test_power_that_fails_takes_nothing_that_was_synced(work: Path) -> None:
    told = run(small("power-cut-all", seed=11))
    assert told["passed"], told


def test_power_that_fails_takes_what_was_acknowledged_before_it_was_synced(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same drill without sync: it loses, as is documented, and the drill finds that, and keeps what shows it."""
    monkeypatch.setattr(drill_run, "SYNC_SETTINGS", ("store.flush_interval_ms=10000",))
    said: list[str] = []
    told = run(small("power-cut-all", seed=3), said.append)
    assert told["lost"] > 0
    assert not told["passed"]
    assert told["runs"][0]["examples"]
    (kept,) = left_in(work)
    assert said[-1] == f"its stores and logs are kept in {work / kept}"
    assert list((work / kept / "cluster" / "broker-a" / "commitlog").iterdir())
    assert list((work / kept / "cluster" / "log").glob("broker-a*"))


@needs_zookeeper
def test_another_replica_takes_over_from_a_killed_master(work: Path) -> None:
    told = run(small("kill-master", replicas=3, seconds=2.0))
    assert told["passed"], told
    (only,) = told["runs"]
    assert only["acknowledged"] > 800
    assert only["first_write_ms"] < 2_000  # before the killed one was started again
    assert left_in(work) == []


def test_a_killed_broker_comes_back_with_all_it_acknowledged_and_the_command_tells(work: Path) -> None:
    wishes = "--replicas 1 --seconds 0.3 --rate 400 --json --report".split()
    done = subprocess.run(
        [*COMMAND, "drill", "run", "kill-master", *wishes, str(work / "report")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    (only,) = told["runs"]
    assert (told["drill"], told["passed"], told["lost"]) == ("kill-master", True, 0)
    assert only["acknowledged"] > 400
    assert (only["lost"], only["changed"], only["reordered"]) == (0, 0, 0)
    assert 300 < only["first_write_ms"] <= only["longest_gap_ms"] + 20  # it was down for that long
    assert "kill: broker-a" in done.stderr
    assert json.loads((work / "report" / "kill-master.json").read_text()) == told
    ET.fromstring((work / "report" / "kill-master-1.svg").read_text())
    assert left_in(work) == []


def test_a_drill_that_is_interrupted_leaves_nothing(work: Path) -> None:
    arguments = ["drill", "run", "pause-master", "--replicas", "1", "--seconds", "30", "--rate", "200"]
    child = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        while "pause: broker-a" not in child.stderr.readline():
            assert child.poll() is None
        (directory,) = left_in(work)
        servers = ProcessServers(str(work / directory / "cluster"), replicas=1)
        pids = [process.pid for process in servers.listed()]
        child.send_signal(signal.SIGTERM)
        child.wait(40)
    finally:
        child.kill()
        child.wait()
        child.stderr.close()
    deadline_ms = monotonic_ms() + 5_000
    while any(os.path.exists(f"/proc/{pid}/cwd") for pid in pids) and monotonic_ms() < deadline_ms:
        sleep_ms(50)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}/cwd")]
    assert left_in(work) == []


def test_drills_are_listed() -> None:
    done = subprocess.run(
        [*COMMAND, "drill", "list", "--json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert {"kill-master", "random"} <= {drill["name"] for drill in json.loads(done.stdout)}
