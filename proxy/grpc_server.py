"""The gRPC server: bytes and messages, metadata, deadlines, cancellation. What it calls decides. Only this file imports grpc.

gRPC's own threads read and write sockets; all here runs on one event loop. A call that waits is a coroutine, not a thread.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc import aio

from ..model.errors import ConfigError, ZenitError
from .back.backs import Backs
from .config import NO_PORT, ProxyConfig
from .schema import SERVICE, Method
from .v2.methods import CallFacts, MessagingMethods
from .v2.status import CallRefused, Code, code_of

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
METADATA_BYTES_MAX: Final = 64 * 1024
PING_MS_MIN: Final = 10_000
"""Clients that are idle ping each 30 to 60 s; gRPC would close their connections for that."""
IDLE_PINGS_MS: Final = 60_000
STREAMS_MAX: Final = 10_000
"""Calls of one connection at a time."""
BEGINNING_MAX: Final = 20_000
"""Calls that have come and have not begun: after a restart all clients come at once, and gRPC would drop some beyond 1,000."""

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS_MIN),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", IDLE_PINGS_MS),
    ("grpc.server.max_pending_requests", BEGINNING_MAX),
    ("grpc.server.max_pending_requests_hard_limit", 2 * BEGINNING_MAX),
)
_STATUS: Final = {
    Code.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    Code.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Code.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.CLIENT_ID_REQUIRED: grpc.StatusCode.INVALID_ARGUMENT,
    Code.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
}


@dataclass(frozen=True, slots=True)
class GrpcServing:
    """`port`, `tls_port`: where it listens; -1 = not so."""

    port: int
    tls_port: int
    methods: MessagingMethods


@asynccontextmanager
async def serve(config: ProxyConfig, backs: Backs) -> AsyncIterator[GrpcServing]:
    """Serves until it is left; calls then have the rest of `drain_ms` to end. Raises ConfigError (a taken port, a bad
    certificate)."""
    async with MessagingMethods(
        backs,
        polls_max=config.limits.polls,
        bytes_max=config.limits.bytes_in_flight,
        signed_within_ms=config.signed_within_ms,
    ) as methods:
        connections = ("grpc.max_allowed_incoming_connections", config.limits.connections)
        shared = (
            "grpc.so_reuseport",
            int(config.processes > 1),
        )  # else another program's port would be shared in silence
        server = aio.server(options=(*_OPTIONS, shared, connections))
        handlers = {method.name: _handler(methods, method) for method in methods.all()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = tls_port = NO_PORT
        if config.port != NO_PORT:
            port = _bind(server, config, config.port, "port", None)
        if config.tls_port != NO_PORT:
            tls_port = _bind(server, config, config.tls_port, "tls_port", _credentials(config))
        await server.start()
        log.info("serves gRPC port=%d tls_port=%d", port, tls_port)
        try:
            yield GrpcServing(port, tls_port, methods)
        finally:
            methods.drain()
            await server.stop(config.drain_ms / 1000 if methods.sessions else 0)


def _bind(server: Any, config: ProxyConfig, port: int, name: str, credentials: Any) -> int:
    host = f"[{config.bound_host}]" if ":" in config.bound_host else config.bound_host
    address = f"{host}:{port}"
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise ConfigError(name, port, f"a port of {config.bound_host} that is free") from error


def _credentials(config: ProxyConfig) -> Any:
    """Raises ConfigError."""
    contents = []
    for name, path in (("tls_key", config.tls_key), ("tls_certificate", config.tls_certificate)):
        try:
            with open(path, "rb") as file:
                contents.append(file.read())
        except OSError as error:
            raise ConfigError(name, path, f"a file that can be read ({error.strerror})") from None
    return grpc.ssl_server_credentials([(contents[0], contents[1])])


def _facts(context: Any) -> CallFacts:
    return CallFacts(context.invocation_metadata() or (), context.peer(), context.time_remaining())


def _handler(methods: MessagingMethods, method: Method) -> Any:
    """Requests are not decoded by gRPC: it would log each that cannot be, with a traceback, and answer it with no status of the
    protocol."""
    write = method.response.SerializeToString
    if method.asks_stream:
        return grpc.stream_stream_rpc_method_handler(_telemetry(methods, method), None, write)
    if method.answers_stream:
        return grpc.unary_stream_rpc_method_handler(_stream(methods, method), None, write)

    async def unary(encoded: bytes, context: Any) -> Any:
        return await methods.unary(method, _facts(context), encoded)

    return grpc.unary_unary_rpc_method_handler(unary, None, write)


def _stream(methods: MessagingMethods, method: Method) -> Callable[[bytes, Any], Awaitable[None]]:
    async def stream(encoded: bytes, context: Any) -> None:
        try:
            await methods.stream(method, _facts(context), encoded, context)
        except (CallRefused, ZenitError) as error:  # within the answer
            await _abort(context, error)
        except aio.InternalError as error:
            log.debug("a client is gone before it read its answer error=%s", error)

    return stream


def _telemetry(methods: MessagingMethods, method: Method) -> Callable[[AsyncIterator[bytes], Any], Awaitable[None]]:
    async def decoded(commands: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for command in commands:
            yield methods.decode(method, command)

    async def telemetry(commands: AsyncIterator[bytes], context: Any) -> None:
        await context.send_initial_metadata(())  # some clients wait for it before they tell anything
        try:
            await methods.telemetry(_facts(context), decoded(commands), context)
        except (CallRefused, ZenitError) as error:
            await _abort(context, error)

    return telemetry


async def _abort(context: Any, error: CallRefused | ZenitError) -> None:
    await context.abort(_STATUS.get(code_of(error), grpc.StatusCode.UNAVAILABLE), str(error))
