"""Addresses, "host:port": this machine's own, taken apart, and the detours by which a client reaches servers.

A *detour* says where a client connects to instead of the address that it is told: the published port of a container, a
tunnel, a forwarded port of a pod. Servers, routes and keys keep the true addresses. $ZENIT_DETOURS holds some, for a process
and those that it starts: "broker-a-1:10911=127.0.0.1:32768,broker-a-2:10911=127.0.0.1:32769".
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from typing import Final

from ..model.errors import ConfigError, InvalidParameter
from ..model.groups.group_limits import AUTO

ENVIRONMENT_DETOURS: Final = "ZENIT_DETOURS"

_WANTED: Final = (
    "an address of this machine, but its name {!r} resolves to {}: mend DNS or /etc/hosts, or set host to the address"
)

_of_process: dict[str, str] = {}


def own_address() -> str:
    """The first address of this machine's name that others can reach, IPv4 before IPv6. Raises ConfigError."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError("host", AUTO, _WANTED.format(name, "none")) from error
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    for entry in found:
        address = str(entry[4][0]).partition("%")[0]
        if not ipaddress.ip_address(address).is_loopback:
            return address
    raise ConfigError("host", AUTO, _WANTED.format(name, "loopback addresses alone"))


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of "host:port"; an IPv6 host may be in brackets. Raises InvalidParameter."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidParameter("address", address, "HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def add_detours(detours: Mapping[str, str]) -> None:
    """From now on clients of this process connect to the second address of each pair, where they are told the first."""
    for address in (*detours, *detours.values()):
        split_address(address)
    _of_process.update(detours)


def remove_detours(addresses: Mapping[str, str]) -> None:
    """Who is told one of these addresses goes there itself again."""
    for address in addresses:
        _of_process.pop(address, None)


def by_detour(address: str, environ: Mapping[str, str] = os.environ) -> str:
    """Where to connect to, to reach `address`. Raises InvalidParameter if $ZENIT_DETOURS is no list of detours."""
    text = environ.get(ENVIRONMENT_DETOURS)
    detours = parse_detours(text) if text else {}
    return _of_process.get(address) or detours.get(address, address)


def parse_detours(text: str) -> dict[str, str]:
    """The detours in a text "HOST:PORT=HOST:PORT,...". Raises InvalidParameter."""
    detours = {}
    for part in filter(None, map(str.strip, text.split(","))):
        told, _, there = part.partition("=")
        try:
            for address in (told, there):
                split_address("" if "=" in address else address)
        except InvalidParameter:
            expected = "HOST:PORT=HOST:PORT, several with commas between"
            raise InvalidParameter(ENVIRONMENT_DETOURS, part, expected) from None
        detours[told] = there
    return detours


def detours_text(detours: Mapping[str, str]) -> str:
    """What `parse_detours` reads."""
    return ",".join(f"{told}={there}" for told, there in detours.items())
