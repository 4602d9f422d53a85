"""The common parts of server and client sockets: contexts, options, addresses, and the mapping of zmq's errors.

A server whose host is 0.0.N.N, which no network knows, is in this process: its clients reach it without a network, through
memory (ZeroMQ's inproc), and only from here.
"""

from __future__ import annotations

import os
import re
import socket as system_socket
import struct
import threading
from collections.abc import Callable
from typing import Final

import zmq

from ..model.errors import ConfigError, ConnectionLost, HostNotFound, InvalidParameter
from .addresses import by_detour, split_address
from .frame_memory import keep_frame_memory
from .options import SOCKET_TABLES

MAX_SOCKETS: Final = 8192
"""Sockets per context: a client needs two for each thread and address. The process's file limit applies as well."""

_INSIDE: Final = re.compile(r"0\.0\.\d+\.\d+:\d+")
_EVERY: Final = "0.0.0.0:"  # all addresses of this machine
_ENDED: Final = struct.pack("=HI", zmq.EVENT_DISCONNECTED, 0)
_inside: list[
    zmq.Context[zmq.Socket[bytes]]
] = []  # the one context of all servers in this process, and of their clients
_ends: dict[str, zmq.Socket[bytes]] = {}  # address of such a server: tells its clients of its end
_inside_lock = threading.Lock()

WELCOME: Final = b"\x00"
"""The one frame that a publisher sends to each new connection: from now on it hears what is published. No topic's name."""

Pollable = zmq.Socket[bytes] | int
"""A socket or a descriptor for a `Waiter`; its receiver uses it for nothing else."""

_TYPES: Final = {"ROUTER": zmq.ROUTER, "DEALER": zmq.DEALER, "PUB": zmq.PUB, "SUB": zmq.SUB, "WAKE": zmq.DEALER}


def new_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A new context for each client or server, so that closing one does not wait for another's sockets."""
    keep_frame_memory()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
    return context


def is_inside(address: str) -> bool:
    """Whether "host:port" names a server in this process."""
    return _INSIDE.fullmatch(address) is not None and not address.startswith(_EVERY)


def inside_context() -> zmq.Context[zmq.Socket[bytes]]:
    """The context of the servers in this process; it is never ended."""
    with _inside_lock:
        if not _inside:
            _inside.append(new_context())
        return _inside[0]


def begin_inside(address: str) -> None:
    """A server in this process is bound: clients may connect."""
    end = new_socket(inside_context(), "PUB")
    end.bind(_end_of(address))
    with _inside_lock:
        _ends[address] = end


def end_inside(address: str) -> None:
    """Tells its clients that the server ends, which ZeroMQ does not for a connection through memory. Idempotent."""
    with _inside_lock:
        end = _ends.pop(address, None)
    if end is not None:
        end.get(zmq.EVENTS)  # takes note of those who connected just now
        end.send(_ENDED, zmq.NOBLOCK)
        end.unbind(_end_of(address))
        end.close()


def unbind_inside(socket: zmq.Socket[bytes], address: str) -> None:
    """Before the socket of such a server is closed, which ZeroMQ does later: its address is free at once."""
    if is_inside(address) and not socket.closed:
        socket.unbind(resolve(address))


def connect_inside(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes], address: str) -> None:
    """Connects; `monitor`, a SUB, gets an event as a socket's monitor does when the server ends. Raises ConnectionLost."""
    with _inside_lock:  # so the server cannot end in between
        if address not in _ends:
            raise ConnectionLost(address)
        monitor.subscribe(b"")
        monitor.connect(_end_of(address))
        socket.connect(resolve(address))


def _end_of(address: str) -> str:
    return f"inproc://zenit-end-{address}"


def end_context(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """Ends a context whose sockets are closed, unless it is that of the servers in this process."""
    if context not in _inside:
        context.term()


def _forget_inside() -> None:
    """In a forked child: its servers are the parent's."""
    global _inside_lock
    _inside_lock = threading.Lock()
    _kept_for_parent.extend((*_inside, *_ends.values()))
    _inside.clear()
    _ends.clear()


_kept_for_parent: list[object] = []  # a context that is dropped would wait for the parent's threads
os.register_at_fork(after_in_child=_forget_inside)


def new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: str, **changed: int) -> zmq.Socket[bytes]:
    """A socket with all options of its table; `changed` overrides values by option name."""
    socket = context.socket(_TYPES[kind])
    for option in SOCKET_TABLES[kind]:
        socket.set(getattr(zmq, option.name), changed.get(option.name, option.value))
    return socket


def set_tcp_options(connection: system_socket.socket, kind: str) -> None:
    """Sets on a connection of ours what ZeroMQ sets on its own by a table of options: no delay, and that the kernel looks
    whether the other side is there."""
    values = {option.name: option.value for option in SOCKET_TABLES[kind]}
    connection.setsockopt(system_socket.IPPROTO_TCP, system_socket.TCP_NODELAY, 1)
    connection.setsockopt(system_socket.SOL_SOCKET, system_socket.SO_KEEPALIVE, values["TCP_KEEPALIVE"])
    for name in ("IDLE", "INTVL", "CNT"):
        number = getattr(system_socket, f"TCP_KEEP{name}", None)  # not every system has all
        if number is not None:
            connection.setsockopt(system_socket.IPPROTO_TCP, number, values[f"TCP_KEEPALIVE_{name}"])


def plain_send(socket: zmq.Socket[bytes]) -> Callable[..., object]:
    """The socket's `send` without pyzmq's wrapper for routing ids and groups, which costs as much as a small send itself."""
    sender: Callable[..., object] = super(zmq.Socket, socket).send
    return sender


def resolve(address: str) -> str:
    """The numeric endpoint of "host:port", IPv4 first (so that a "localhost" bound only there is found); of a server in this
    process its name in memory.

    Resolved here, because ZeroMQ resolves in its one background thread, where a slow DNS server stops all connections.
    Raises InvalidParameter, HostNotFound.
    """
    host, port = split_address(address)
    if is_inside(address):
        return f"inproc://zenit-{address}"
    try:
        found = system_socket.getaddrinfo(host, port, type=system_socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostNotFound(address) from error
    found.sort(key=lambda entry: entry[0] != system_socket.AF_INET)
    family, number = found[0][0], found[0][4][0]
    return f"tcp://{number}:{port}" if family == system_socket.AF_INET else f"tcp://[{number}]:{port}"


def resolve_peer(address: str) -> str:
    """The numeric endpoint at which a client reaches "host:port". Raises InvalidParameter, HostNotFound."""
    return resolve(by_detour(address))


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
    if is_inside(address):
        return address
    port = bytes(socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode().rpartition(":")[2]
    return f"{host}:{port}"


def connect_tcp(socket: zmq.Socket[bytes], address: str) -> None:
    """Starts connecting to "host:port". Raises InvalidParameter, HostNotFound."""
    endpoint = resolve_peer(address)
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
