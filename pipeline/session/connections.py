"""Connections to clusters, one for each address in a process, kept between tasks and shared.

Spark reuses its Python workers, so a task finds the connection, and the routes that it knows, as the one before left them.
Which cluster a query works with is not remembered here: its reader or writer remembers, and each range, task and checkpoint
names the cluster. Where another one is asked for at the same addresses, the connection to the one before ends with its last
user.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...client.connection.cluster import name_servers
from ...client.connection.connection import Connection, connect, release, share
from ...client.connection.waiting import Blocking, run_blocking

_kept: Final[dict[tuple[str, ...], Connection]] = {}
_lock = threading.Lock()


@contextmanager
def connection(namesrv: str | None, cluster_id: str) -> Iterator[Connection]:
    """A connection to the cluster of that id at the name servers that `namesrv` (or what stands for it) names.

    `cluster_id` "": whichever is there now; the connection's `remoting.cluster_id` says which once it has answered. Nobody of
    another cluster is taken for it (WrongCluster). Raises InvalidParameter.
    """
    lent = _lent(namesrv, cluster_id)
    try:
        yield lent
    finally:
        _give_back(lent)


def cluster_that_answers(namesrv: str | None, *, timeout_ms: int) -> str:
    """The id of the cluster that is at these name servers now. Raises NoRoute, and why they did not answer."""
    from ...client.administration.pipeline_calls import PipelineCalls

    with connection(namesrv, "") as cluster:
        return cluster.remoting.cluster_id or PipelineCalls(cluster, timeout_ms=timeout_ms).cluster_id()


def _lent(namesrv: str | None, cluster_id: str) -> Connection:
    addresses = name_servers(namesrv)
    with _lock:
        kept = _kept.get(addresses)
        if kept is not None and cluster_id not in ("", kept.remoting.cluster_id):
            kept = None
        if kept is not None:
            share(kept)
    if kept is not None and not cluster_id and kept.is_outdated():  # may ask: not under the lock
        _give_back(kept)
        kept = None
    if kept is None:
        kept = connect(namesrv, cluster_id=cluster_id)
        _keep(kept)
    return kept


def _keep(fresh: Connection) -> None:
    """This one from now on; the one before ends when nobody uses it any more."""
    with _lock:
        before = _kept.get(fresh.addresses)
        if before is fresh:
            return
        share(fresh)
        _kept[fresh.addresses] = fresh
    if before is not None:
        _give_back(before)


def _give_back(lent: Connection) -> None:
    run_blocking(release(lent, Blocking(lent.remoting)))


def _forget() -> None:
    """In a forked child: the parent's connections are not ours, and somebody may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forget)
