"""The processes that are measured: a proxy, and its gRPC server alone, which shows what that leaves of a core."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from ...broker.statistics import read_anonymous_bytes
from ...model.clock import process_cpu_ns, sleep_ms
from ...model.errors import SystemFault
from ...proxy.config import ProxyConfig, ProxyLimits
from ...proxy.event_loop import run_on_loop
from ...proxy.grpc_server import GrpcServer
from ...proxy.schema import Method, enum_value, message_class, methods
from ...proxy.service import Proxy
from ...proxy.v2.calls import Answers
from ...proxy.v2.methods import CallFacts
from ..own_cluster import USAGE
from ..processes import WorkerChannel

START_MS: Final = 20_000
_LOOK_MS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyJob:
    """`namesrv`: of the cluster. `connections`: at most."""

    namesrv: str
    connections: int
    log_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BareJob:
    """`connections`: at most."""

    connections: int


def serve_proxy(job: ProxyJob, channel: WorkerChannel) -> None:
    """Runs a proxy until the parent closes the channel; ready with {"grpc": address, "remoting": address}."""
    logging.basicConfig(
        filename=job.log_path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    proxy = Proxy(
        ProxyConfig(
            namesrv=tuple(job.namesrv.split(",")),
            port=0,
            remoting_port=0,
            broker_port=0,
            drain_ms=0,
            limits=ProxyLimits(connections=job.connections),
        )
    )

    def addresses() -> dict[str, str]:
        for _ in range(START_MS // _LOOK_MS):
            if proxy.addresses:
                return proxy.addresses
            sleep_ms(_LOOK_MS)
        raise SystemFault(f"the proxy did not start: {job.log_path}")

    _watch(channel, addresses, proxy.stop)
    proxy.run()


class _BareMethods:
    """Answers all with the same message, and does nothing. See GrpcMethods."""

    def __init__(self) -> None:
        self._answer = message_class("SendMessageResponse")()
        self._answer.status.code = enum_value("Code", "OK")

    def all(self) -> list[Method]:
        return list(methods().values())

    def decode(self, method: Method, encoded: bytes) -> Any:  # noqa: ARG002
        return encoded

    async def unary(self, method: Method, facts: CallFacts, encoded: bytes) -> Any:  # noqa: ARG002
        return self._answer

    async def stream(self, method: Method, facts: CallFacts, encoded: bytes, answers: Answers) -> None:  # noqa: ARG002
        await answers.write(self._answer)

    async def telemetry(self, facts: CallFacts, commands: AsyncIterator[Any], answers: Answers) -> None:  # noqa: ARG002
        async for _ in commands:
            pass

    def drain(self) -> None:
        """Nobody has to go elsewhere."""


def serve_bare(job: BareJob, channel: WorkerChannel) -> None:
    """Runs the gRPC server of a proxy that does nothing, until the parent closes the channel; ready with {"grpc": address}."""

    async def serve() -> None:
        loop, ends = asyncio.get_running_loop(), asyncio.Event()
        config = ProxyConfig(port=0, remoting_port=-1, drain_ms=0, limits=ProxyLimits(connections=job.connections))
        server = GrpcServer(config, _BareMethods())
        _watch(channel, lambda: {"grpc": f"127.0.0.1:{server.port}"}, lambda: loop.call_soon_threadsafe(ends.set))
        await ends.wait()
        await server.drain(drain_ms=0)

    run_on_loop(serve())


def _watch(channel: WorkerChannel, facts: Callable[[], dict[str, str]], stop: Callable[[], object]) -> None:
    def watch() -> None:
        """Thread: tells what the process has used when asked; when the parent closes our input, stops the service."""
        try:
            channel.ready(facts())
            while word := channel.next_word():
                if word == USAGE:
                    channel.result({"cpu_seconds": process_cpu_ns() / 1e9, "memory_bytes": read_anonymous_bytes()})
        finally:
            stop()

    threading.Thread(target=watch, daemon=True).start()
