"""Connections to clusters, one for each address in a process, kept between tasks and shared.

Spark reuses its Python workers, so a task finds the connection, with its routes, from the task before. This module does not
remember the cluster of a query: its reader or writer does, and each range, task and checkpoint names the cluster. If
another cluster is requested at the same addresses, the old connection closes after its last user.
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
from .forked_worker import keep_imports

_kept: Final[dict[tuple[str, ...], Connection]] = {}
_lock = threading.Lock()


@contextmanager
def connection(namesrv: str | None, cluster_id: str) -> Iterator[Connection]:
    """A connection to the cluster with that id at the name servers of `namesrv` (or their default).

    `cluster_id` "": whichever is there now; the connection's `remoting.cluster_id` has its id after an answer. Members of
    another cluster are refused (WrongCluster). Raises InvalidParameter.
    """
    lent = _lent(namesrv, cluster_id)
    try:
        yield lent
    finally:
        _give_back(lent)
        keep_imports()


def cluster_that_answers(namesrv: str | None, *, timeout_ms: int) -> str:
    """The id of the cluster at these name servers now. Raises NoRoute, and errors of the name servers."""
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
    if kept is not None and not cluster_id and kept.is_outdated():  # may send requests: not under the lock
        _give_back(kept)
        kept = None
    if kept is None:
        kept = connect(namesrv, cluster_id=cluster_id)
        _keep(kept)
    return kept


def _keep(fresh: Connection) -> None:
    """Keeps this connection; the old one closes when nobody uses it any more."""
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
    """In a forked child: the parent's connections are not ours, and the lock may be held by a thread of the parent."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forget)
