"""A proxy in a thread of the test's process, and RocketMQ's own clients (proxy_clients) as processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy_clients import python_client

from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.config import ProxyConfig
from zenitmq.proxy.event_loop import run_on_loop
from zenitmq.proxy.grpc_server import serve

SCENARIOS = Path(__file__).parent / "proxy" / "clients" / "python_client.py"
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


@contextmanager
def running_proxy(namesrv: str, *, is_tls: bool = False, **settings: Any) -> Iterator[str]:
    """A proxy in a thread; yields its address, or that for TLS."""
    config = ProxyConfig(namesrv=(namesrv,), port=0, remoting_port=-1, drain_ms=200, **settings)
    started: list[str] = []
    is_up, ends = threading.Event(), threading.Event()

    async def work() -> None:
        async with Backs(config) as backs, serve(config, backs) as server:
            started.append(f"127.0.0.1:{server.tls_port if is_tls else server.port}")
            is_up.set()
            while not ends.is_set():
                await asyncio.sleep(0.02)

    def run() -> None:
        try:
            run_on_loop(work())
        finally:
            is_up.set()

    thread = threading.Thread(target=run, name="proxy")
    thread.start()
    is_up.wait(10)
    try:
        assert started, "the proxy did not start"
        yield started[0]
    finally:
        ends.set()
        thread.join(10)
