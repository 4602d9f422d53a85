"""Finds the name servers: the argument, $ZENIT_NAMESRV, the cluster `zenit up` started last here, or the default.

The record of the last cluster is `~/.zenit/last` (a directory's path) and `cluster.json` in that directory; it counts
only while one of its name server processes lives.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import InvalidParameter
from .engine_url import is_engine, parse_engine

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
ENVIRONMENT_KEY: Final = "ZENIT_NAMESRV"
NAME_SERVERS_MAX: Final = 64
ADMINISTRATOR_KEY: Final = "admin.key"
"""In the directory that a recorded cluster's "keys" names."""

_EXPECTED: Final = 'addresses like "127.0.0.1:9876", several separated by commas'
_NO_ENGINE: Final = (
    "memory://, embedded:/// and local:/// are inside one Python program, and only its own clients reach them"
)


def name_servers(
    argument: str | None = None, *, environ: Mapping[str, str] | None = None, home: str | None = None
) -> tuple[str, ...]:
    """The addresses to ask, in order. Raises InvalidParameter if the text is no list of addresses.

    They are of processes; see `name_servers_or_engine`.
    """
    settings = os.environ if environ is None else environ
    if argument is not None:
        return parse_addresses("namesrv", argument)
    if settings.get(ENVIRONMENT_KEY):
        return parse_addresses(ENVIRONMENT_KEY, settings[ENVIRONMENT_KEY])
    recorded = recorded_name_servers(os.path.expanduser("~") if home is None else home)
    return recorded or parse_addresses("namesrv", DEFAULT_NAMESRV)


def name_servers_or_engine(argument: str | None = None) -> tuple[str, ...]:
    """The same; or, alone, the name of an engine in this process. Raises InvalidParameter."""
    name, text = ("namesrv", argument) if argument is not None else (ENVIRONMENT_KEY, os.environ.get(ENVIRONMENT_KEY))
    if isinstance(text, str) and is_engine(text):
        return (str(parse_engine(name, text)),)
    return name_servers(argument)


def parse_addresses(name: str, text: str) -> tuple[str, ...]:
    """ "a:1,b:2" (blanks and semicolons too) as addresses. `name`: the setting, for the error."""
    if not isinstance(text, str):
        raise InvalidParameter(name, text, _EXPECTED)
    if "://" in text:
        raise InvalidParameter(name, text, f"{_EXPECTED}; {_NO_ENGINE}")
    addresses = tuple(dict.fromkeys(part for part in text.replace(",", " ").replace(";", " ").split() if part))
    if not addresses or len(addresses) > NAME_SERVERS_MAX:
        raise InvalidParameter(name, text, _EXPECTED)
    for address in addresses:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidParameter(name, address, _EXPECTED)
    return addresses


def recorded_name_servers(home: str) -> tuple[str, ...]:
    """The name servers of the cluster recorded under `home`/.zenit; empty if none of them runs."""
    document = _recorded_cluster(home)
    if not _name_server_lives(document.get("processes")):
        return ()
    return _recorded_addresses(document)


def recorded_key(home: str, name_servers: tuple[str, ...]) -> str:
    """The administrator's key file of the recorded cluster, if that is secured and its name servers are among those; or ""."""
    document = _recorded_cluster(home)
    keys = document.get("keys")
    if not isinstance(keys, str) or not set(_recorded_addresses(document)) & set(name_servers):
        return ""
    return os.path.join(keys, ADMINISTRATOR_KEY)


def recorded_user_key(home: str, user: str) -> str:
    """The key file of a user in the directory of the recorded cluster's keys, or in ~/.zenit/keys; "" if there is none."""
    keys = _recorded_cluster(home).get("keys")
    places = [*([keys] if isinstance(keys, str) else []), os.path.join(home, ".zenit", "keys")]
    paths = (os.path.join(place, f"{user}.key") for place in places)
    return next((path for path in paths if os.path.exists(path)), "")


def recorded_controllers(home: str, name_servers: tuple[str, ...]) -> tuple[str, ...]:
    """The controllers of the recorded cluster, if its name servers are among those; otherwise empty."""
    document = _recorded_cluster(home)
    if not set(_recorded_addresses(document)) & set(name_servers):
        return ()
    processes = document.get("processes")
    found: list[str] = []
    for process in processes if isinstance(processes, list) else ():
        if isinstance(process, dict) and process.get("role") == "controller":
            with contextlib.suppress(InvalidParameter):
                found += parse_addresses("controllers", str(process.get("address")))
    return tuple(found)


def recorded_replicas(home: str, controllers: tuple[str, ...], group: str) -> tuple[str, ...]:
    """The replicas of a group in the recorded cluster, if one of these controllers belongs to it; otherwise empty."""
    document = _recorded_cluster(home)
    if not set(recorded_controllers(home, _recorded_addresses(document))) & set(controllers):
        return ()
    brokers = (process for process in document["processes"] if isinstance(process, dict))
    return tuple(str(broker.get("name")) for broker in brokers if broker.get("group") == group)


def _recorded_cluster(home: str) -> dict[str, Any]:
    """The content of the last cluster's `cluster.json`; empty if there is none, or it is invalid."""
    try:
        with open(os.path.join(home, ".zenit", "last"), encoding="utf-8") as record:
            directory = record.read().strip()
        with open(os.path.join(directory, "cluster.json"), encoding="utf-8") as state:
            document = json.load(state)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _recorded_addresses(document: Mapping[str, Any]) -> tuple[str, ...]:
    namesrv = document.get("namesrv")
    text = ",".join(map(str, namesrv)) if isinstance(namesrv, list) else str(namesrv)
    try:
        return parse_addresses("namesrv", text)
    except InvalidParameter:
        return ()


def _name_server_lives(processes: object) -> bool:
    if not isinstance(processes, list):
        return False
    return any(
        isinstance(process, dict) and process.get("role") == "namesrv" and _is_alive(process.get("pid"))
        for process in processes
    )


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it lives, under another user
    return True
