"""Which ports a local process takes: the usual ones, else the first pair ten higher that is free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..model.errors import InvalidParameter

NAME_SERVER_PORT: Final = 9876  # route changes are published on the next one
BROKER_PORT: Final = 10911  # replication takes the next one
STEP: Final = 10
PORT_MAX: Final = 65535


def choose_port(wanted: int, is_free: Callable[[int], bool], *, span: int = 2) -> int:
    """The first of wanted, wanted + 10, ... at which `span` ports in a row are free.

    Raises InvalidParameter where none is, which means that something is wrong with the machine.
    """
    for port in range(wanted, PORT_MAX - span, STEP):
        if all(is_free(port + k) for k in range(span)):
            return port
    raise InvalidParameter("port", wanted, f"{span} free ports in a row at it or above")
