"""The addresses of engines: ones that only this process knows (remoting/base_socket). Pure."""

from __future__ import annotations

from itertools import count
from typing import Final

CLUSTER: Final = "local"
ENGINES_MAX: Final = 0xFFFF

_numbers = count(1)


def new_host() -> str:
    """A host that no other engine of this process has."""
    number = next(_numbers) % ENGINES_MAX + 1
    return f"0.0.{number >> 8}.{number & 255}"
