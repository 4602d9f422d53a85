"""Whether addresses can be reached: a TCP connection to each, all at once."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import ZenitError
from ..addresses import split_address

RESOLVING_MS: Final = 5_000


def reach(addresses: Iterable[str], timeout_ms: int) -> Mapping[str, str]:
    """{"host:port": "" if somebody listens there, else why no connection came about}, within about `timeout_ms`.

    A DNS server that is slow takes longer; once it has taken RESOLVING_MS for all of them, no other name is looked up.
    """
    found: dict[str, str] = {}
    resolving_until_ms = monotonic_ms() + RESOLVING_MS
    with ExitStack() as opened:
        selector = opened.enter_context(selectors.DefaultSelector())
        for address in dict.fromkeys(addresses):
            if monotonic_ms() >= resolving_until_ms:
                found[address] = "not tried: names are resolved too slowly"
                continue
            try:
                connection = opened.enter_context(_connecting(address))
            except (ZenitError, OSError, UnicodeError) as error:
                found[address] = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            else:
                selector.register(connection, selectors.EVENT_WRITE, address)
        deadline_ms = monotonic_ms() + timeout_ms
        while selector.get_map() and (left_ms := deadline_ms - monotonic_ms()) > 0:
            for key, _ in selector.select(left_ms / 1000):
                selector.unregister(key.fileobj)
                assert isinstance(key.fileobj, socket.socket)
                number = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                found[key.data] = os.strerror(number) if number else ""
        for key in selector.get_map().values():
            found[key.data] = f"no answer within {timeout_ms} ms"
    return found


def _connecting(address: str) -> socket.socket:
    """A connection that is being made. Raises OSError, InvalidParameter."""
    host, port = split_address(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        connection.connect(where)
    except BlockingIOError:
        return connection
    except BaseException:
        connection.close()
        raise
    return connection
