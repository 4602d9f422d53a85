"""The limits of a replica group's values, checked for values from the network and from hand-edited nodes. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from ..errors import ConfigError, ForeignLog, InvalidName, InvalidParameter

AUTO: Final = "auto"
"""As the setting `host`: this machine's address."""
REPLICAS_MAX: Final = 16
LAG_MS_MIN: Final = 500
LAG_MS_MAX: Final = 3_600_000
TOKEN_LENGTH_MAX: Final = 64
ADDRESS_LENGTH_MAX: Final = 255
HOST_LENGTH_MAX: Final = ADDRESS_LENGTH_MAX - len(":65535")
COUNT_MAX: Final = (1 << 62) - 1
SIGHTED_EPOCH_MAX: Final = COUNT_MAX // 2
"""No epoch above it was ever given: a foreign value must leave room for the epochs after a restore."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,126}", re.ASCII)
_GROUP_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def check_name(kind: str, name: str) -> str:
    """Returns the name of a group or replica; raises InvalidName. It becomes part of a path in ZooKeeper."""
    if _NAME.fullmatch(name) is None:
        raise InvalidName(kind, name, "letters, digits, '_', '-' and inside also '.', 1 to 127 characters")
    return name


def check_address(key: str, address: str) -> str:
    """Returns the address; raises InvalidParameter if it is not host:port."""
    host, _, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    plain = address.isascii() and address.isprintable() and " " not in address
    if not (host and plain and digits and 1 <= int(port) <= 65535 and len(address) <= ADDRESS_LENGTH_MAX):
        raise InvalidParameter(key, address[:ADDRESS_LENGTH_MAX], "host:port")
    return address


def check_host(key: str, host: str) -> str:
    """Returns the DNS name or IP address; raises ConfigError for anything else, such as one with a port."""
    is_name = all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split("."))
    if len(host) > HOST_LENGTH_MAX or not (is_name or (":" in host and is_ip_address(host))):
        raise ConfigError(key, host[:HOST_LENGTH_MAX], "a DNS name or an IP address, without a port")
    return host


def is_ip_address(text: str) -> bool:
    """Of IPv4 or IPv6, without a port."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_token(key: str, token: str) -> str:
    """Returns a store's identity or a process's token; raises InvalidParameter."""
    if _TOKEN.fullmatch(token) is None:
        raise InvalidParameter(key, token[:TOKEN_LENGTH_MAX], f"letters, digits, '_', '-', 1 to {TOKEN_LENGTH_MAX}")
    return token


def check_group_id(text: str) -> str:
    """Returns an operator's text for a group's id (its founder's store); raises InvalidParameter."""
    if _GROUP_ID.fullmatch(text) is None:
        expected = "32 hexadecimal digits, as group_id in zenit controller status GROUP --json"
        raise InvalidParameter("group_id", text[:TOKEN_LENGTH_MAX], expected)
    return text


def check_count(key: str, value: int, minimum: int = 0) -> int:
    """Returns a number that only grows; raises InvalidParameter."""
    if not minimum <= value <= COUNT_MAX:
        raise InvalidParameter(key, value, f"an integer from {minimum} to {COUNT_MAX}")
    return value


def check_log_origin(group: str, replica: str, *, epoch: int, log_end: int) -> None:
    """Raises ForeignLog unless the log of a store new to a static master's group can be a copy of the master's log.

    `epoch`: the highest that the store has promised. A slave promises its master's epoch before the first byte. A log
    without a promise was written by a broker alone, and since its epochs begin at 1 as well, it would pass for a copy.
    """
    if epoch == 0 and log_end > 0:
        raise ForeignLog(group, replica, log_end, "")
