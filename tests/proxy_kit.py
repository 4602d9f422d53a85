"""A proxy in a thread of the test's process, and RocketMQ's own clients (proxy_clients) as processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from classic_kit import ClientScenario
from loop_kit import serving
from proxy_clients import DRIVERS, JAVA_CLIENT, java_driver, node_modules, python_client

from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.config import ProxyConfig
from zenitmq.proxy.grpc_server import serve

SCENARIOS = DRIVERS / "clients" / "python_client.py"
ZENIT = str(
    Path(sys.prefix, "bin", "zenit")
)  # the real one: a stand-in (forks) would not be the parent of its processes
CLIENT_S = 60.0


class ClientProcess:
    """One scenario of clients/python_client.py under way."""

    def __init__(self, endpoints: str, scenario: str, asked: dict[str, Any]) -> None:
        words = [str(python_client()), str(SCENARIOS), endpoints, scenario, json.dumps(asked)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_begun(self) -> None:
        """Until it says so."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "begun\n", line + self._errors()

    def result(self) -> Any:
        """What it saw."""
        out, errors = self.process.communicate(timeout=CLIENT_S)
        assert self.process.returncode == 0, errors[-4000:]
        return json.loads(out.splitlines()[-1])

    def _errors(self) -> str:
        self.process.kill()
        return self.process.communicate()[1][-4000:]


def run_client(endpoints: str, scenario: str, **asked: Any) -> Any:
    """What a scenario saw."""
    return ClientProcess(endpoints, scenario, asked).result()


def java_scenario(endpoints: str, scenario: str, **asked: object) -> ClientScenario:
    """Of RocketMQ's Java client of gRPC (proxy/java/GrpcScenario.java)."""
    command = java_driver(*JAVA_CLIENT, DRIVERS / "java" / "GrpcScenario.java")
    return ClientScenario(command, endpoints, scenario, **asked)


def node_scenario(endpoints: str, scenario: str, **asked: object) -> ClientScenario:
    """Of RocketMQ's Node client (proxy/node/scenario.js)."""
    command = ["env", f"NODE_PATH={node_modules()}", "node", str(DRIVERS / "node" / "scenario.js")]
    return ClientScenario(command, endpoints, scenario, **asked)


class ProxyProcesses:
    """`zenit proxy` with two processes that share a port."""

    def __init__(self, namesrv: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        settings = {"namesrv": namesrv, "port": port, "remoting_port": -1, "processes": 2, "drain_ms": 500}
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self.address = f"127.0.0.1:{port}"
        self._parent = subprocess.Popen([ZENIT, "proxy", *words], stderr=subprocess.PIPE, text=True)
        assert self._parent.stderr is not None
        for line in self._parent.stderr:
            if "proxy started" in line:
                break
        else:
            raise AssertionError("the proxy did not start")
        self._reader = threading.Thread(
            target=self._parent.stderr.read
        )  # so that it never waits for somebody who reads
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.terminate()
        self._parent.wait(20)
        self._reader.join(10)
        assert self._parent.stderr is not None
        self._parent.stderr.close()

    def kill_serving(self) -> int:
        """Kills those that have clients; how many. Others take their places."""
        children = Path(f"/proc/{self._parent.pid}/task/{self._parent.pid}/children").read_text().split()
        killed = [int(child) for child in children if self._connections(int(child))]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        return len(killed)

    def _connections(self, pid: int) -> int:
        """Of clients."""
        port = int(self.address.rpartition(":")[2])
        inodes = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        established = [row for row in rows if row[3] == "01" and int(row[1].rpartition(":")[2], 16) == port]
        return sum(f"socket:[{row[9]}]" in inodes for row in established)


@dataclass(frozen=True)
class Inside:
    """Of a proxy in a thread, whose event loop it is."""

    backs: Backs
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of what is done there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)


@contextmanager
def running_proxy(
    namesrv: str, *, is_tls: bool = False, inside: list[Inside] | None = None, **settings: Any
) -> Iterator[str]:
    """A proxy in a thread; yields its address, or that for TLS. `inside`: gets what is in that thread."""
    config = ProxyConfig(namesrv=(namesrv,), port=0, remoting_port=-1, drain_ms=200, **settings)

    @asynccontextmanager
    async def opening() -> AsyncIterator[str]:
        async with Backs(config) as backs, serve(config, backs) as server:
            if inside is not None:
                inside.append(Inside(backs, asyncio.get_running_loop()))
            yield f"127.0.0.1:{server.tls_port if is_tls else server.port}"

    with serving("proxy", opening) as address:
        yield address
