"""The common parts of server and client sockets: contexts, options, addresses, and the mapping of zmq's errors."""

from __future__ import annotations

import socket as system_socket
from collections.abc import Callable
from typing import Final

import zmq

from ..model.errors import ConfigError, ConnectionLost, HostNotFound, InvalidParameter
from .frame_memory import keep_frame_memory
from .options import SOCKET_TABLES

MAX_SOCKETS: Final = 8192
"""Sockets per context: a client needs two for each thread and address. The process's file limit applies as well."""

Pollable = zmq.Socket[bytes]
"""A socket for a `Waiter`; its receiver uses it for nothing else."""

_TYPES: Final = {"ROUTER": zmq.ROUTER, "DEALER": zmq.DEALER, "PUB": zmq.PUB, "SUB": zmq.SUB, "WAKE": zmq.DEALER}


def new_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A new context for each client or server, so that closing one does not wait for another's sockets."""
    keep_frame_memory()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
    return context


def new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: str, **changed: int) -> zmq.Socket[bytes]:
    """A socket with all options of its table; `changed` overrides values by option name."""
    socket = context.socket(_TYPES[kind])
    for option in SOCKET_TABLES[kind]:
        socket.set(getattr(zmq, option.name), changed.get(option.name, option.value))
    return socket


def plain_send(socket: zmq.Socket[bytes]) -> Callable[..., object]:
    """The socket's `send` without pyzmq's wrapper for routing ids and groups, which costs as much as a small send itself."""
    sender: Callable[..., object] = super(zmq.Socket, socket).send
    return sender


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of "host:port"; an IPv6 host may be in brackets. Raises InvalidParameter."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidParameter("address", address, "HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def resolve(address: str) -> str:
    """The numeric endpoint of "host:port", IPv4 first (so that a "localhost" bound only there is found).

    Resolved here, because ZeroMQ resolves in its one background thread, where a slow DNS server stops all connections.
    Raises InvalidParameter, HostNotFound.
    """
    host, port = split_address(address)
    try:
        found = system_socket.getaddrinfo(host, port, type=system_socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostNotFound(address) from error
    found.sort(key=lambda entry: entry[0] != system_socket.AF_INET)
    family, number = found[0][0], found[0][4][0]
    return f"tcp://{number}:{port}" if family == system_socket.AF_INET else f"tcp://[{number}]:{port}"


def bind_tcp(socket: zmq.Socket[bytes], address: str) -> str:
    """Binds "host:port" (port 0 = any free one, host * = every address); returns it as bound. Raises ConfigError."""
    host = address.rpartition(":")[0]
    try:
        socket.bind(f"tcp://{address}" if host == "*" else resolve(address))
    except (zmq.ZMQError, InvalidParameter, ConnectionLost) as error:
        reason = error.strerror if isinstance(error, zmq.ZMQError) else error
        raise ConfigError(
            "bind", address, f"HOST:PORT, a free port of an address of this machine ({reason})"
        ) from error
    port = bytes(socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode().rpartition(":")[2]
    return f"{host}:{port}"


def connect_tcp(socket: zmq.Socket[bytes], address: str) -> None:
    """Starts connecting to "host:port". Raises InvalidParameter, HostNotFound."""
    endpoint = resolve(address)
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise InvalidParameter("address", address, f"HOST:PORT ({error.strerror})") from error


class Waiter:
    """Waits for any of several sockets. For the thread of the sockets only."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()

    def add(self, socket: Pollable) -> None:
        """Adds a socket."""
        self._poller.register(socket, zmq.POLLIN)

    def remove(self, socket: Pollable) -> None:
        """Removes a socket; call this before it is closed."""
        self._poller.unregister(socket)

    def wait(self, timeout_ms: int) -> list[Pollable]:
        """The readable sockets; none after `timeout_ms` without any."""
        return [socket for socket, _ in self._poller.poll(timeout_ms)]
