"""deploy/controller.sh: a controller that leads, waits when ZooKeeper is gone, says so once, and ends on SIGTERM."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from zenitmq.deploy.embedded_zookeeper import start_zookeeper, stop_zookeeper
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import ZenitError
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import ControllerReply, GetController

SCRIPT = str(Path(__file__).parents[3] / "deploy" / "controller.sh")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def await_that(condition: Callable[[], bool], within_ms: int = 20_000) -> None:
    deadline_ms = monotonic_ms() + within_ms
    while True:
        with contextlib.suppress(ZenitError):
            if condition():
                return
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(50)


def test_it_leads_waits_and_ends(tmp_path: Path) -> None:
    port, zookeeper_port = free_port(), free_port()
    address, log = f"127.0.0.1:{port}", tmp_path / "log"
    environment = os.environ | {
        "ZENIT_CONTROLLER__PORT": str(port),
        "ZENIT_CONTROLLER__ZOOKEEPER": f"127.0.0.1:{zookeeper_port}",
    }
    server = start_zookeeper(str(tmp_path / "zookeeper"), zookeeper_port)
    command = [SCRIPT, "--set", "session_timeout_ms=1500"]
    with (
        RemotingClient() as client,
        open(log, "ab") as stream,
        subprocess.Popen(command, env=environment, stderr=stream) as process,
    ):

        def leader() -> str:
            reply, _ = client.call(address, GetController(), timeout_ms=1000)
            assert isinstance(reply, ControllerReply)
            return reply.leader

        try:
            await_that(lambda: leader() == address)
            stop_zookeeper(server)
            await_that(lambda: leader() == "")
            sleep_ms(5000)
            server = start_zookeeper(str(tmp_path / "zookeeper"), zookeeper_port)
            await_that(lambda: leader() == address)
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            stop_zookeeper(server)
    said = log.read_text()
    assert said.count("the connection is lost, waiting for it") == 1
    assert said.count("leading controllers=") == 2
    assert "Traceback" not in said
    assert len(said.splitlines()) < 25, "what goes on for a while is said once"


def test_a_wrong_configuration_ends_it_with_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "--set", "zookeepers=a:1"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the nearest is zookeeper" in done.stderr


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [SCRIPT, "--set", f"port={port}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert str(port) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
