"""Chooses the ports of a local process: the usual ones, otherwise the first free ones in steps above them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..model.errors import InvalidParameter

NAME_SERVER_PORT: Final = 9876  # route changes are published on the next port
BROKER_PORT: Final = 10911  # replication uses the next port
CONTROLLER_PORT: Final = 9878
ZOOKEEPER_PORT: Final = 2181
METRICS_PORT: Final = 9880
PROXY_PORT: Final = 8080  # for remoting; gRPC uses the next port
PROXY_BROKER_PORT: Final = 12911  # the first of those that stand for brokers, beside brokers on the same machine
STEP: Final = 10
CONTROLLER_STEP: Final = 2
PORT_MAX: Final = 65535


def choose_port(wanted: int, is_free: Callable[[int], bool], *, span: int = 2, step: int = STEP) -> int:
    """The first of wanted, wanted + step, ... at which `span` ports in a row are free.

    Raises InvalidParameter if there is none, which means that something is wrong with the machine.
    """
    for port in range(wanted, PORT_MAX - span, step):
        if all(is_free(port + k) for k in range(span)):
            return port
    raise InvalidParameter("port", wanted, f"{span} free ports in a row at it or above")
