"""The processes that are measured: a proxy, and a gRPC server that only answers, which shows what grpcio leaves of a core."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc import aio

from ...broker.statistics import read_anonymous_bytes
from ...model.clock import process_cpu_ns, sleep_ms
from ...model.errors import SystemFault
from ...proxy.config import ProxyConfig, ProxyLimits
from ...proxy.event_loop import run_on_loop
from ...proxy.schema import SERVICE, enum_value, message_class
from ...proxy.service import Proxy
from ..own_cluster import USAGE
from ..processes import WorkerChannel

START_MS: Final = 20_000
_LOOK_MS: Final = 10
_BARE_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyJob:
    """`namesrv`: of the cluster. `connections`: at most."""

    namesrv: str
    connections: int
    log_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BareJob:
    """There is nothing to say."""


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


def serve_bare(_: BareJob, channel: WorkerChannel) -> None:
    """Runs a gRPC server that answers sends and heartbeats with the same bytes; ready with {"grpc": address}."""
    answer = message_class("SendMessageResponse")()
    answer.status.code = enum_value("Code", "OK")
    encoded: bytes = answer.SerializeToString()

    async def respond(_: bytes, __: Any) -> bytes:
        return encoded

    async def listen(commands: AsyncIterator[bytes], _: Any) -> None:
        async for _command in commands:
            pass

    async def serve() -> None:
        loop, ends = asyncio.get_running_loop(), asyncio.Event()
        server = aio.server(options=_BARE_OPTIONS)
        handlers = {name: grpc.unary_unary_rpc_method_handler(respond) for name in ("SendMessage", "Heartbeat")}
        handlers["Telemetry"] = grpc.stream_stream_rpc_method_handler(listen)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        _watch(channel, lambda: {"grpc": f"127.0.0.1:{port}"}, lambda: loop.call_soon_threadsafe(ends.set))
        await ends.wait()
        await server.stop(0)

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
