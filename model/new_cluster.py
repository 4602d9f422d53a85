"""Creates the id of a new cluster, the only random number of a cluster."""

from __future__ import annotations

import secrets
from typing import Final

_RANDOM_BYTES: Final = 8


def new_cluster_id() -> str:
    """A random id that no other cluster has: 16 hex digits."""
    return secrets.token_hex(_RANDOM_BYTES)
