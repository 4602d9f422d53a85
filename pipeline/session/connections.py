"""Connections to clusters, one for each address and key in a process, kept between tasks and shared.

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
from ...model.errors import KeyFileRefused
from ...remoting.security.key_file import read_key_file
from .forked_worker import keep_imports

_Place = tuple[tuple[str, ...], str | None]
_kept: Final[dict[_Place, Connection]] = {}  # by (name servers, the key file that was named)
_lock = threading.Lock()


@contextmanager
def connection(namesrv: str | None, cluster_id: str, *, key: str | None = None) -> Iterator[Connection]:
    """A connection to the cluster with that id at the name servers of `namesrv` (or their default). `key`: as `connect` has it.

    `cluster_id` "": whichever is there now; the connection's `remoting.cluster_id` has its id after an answer. Members of
    another cluster are refused (WrongCluster). Raises InvalidParameter, KeyFileRefused.
    """
    lent = _lent(namesrv, cluster_id, key)
    try:
        yield lent
    finally:
        _give_back(lent)
        keep_imports()


def checked_key(path: str | None) -> str | None:
    """The absolute path of a key file that can be used here; None for None. Raises KeyFileRefused, in the driver already."""
    if path is None:
        return None
    absolute = os.path.abspath(os.path.expanduser(path))
    read_key_file(absolute)
    return absolute


def cluster_that_answers(namesrv: str | None, *, timeout_ms: int, key: str | None = None) -> str:
    """The id of the cluster at these name servers now. Raises NoRoute, and errors of the name servers."""
    from ...client.administration.pipeline_calls import PipelineCalls

    with connection(namesrv, "", key=key) as cluster:
        return cluster.remoting.cluster_id or PipelineCalls(cluster, timeout_ms=timeout_ms).cluster_id()


def _lent(namesrv: str | None, cluster_id: str, key: str | None) -> Connection:
    place = name_servers(namesrv), key
    with _lock:
        kept = _kept.get(place)
        if kept is not None and cluster_id not in ("", kept.remoting.cluster_id):
            kept = None
        if kept is not None:
            share(kept)
    if kept is not None and not cluster_id and kept.is_outdated():  # may send requests: not under the lock
        _give_back(kept)
        kept = None
    if kept is None:
        kept = _connected(namesrv, cluster_id, key)
        _keep(place, kept)
    return kept


def _connected(namesrv: str | None, cluster_id: str, key: str | None) -> Connection:
    try:
        return connect(namesrv, key=key, cluster_id=cluster_id)
    except KeyFileRefused as error:
        if key is None:
            raise
        reason = f"{error.reason} (on {os.uname().nodename}: the driver and each executor need the file)"
        raise KeyFileRefused(error.path, reason) from None


def _keep(place: _Place, fresh: Connection) -> None:
    """Keeps this connection; the old one closes when nobody uses it any more."""
    with _lock:
        before = _kept.get(place)
        if before is fresh:
            return
        share(fresh)
        _kept[place] = fresh
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
