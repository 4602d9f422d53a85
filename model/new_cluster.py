"""The one random number of a cluster: its id."""

from __future__ import annotations

import secrets
from typing import Final

_RANDOM_BYTES: Final = 8


def new_cluster_id() -> str:
    """An id that no other cluster has: 16 hex digits, drawn at random."""
    return secrets.token_hex(_RANDOM_BYTES)
