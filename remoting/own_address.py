"""The address of this machine, as its own name resolves to it: in a container, the one that others reach it by."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from ..model.errors import ConfigError

AUTO: Final = "auto"
"""As the setting `host`: this machine's address."""


def own_address() -> str:
    """The first address of this machine's name that others can reach, IPv4 before IPv6. Raises ConfigError."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError("host", AUTO, f"an IP address: this machine's name {name!r} resolves to none") from error
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    for entry in found:
        address = str(entry[4][0]).partition("%")[0]
        if not ipaddress.ip_address(address).is_loopback:
            return address
    raise ConfigError("host", AUTO, f"an IP address: this machine's name {name!r} resolves to itself alone")
