"""deploy/compose.yaml: one command up, one down, and in between what docs/containers.md says, and a drill."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import grpc
import pytest
from classic_kit import BareClient
from containers.container_cluster import wait_until
from containers.engine import REQUIRED, ROOT, build, run_docker
from grpc_kit import Caller, send_of, signed
from integration.docs.pages import blocks

from zenitmq.deploy.processes import port_is_free
from zenitmq.proxy.classic.codes import ClassicStatus
from zenitmq.proxy.v2.status import Code
from zenitmq.testing.containers import free_ports

PAGE = ROOT / "docs" / "containers.md"
FILE = ROOT / "deploy" / "compose.yaml"
TOLD = "docker compose -p zenit -f deploy/compose.yaml "
COMMAND_S = 180


def compose_command() -> list[str]:
    """As it is installed here: the engine's plug-in, or Debian's program."""
    if run_docker("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    assert not os.environ.get(REQUIRED), "neither docker compose nor docker-compose is installed"
    pytest.skip("neither docker compose nor docker-compose is installed")


def free_beginning() -> str:
    """Two digits with which the ports of the file's servers are free."""
    ends = re.findall(r"\$\{ZENIT_PORTS:-19\}(\d{3}):", FILE.read_text("utf-8"))
    assert ends
    return next(str(two) for two in range(20, 32) if all(port_is_free(int(f"{two}{end}")) for end in ends))


class Project:
    """The cluster of the file, under a name of the test's own."""

    def __init__(self, image: str, zookeeper_image: str) -> None:
        self.name = f"zenit-{secrets.token_hex(4)}"
        (self.prometheus_port,) = free_ports(1)
        self._command = compose_command()
        self.ports = free_beginning()
        self._environ = {
            **os.environ,
            "ZENIT_IMAGE": image,
            "ZENIT_ZOOKEEPER_IMAGE": zookeeper_image,
            "ZENIT_PROMETHEUS_PORT": str(self.prometheus_port),
            "ZENIT_PORTS": self.ports,
        }

    def run(self, arguments: str) -> str:
        done = subprocess.run(
            [*self._command, "-p", self.name, "-f", "deploy/compose.yaml", *arguments.split()],
            cwd=ROOT,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def left_of(name: str) -> str:
    """Containers, networks and volumes of a project."""
    mine = f"label=com.docker.compose.project={name}"
    found = [
        run_docker(kind, "ls", *options, "--quiet", "--filter", mine).stdout
        for kind, options in (("container", ["--all"]), ("network", []), ("volume", []))
    ]
    return "".join(found)


def told_commands() -> list[str]:
    """What the page tells to do with the file: up, some more, down."""
    told = [line for text in blocks(PAGE, "text") for line in text.splitlines() if line.startswith(TOLD)]
    return [line.removeprefix(TOLD) for line in told]


@pytest.fixture(scope="module")
def project(image: str, zookeeper_image: str) -> Iterator[Project]:
    """It is up; afterwards it is down, and nothing of it is left."""
    build("deploy/image/prometheus/build.sh")
    made = Project(image, zookeeper_image)
    up, *_, down = told_commands()
    assert (up, down) == ("up -d", "down -v")
    try:
        made.run(up)
        yield made
    finally:
        made.run(down)
    assert not left_of(made.name)


def test_the_cluster_of_the_page_comes_up_secured_and_goes_without_a_trace(project: Project) -> None:
    _, *middle, _ = told_commands()
    assert len(middle) > 1
    printed = {line.removeprefix("run --rm client "): project.run(line) for line in middle}
    for name in ("broker-a", "broker-b"):
        assert name in printed["cluster"], "zenit cluster prints the masters of both groups"
    with grpc.insecure_channel(f"127.0.0.1:{project.ports}081") as channel:
        caller = Caller(channel)
        assert caller.ask("SendMessage", send_of("orders", b"x")).status.code == Code.UNAUTHORIZED
        signed(caller, "shop", printed["user secret shop"].split()[-1])
        assert caller.ask("SendMessage", send_of("orders", b"x")).status.code == Code.OK
    with BareClient(int(f"{project.ports}080")) as client:
        assert client.ask(105, topic="orders").code == ClassicStatus.NO_PERMISSION

    def is_scraped() -> bool:
        address = f"http://127.0.0.1:{project.prometheus_port}/api/v1/query?query=sum(zenit_replica_is_master)"
        with urllib.request.urlopen(address, timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
        return bool(result) and result[0]["value"][1] == "2"

    wait_until(is_scraped, "Prometheus has seen the masters of both groups")


def test_a_drill_takes_the_network_from_a_master_and_a_slave_and_nothing_is_lost(project: Project) -> None:
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "run", "cut-off", "--compose", project.name]
    done = subprocess.run(
        [*command, "--seconds", "3", "--rate", "300", "--json"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["passed"], told["lost"], told["replicas"]) == (True, 0, 3)
    (run,) = told["runs"]
    assert run["logs"] == "not compared"
    assert [fault["kind"] for fault in run["faults"]] == ["cut off: master", "cut off: slave"]
    assert told["acknowledged"] > 1000
    states = run_docker(
        "ps", "--filter", f"label=com.docker.compose.project={project.name}", "--format", "{{.Networks}}"
    )
    assert set(states.stdout.split()) == {f"{project.name}_default"}
