"""A `zenit up` that fails changes nothing: neither files nor settings, and no process of it is left."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.processes import port_is_free

ZENIT = str(Path(sys.executable).with_name("zenit"))
SMALL_STORE = ("--set", "store.segment_bytes=16777216", "--set", "store.index_slots=4096")


class Home:
    """A user with a directory for a cluster."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "cluster"
        self.environ = {**os.environ, "HOME": str(home)}
        self.environ.pop("ZENIT_NAMESRV", None)

    def zenit(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [ZENIT, *arguments]
        return subprocess.run(
            command, env=self.environ | environ, capture_output=True, text=True, timeout=120, check=False
        )

    def up(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.zenit("up", "--dir", str(self.directory), "--detach", *arguments, **environ)

    def record(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.directory / "cluster.json").read_text())
        return document


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.zenit("down", "--dir", str(made.directory))


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--set bogus=1", "bogus"),
        ("--set store.segment_bites=1", "the nearest is store.segment_bytes"),
        ("--set store.segment_bytes=7", "store.segment_bytes"),
        ("--set store.flush_mode=maybe", "store.flush_mode"),
        ("--set nothing", "key=value"),
        ("--set dead_after_ms=9000", "of the controller, which takes it from $ZENIT_CONTROLLER__DEAD_AFTER_MS"),
        ("--set publish_port=1", "of the namesrv"),
        ("--set name=b", "a key that `up` does not decide itself"),
        ("--set port=70000", "port"),
        ("--replicas 3 --set port=12000", "a key that `up` does not decide itself"),
        ("--replicas 2 --no-controller --set static_min_in_sync=3", "at most 2"),
        ("--namesrv-port 0", "--namesrv-port"),
        ("--namesrv-port 65536", "--namesrv-port"),
    ],
)
def test_a_wrong_setting_is_told_before_anything_is_written(arguments: str, says: str, home: Home) -> None:
    done = home.up(*arguments.split())
    assert (done.returncode, done.stderr.count("\n"), says in done.stderr) == (2, 1, True), done.stderr
    assert not home.directory.exists()


def test_a_port_that_is_taken_too(home: Home) -> None:
    with taken_port() as port:
        for arguments in (("--set", f"port={port}"), ("--namesrv-port", str(port))):
            done = home.up(*arguments)
            assert (done.returncode, "taken by another process" in done.stderr) == (2, True), done.stderr
    assert not home.directory.exists()


@pytest.mark.parametrize("variable", ["ZENIT_BROKER__BOGUS", "ZENIT_NAMESRV__BOGUS"])
def test_a_wrong_setting_of_the_environment_too(variable: str, home: Home) -> None:
    done = home.up(**{variable: "1"})
    assert (done.returncode, variable in done.stderr) == (1, True), done.stderr
    assert not home.directory.exists()


def test_after_a_wrong_setting_the_cluster_starts_with_those_it_had(home: Home) -> None:
    assert home.up(*SMALL_STORE).returncode == 0
    before = home.record()
    for setting in ("bogus=1", "port=-1"):
        assert home.up("--set", setting).returncode == 2
        assert home.record() == before
    home.zenit("down", "--dir", str(home.directory))
    assert home.up().returncode == 0
    assert [p.get("settings") for p in home.record()["processes"]] == [p.get("settings") for p in before["processes"]]


NO_ADDRESS_OF_OURS = "listen_host=192.0.2.1"  # of documentation: nobody can listen there


def test_one_that_fails_while_it_starts_changes_nothing(home: Home) -> None:
    """No process is left, nor what it was asked for: the next one starts as if there had been no other."""
    done = home.up(*SMALL_STORE, "--set", NO_ADDRESS_OF_OURS)
    assert (done.returncode, done.stderr.count("zenit: ")) == (1, 1), done.stderr
    assert home.zenit("status", "--dir", str(home.directory)).stderr.count("zenit up") == 1
    done = home.up(*SMALL_STORE)
    assert done.returncode == 0, done.stderr
    home.zenit("down", "--dir", str(home.directory))
    before = home.record()
    assert home.up("--set", NO_ADDRESS_OF_OURS).returncode == 1
    assert home.record() == before
    assert home.up().returncode == 0


def test_the_port_of_the_name_server_can_be_chosen(home: Home) -> None:
    """It is kept, and never chosen around; a name server that runs on another port is started anew."""
    assert home.up(*SMALL_STORE).returncode == 0
    wanted = next(port for port in range(20_000, 30_000, 10) if port_is_free(port) and port_is_free(port + 1))
    done = home.up("--namesrv-port", str(wanted))
    assert done.returncode == 0, done.stderr
    assert home.record()["namesrv"] == f"127.0.0.1:{wanted}"
    assert home.zenit("topic", "list", "--namesrv", f"127.0.0.1:{wanted}").returncode == 0
    home.zenit("down", "--dir", str(home.directory))
    assert home.up().returncode == 0
    assert home.record()["namesrv"] == f"127.0.0.1:{wanted}"
