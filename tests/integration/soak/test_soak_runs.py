"""A short soak: everything takes part, nothing is lost; one that is interrupted ends with an account too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).parents[3]
SEED = 3
CLIENTS = {
    *("producers", "push", "pull", "churn", "aio-sending", "aio-reading", "asking", "answering", "passing", "stream"),
    "watching",
    *("visitor-0", "spark-java", "broker-a-1", "broker-a-2", "broker-a-3", "controller-1", "zookeeper", "namesrv-1"),
}
GROUPS = {"aio-members", "copy-readers", "in-order", "later-readers", "passers", "pullers", "pushers"}


def command(report: Path, seconds: float, *more: str) -> list[str]:
    chosen = ["--hours", str(seconds / 3600), "--seed", str(SEED), "--report", str(report)]
    return [sys.executable, "-m", "tests.soak", *chosen, *more]


def test_a_short_one_loses_nothing_and_tells_of_every_process(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, 45), cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    account = json.loads((tmp_path / "soak.json").read_text())
    messages = account["messages"]
    assert account["passed"], messages["examples"]
    assert messages["acknowledged"] > 1000
    assert set(messages["handled"]) == GROUPS
    assert messages["delayed"]["handled"] > 0
    assert messages["delayed"]["recalled"] > 0
    assert messages["requests"]["outcomes"]["ok"] > 10
    assert messages["away"]
    assert {life["name"] for life in account["lives"]} >= CLIENTS
    restarted = {away["broker"] for away in messages["away"]}
    assert restarted == {life["name"] for life in account["lives"] if "broker" in life["name"] and life["life"] > 1}
    assert "passed" in (tmp_path / "soak.html").read_text()
    assert (tmp_path / "soak.svg").read_text().startswith("<svg")
    assert not (tmp_path / "work").exists()


def test_an_interrupt_ends_everything_with_an_account(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, 600, "--no-stream"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any("the load has begun" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=200)
    assert process.returncode == 130, told
    account = json.loads((tmp_path / "soak.json").read_text())
    assert (account["ended"], account["interrupted"], account["passed"]) == (True, True, True), told
    assert account["seconds"] < 600
    assert not _started_in(tmp_path)


def _started_in(directory: Path) -> list[str]:
    """The processes whose command or environment names a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            told = (process / "cmdline").read_text(errors="replace") + (process / "environ").read_text(errors="replace")
            if str(directory) in told and process.name != str(os.getpid()):
                found.append(told)
    return found
