"""One connection for each cluster in a process: the driver's planner and an executor's worker each keep theirs for good.

Spark reuses its Python workers, so a task finds the connection, and the routes that it knows, as the one before left them.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from ..client.cluster import name_servers
from ..client.connection import Connection, connect

_kept: Final[dict[tuple[str, ...], Connection]] = {}
_lock = threading.Lock()


def connection(namesrv: str | None) -> Connection:
    """The process's connection to the cluster that `namesrv` (or what stands for it) names.

    It is never closed: it ends with the process. Where the name servers tell of another cluster by now, whoever begins gets
    a new one; who has the old one goes on refusing that cluster. Raises InvalidParameter.
    """
    addresses = name_servers(namesrv)
    with _lock:
        kept = _kept.get(addresses)
        if kept is None or kept.is_outdated():
            kept = _kept[addresses] = connect(namesrv)
        return kept


def _forget() -> None:
    """In a forked child: the parent's connections are not ours, and somebody may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forget)
