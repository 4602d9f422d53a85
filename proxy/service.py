"""One process of a proxy: an event loop, its ways to the cluster, and the fronts that clients see.

It keeps nothing that must survive. Told to stop, it sends clients to another proxy, lets waiting calls end, and closes.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from ..metrics.endpoint import MetricsEndpoint
from ..model.clock import monotonic_ms
from ..model.errors import ConfigError, ZenitError
from .back.backs import Backs
from .config import NO_PORT, ProxyConfig
from .event_loop import run_on_loop
from .proxy_reader import ProxyReader
from .tls import tls_context

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
ASK_MS: Final = 3_000
ASK_EVERY_MS: Final = 5_000
NEW_OBJECTS: Final = 5_000
"""Before Python looks for garbage: the thousands of calls that are under way are none, and to look through them each time 700
objects are new takes a tenth of a proxy's time."""


class Proxy:
    """`run` serves until `stop`. `parent`: the process without which it ends; 0 = none."""

    def __init__(self, config: ProxyConfig, *, metrics: MetricsEndpoint | None = None, parent: int = 0) -> None:
        """`metrics`: where it is measured; it outlives the proxy."""
        self._config = config
        self._metrics = metrics
        self._parent = parent
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._is_told = False
        self.addresses: dict[str, str] = {}
        """{"grpc", "grpc-tls", "remoting": "host:port"} of what serves."""

    def run(self) -> None:
        """In the main thread. Raises ConfigError (a taken port, a bad certificate), KeyFileRefused."""
        run_on_loop(self._serve())

    def stop(self) -> None:
        """Makes `run` return, within `drain_ms`. From any thread or a signal handler."""
        self._is_told = True
        if self._loop is not None:
            with suppress(RuntimeError):  # closed: it has returned
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._is_told:
            return
        async with Backs(self._config) as backs, AsyncExitStack() as opened:
            reader = ProxyReader(self._config, backs)
            opened.callback(self._measure, None)
            self._measure(reader)
            watching = asyncio.create_task(self._watch(backs, reader), name="zenit-proxy-watch")
            opened.callback(watching.cancel)
            self.addresses = await opened.enter_async_context(_fronts(self._config, backs))
            log.info("proxy started %s", " ".join(f"{name}={address}" for name, address in self.addresses.items()))
            opened.callback(gc.set_threshold, *gc.get_threshold())
            gc.freeze()
            gc.set_threshold(NEW_OBJECTS)
            reader.is_serving = True
            await self._stopping.wait()
            reader.is_serving = False
            log.info("proxy stops: its clients go to another one")
        log.info("proxy stopped")

    def _measure(self, reader: ProxyReader | None) -> None:
        if self._metrics is not None:
            self._metrics.serve(reader)

    async def _watch(self, backs: Backs, reader: ProxyReader) -> None:
        """Each second: the loop turns, the parent lives; each five: the cluster answers."""
        backend, asked_ms = backs.own.backend, 0
        while True:
            reader.turned_ms = monotonic_ms()
            if self._parent and os.getppid() != self._parent:
                log.error("the parent of this process has ended: it ends too")
                self._stopping.set()
            if monotonic_ms() >= asked_ms + ASK_EVERY_MS or not reader.readiness().is_ready:
                asked_ms = monotonic_ms()
                try:
                    document = await backend.cluster(deadline_ms=backend.deadline_ms(ASK_MS))
                except ZenitError as error:
                    reader.on_silent(error)
                else:
                    reader.on_answered(next(iter(document["clusters"]), ""), monotonic_ms())
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def _fronts(config: ProxyConfig, backs: Backs) -> AsyncIterator[dict[str, str]]:
    """Opens them; {name: "host:port"}. gRPC is imported here: not before processes are forked."""
    addresses: dict[str, str] = {}
    tls_context(config)  # what is wrong with it is said here: gRPC would say that the port is taken
    _check_host(config)
    async with AsyncExitStack() as opened:
        if (config.port, config.tls_port) != (NO_PORT, NO_PORT):
            from .grpc_server import serve

            running = await opened.enter_async_context(serve(config, backs))
            for name, port in (("grpc", running.port), ("grpc-tls", running.tls_port)):
                if port != NO_PORT:
                    addresses[name] = _at(config.host, port)
        if config.remoting_port != NO_PORT:
            from .tcp_server import serve_remoting

            remoting = await opened.enter_async_context(serve_remoting(config, backs))
            addresses["remoting"] = _at(config.host, remoting.port)
        yield addresses


def _check_host(config: ProxyConfig) -> None:
    """Raises ConfigError."""
    try:
        socket.getaddrinfo(config.bound_host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        name = "listen_host" if config.listen_host else "host"
        raise ConfigError(name, config.bound_host, f"a host that has an address ({error.strerror})") from None


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
