"""Finds the key with which a client comes: the argument, $ZENIT_KEY, or that of the cluster `zenit up` started last here.

A cluster without security needs none. Which key the servers have is told by the key file for the name servers, and by these for
all others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

from ...model.errors import WaitsForItself, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.commands import GetServerKeys, ServerKeysReply
from ...remoting.security.key_file import read_key_file
from ...remoting.security.key_ring import KeyRing
from .cluster import recorded_key

ENVIRONMENT_KEY: Final = "ZENIT_KEY"
ASK_TIMEOUT_MS: Final = 1000


_of_process: dict[str, str] = {}  # a name server's address: the key file for its cluster


def remember_key(name_servers: tuple[str, ...], path: str) -> None:
    """From now on clients of this process that name one of these name servers, but no key, come with this key file."""
    _of_process.update(dict.fromkeys(name_servers, path))


def forget_key(name_servers: tuple[str, ...]) -> None:
    """Whoever is at these addresses later is another cluster."""
    for each in name_servers:
        _of_process.pop(each, None)


def key_path(
    argument: str | None,
    name_servers: tuple[str, ...],
    *,
    environ: Mapping[str, str] | None = None,
    home: str | None = None,
) -> str:
    """The path of the key file; "" if there is none to be had."""
    settings = os.environ if environ is None else environ
    if argument is not None:
        return argument
    if settings.get(ENVIRONMENT_KEY):
        return settings[ENVIRONMENT_KEY]
    remembered = next((_of_process[each] for each in name_servers if each in _of_process), None)
    if remembered is not None:
        return remembered
    return recorded_key(os.path.expanduser("~") if home is None else home, name_servers)


def new_remoting(path: str, name_servers: tuple[str, ...]) -> RemotingClient:
    """A client of the servers that these name servers know. `path`: of the key file, "" = no key. Raises KeyFileRefused."""
    if not path:
        return RemotingClient()
    keys = KeyRing.of(read_key_file(path))
    remoting = RemotingClient(keys=keys)
    keys.find = partial(_find, remoting, keys, name_servers)
    return remoting


def _find(remoting: RemotingClient, keys: KeyRing, name_servers: tuple[str, ...], address: str) -> tuple[str, ...]:
    """The key of a server that no route has named: the name servers are asked. In the I/O thread nothing may be waited for:
    there the answer comes later, and the caller tries again."""
    for server in name_servers if address not in name_servers else ():
        try:
            reply, _ = remoting.call(server, GetServerKeys(), timeout_ms=ASK_TIMEOUT_MS)
        except WaitsForItself:
            remoting.send_nowait(
                server, GetServerKeys(), None, timeout_ms=ASK_TIMEOUT_MS, on_reply=partial(_on_reply, keys)
            )
            return ()
        except ZenitError:  # it is down, or the key file does not name it
            continue
        keys.learn(reply.server_keys)
        found = tuple(key for at, key in reversed(reply.server_keys) if at == address)  # the newest first
        if found:
            return found
    return ()


def _on_reply(keys: KeyRing, reply: ServerKeysReply | None, _payload: bytes, _error: ZenitError | None) -> None:
    if reply is not None:
        keys.learn(reply.server_keys)
