"""`zenit drill`: what cannot be asked for is wrong usage. Exit code 1 means that a promise was broken."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from zenitmq.cli.main import WRONG_USAGE


def drill(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        "run nix",
        "run kill-master --runs 0",
        "run kill-master --rate 0",
        "run kill-master --size 1",
        "run kill-slave --replicas 1",
        "run kill-master --power",
        "run kill-master --minutes 4",
        "campaign --hours 0",
        "campaign --hours 1 --batch 0",
    ],
)
def test_what_cannot_be_asked_for_is_wrong_usage(arguments: str) -> None:
    done = drill(*arguments.split())
    assert done.returncode == WRONG_USAGE, done.stderr
    assert "drill run --help" in done.stderr or "drill campaign --help" in done.stderr


def test_the_list_says_what_a_drill_needs() -> None:
    needs = {row["name"]: row["needs"] for row in json.loads(drill("list", "--json").stdout)}
    assert needs["partition-replication"] == "root and iptables"
    compiled = ("power-cut-all", "hung-fsync", "full-disk-after-election")
    assert {needs[name] for name in compiled} == {"a C compiler"}
    assert needs["kill-master"] == ""


def test_the_help_tells_the_limits() -> None:
    assert "1<=x<=1000" in drill("run", "--help").stdout
    assert "0.001<=x<=720" in drill("campaign", "--help").stdout
