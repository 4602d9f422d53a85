"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 20_000, 32_000
"""Below those that the system gives to connections: one of these could take a port between its choice and the start."""


def free_row(count: int) -> list[int]:
    """So many in a row that nobody has on 127.0.0.1."""
    chance = random.SystemRandom()
    while True:
        first = chance.randrange(LOWEST, HIGHEST - count)
        row = list(range(first, first + count))
        if all(map(_is_free, row)):
            return row


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
