"""The image: small, without rights, ready soon, ended cleanly; what is wrong is said in one line."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers.container_cluster import wait_until
from containers.engine import run_docker

IMAGE_MB_MAX = 220
READY_S_MAX = 3.0
BUSY = 10  # this machine may be doing other things: what is asked of a quiet one, so many times


def run(image: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A container that ends by itself, with what it printed."""
    return run_docker("run", "--rm", "--init", "--read-only", *options, image, *arguments, check=False)


@pytest.fixture
def containers() -> Iterator[list[str]]:
    """Names of containers to be removed."""
    names: list[str] = []
    yield names
    for name in names:
        run_docker("rm", "--force", "--volumes", name, check=False)


def started(containers: list[str], image: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    made = run_docker("run", "--detach", "--init", "--read-only", *options, image, *arguments).stdout.strip()
    containers.append(made)
    return made


def test_it_is_small_and_runs_as_nobody(image: str) -> None:
    (facts,) = json.loads(run_docker("image", "inspect", image).stdout)
    assert facts["Size"] <= IMAGE_MB_MAX * 1_000_000
    assert facts["Config"]["User"] == "65532:65532"
    assert facts["Config"]["Entrypoint"] == ["zenit"]
    assert set(facts["Config"]["Volumes"]) == {"/var/lib/zenit", "/etc/zenit"}
    done = run(image, "--version")
    assert done.stdout.startswith("zenit ")
    assert "compiled" in done.stdout


IMPORT_ALL = """
import importlib, pkgutil, sys
import numpy, zenitmq
for module in pkgutil.walk_packages(zenitmq.__path__, "zenitmq."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print(error.name.partition(".")[0])
"""
OF_EXTRAS = {
    "pyspark",
    "pyarrow",
    "opentelemetry",
    "prometheus_client",
    "obstore",
    "pytest",
    "docker",
    "testcontainers",
}
OF_EXTRAS |= {"cython"}  # the kernel is compiled; its sources are there too


def test_each_module_can_be_imported_but_for_those_of_extras(image: str) -> None:
    """What is imported on demand too: a library that was pruned or stripped wrongly would end a broker at its first use."""
    done = run(image, "-c", IMPORT_ALL, options=("--entrypoint", "python3"))
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= OF_EXTRAS


@pytest.mark.parametrize("role", ["namesrv", "broker", "controller", "proxy"])
def test_a_role_is_ready_soon_and_ends_cleanly(
    image: str, zookeeper_image: str, containers: list[str], role: str
) -> None:
    """With -s it prints how soon."""
    options: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    if role == "controller":
        ensemble = run_docker("run", "--detach", zookeeper_image).stdout.strip()
        containers.append(ensemble)
        connect = ["exec", ensemble, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2181"]
        wait_until(lambda: run_docker(*connect, check=False).returncode == 0, "ZooKeeper takes connections")
        options = ("--network", f"container:{ensemble}")
        settings = ("--set", "host=127.0.0.1", "--set", "zookeeper=127.0.0.1:2181")
    elif role == "proxy":
        lone = started(containers, image, options=("--entrypoint", "zenit-lone"))
        wait_until(lambda: run_docker("exec", lone, "zenit", "cluster", check=False).returncode == 0, "a cluster")
        options = ("--network", f"container:{lone}", "--env", "ZENIT_METRICS__BIND=127.0.0.1:9885")
        settings = ("--set", "broker_port=12911")
    begin = time.monotonic()
    name = started(containers, image, role, *settings, options=options)
    while (told := run_docker("exec", name, "zenit-ready", check=False)).returncode:
        assert time.monotonic() < begin + READY_S_MAX * BUSY, told.stdout
    print(f"{role}: ready {time.monotonic() - begin:.2f} s after docker run")
    assert told.stdout.startswith("ready")
    run_docker("stop", "--time", "20", name)
    (facts,) = json.loads(run_docker("inspect", name).stdout)
    assert facts["State"]["ExitCode"] in (0, 143), run_docker("logs", name).stderr


def test_health_says_why_a_server_is_not_ready(image: str, containers: list[str]) -> None:
    name = started(containers, image, "controller", "--set", "zookeeper=127.0.0.1:1")
    said = ""
    for _ in range(100):
        told = run_docker("exec", name, "zenit-ready", check=False)
        assert told.returncode == 1
        said = told.stdout
        if "ZooKeeper" in said:
            break
    assert "no ZooKeeper" in said


SECURED = ("--set", "security.key=/etc/zenit/broker-a.key", "--set", "security.trusted=/etc/zenit/trusted.toml")


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that it printed: no traceback."""
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_missing_keys_are_named(image: str) -> None:
    said = one_line(run(image, "broker", *SECURED))
    assert "/etc/zenit/broker-a.key" in said
    assert "zenit key new" in said


def test_a_key_that_others_may_read_is_refused(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "broker-a.key").write_text("x")
    (tmp_path / "broker-a.key").chmod(0o644)
    said = one_line(run(image, "broker", *SECURED, options=("--volume", f"{tmp_path}:/etc/zenit:ro")))
    assert "chmod 600" in said or "chown 65532" in said


def test_a_volume_of_another_account_is_refused(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = run(image, "broker", options=("--volume", f"{tmp_path}:/var/lib/zenit"))
    said = one_line(done)
    assert "/var/lib/zenit" in said
    assert "Permission denied" in said


def test_a_taken_port_is_named(image: str, containers: list[str]) -> None:
    """Outside by the engine, inside by the server."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outside = run_docker("create", "--publish", f"127.0.0.1:{port}:9876", image, "namesrv")
        containers.append(outside.stdout.strip())
        refused = run_docker("start", outside.stdout.strip(), check=False)
        assert refused.returncode != 0
        assert str(port) in refused.stderr
    name = started(containers, image, "namesrv")
    for _ in range(100):
        if run_docker("exec", name, "zenit-ready", check=False).returncode == 0:
            break
    second = run_docker("exec", name, "zenit", "namesrv", "--set", "metrics.bind=", check=False)
    assert "9876" in one_line(second)
