"""One connection to a cluster for all producers, consumers and admins of this process: sockets, routes, heartbeats.

The first client of a cluster opens it, the last one closes it. After a fork the child begins with new ones: the
parent's connections count as closed there (neither sockets nor the I/O thread survive a fork).
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final
from weakref import WeakSet

from ...model.clock import monotonic_ms
from ...model.errors import BufferFull, ClientClosed, InvalidParameter, TopicNotFound, ZenitError
from ...model.names import TIMER_TOPIC
from .client_keys import key_path, new_remoting
from .cluster import name_servers_or_engine
from .engine_url import is_engine, parse_engine
from .engines import open_engine
from .membership import Membership
from .name_servers import NameServers
from .route_cache import RouteCache
from .waiting import Blocking, Waits, run_blocking

LOOK_MS: Final = 1000
LOOK_TIMEOUT_MS: Final = 500

_Key = tuple[tuple[str, ...], str, str]
_open: dict[
    _Key, Connection
] = {}  # (name servers, the given cluster id, key file): the connection that new clients share
_live: WeakSet[Connection] = WeakSet()  # these, and those that only their present users still have
_lock = threading.Lock()
_serial: Iterator[int] = count(1)


class Connection:
    """The parts shared by the clients of one cluster. `connect` returns it, `release` gives it back.

    `cluster_id`: of the intended cluster; "" = the first one that answers, which is then remembered. `key`: a path, "" = none.

    `forget_in_child`: called in a forked child, for parts that would otherwise continue as if nothing had happened.
    """

    def __init__(self, addresses: tuple[str, ...], cluster_id: str = "", key: str = "") -> None:
        """Raises KeyFileRefused."""
        self.key: _Key = (addresses, cluster_id, key)
        self._engine = open_engine(parse_engine("namesrv", addresses[0])) if is_engine(addresses[0]) else None
        self.addresses = addresses = addresses if self._engine is None else (self._engine.address,)
        self.pid = os.getpid()
        self.is_forked = False
        self.forget_in_child: set[Callable[[], object]] = set()
        self.users = 0
        self.remoting = new_remoting(key, addresses) if self._engine is None else self._engine.new_client()
        _live.add(self)
        self.remoting.name_cluster(cluster_id)
        self.servers = NameServers(addresses)
        self.routes = RouteCache(self.remoting, self.servers)
        self.members = Membership(self.remoting, self.routes.masters)
        self.local_ip = local_ip_towards(addresses[0])
        self._looking = threading.RLock()  # a second caller waits for the result of the first check
        self._look_ms = 0
        self._is_doubtful = False

    def check_process(self, what: str) -> None:
        """Raises ClientClosed in a forked child."""
        if self.is_forked:
            raise ClientClosed(f"{what} (it was made before a fork; make a new one in the child)")

    def new_client_id(self, room: str | None = None) -> str:
        """A unique name for one client object: ip@pid#number-random, and @room if it has one."""
        ip = socket.inet_ntop(socket.AF_INET6 if len(self.local_ip) == 16 else socket.AF_INET, self.local_ip)
        return f"{ip}@{self.pid}#{next(_serial)}-{secrets.token_hex(4)}{'@' + room if room else ''}"

    @property
    def name_servers(self) -> str:
        """Their addresses, as they are given to a client."""
        return ",".join(self.key[0])

    def is_outdated(self) -> bool:
        """True if the name servers now belong to another cluster than the one met here, or do not say. New clients then need a
        new connection; the present ones go on refusing the other cluster. Asks at most once a second."""
        if self.is_forked:  # the lock may be held by a thread that did not survive the fork
            return False
        with self._looking:
            now_ms = monotonic_ms()
            if self.remoting.cluster_id and now_ms >= self._look_ms:
                self._look_ms = now_ms + LOOK_MS
                asked = self.routes.refresh(TIMER_TOPIC, Blocking(self.remoting), timeout_ms=LOOK_TIMEOUT_MS)
                self._is_doubtful = False
                try:
                    run_blocking(asked)
                except TopicNotFound:  # it is in no route; this only tests whether its cluster still exists
                    pass
                except ZenitError:
                    self._is_doubtful = True
            return self._is_doubtful or self.routes.met_other_cluster

    def run_soon(self, callback: Callable[[], None]) -> None:
        """Runs `callback` in the I/O thread; in this one if that has ended or its queue is full."""
        try:
            self.remoting.run_soon(callback)
        except (BufferFull, ClientClosed):
            callback()

    def close(self) -> None:
        """Ends timers, thread and sockets."""
        self.members.close()
        self.routes.close()
        self.remoting.close()
        if self._engine is not None:
            self._engine.release()


def connect(namesrv: str | None, *, key: str | None = None, cluster_id: str = "") -> Connection:
    """The connection to the cluster, or the engine, that `namesrv` names (or its substitutes, see `cluster`).

    It opens no socket yet, but starts an engine. An existing connection is shared while its cluster still exists. `cluster_id`:
    of the intended cluster, if the caller knows it; no other cluster is then accepted. `key`: the caller's key file, or see
    `client_keys`. Raises KeyFileRefused, and InvalidParameter for the key of an engine.
    """
    addresses = name_servers_or_engine(namesrv)
    if key and is_engine(addresses[0]):
        raise InvalidParameter(
            "key", key, f"none with {addresses[0]}: an engine is inside this program, and asks for no key"
        )
    path = "" if is_engine(addresses[0]) else key_path(key, addresses)
    wanted = addresses, cluster_id, path
    shared = _open.get(wanted)
    is_outdated = not cluster_id and shared is not None and shared.is_outdated()  # may send: not under the lock
    with _lock:
        connection = _open.get(wanted)
        if connection is None or (is_outdated and connection is shared):
            connection = _open[wanted] = Connection(*wanted)
        connection.users += 1
        return connection


def share(connection: Connection) -> None:
    """Another user of a connection that has some; each gives it back by `release`."""
    with _lock:
        connection.users += 1


class Use:
    """One user's part of a connection, which is given back once."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


async def release(connection: Connection, waits: Waits, use: Use | None = None) -> None:
    """Gives the connection back; the last user closes it. `use`: of a user who may call again after an interrupt."""
    use = use or Use()
    with _lock:
        if not use.is_over:
            use.is_over = True
            connection.users -= 1
        if connection.users or connection.is_forked:
            return
        if _open.get(connection.key) is connection:
            del _open[connection.key]
    await waits.run_apart(connection.close)


def local_ip_towards(address: str) -> bytes:
    """The packed address of the interface that leads to "host:port"; 127.0.0.1 if there is none. Sends nothing."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, _, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return socket.inet_pton(family, probe.getsockname()[0].partition("%")[0])
    except OSError:
        return bytes((127, 0, 0, 1))


def _forget() -> None:
    """In a forked child: the parent's connections are not ours."""
    global _lock
    _lock = threading.Lock()
    for connection in list(_live):
        connection.is_forked = True
        for forget in connection.forget_in_child:
            forget()
    _open.clear()


os.register_at_fork(after_in_child=_forget)


def client_repr(client: object, state: str = "", **facts: object) -> str:
    """The repr of a client; facts that are None are left out.

    `<Producer group='orders' namesrv='127.0.0.1:9876' closed>`
    """
    parts = [f"{name}={fact!r}" for name, fact in facts.items() if fact is not None]
    return f"<{' '.join(part for part in (type(client).__name__, *parts, state) if part)}>"
