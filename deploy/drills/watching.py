"""Observes a cluster during a drill, about once a second, and passes the observations to a `Watch`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...model.errors import ZenitError
from .servers import Servers
from .watch import Watch

LOOK_S: Final = 1.0
END_S: Final = 30.0


@contextmanager
def watching(servers: Servers, watch: Watch) -> Iterator[None]:
    """While inside, samples the cluster; afterwards `watch` belongs to this thread again."""
    stop = threading.Event()
    thread = threading.Thread(target=_look, args=(servers, watch, stop), name="zenit-drill-watch")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(END_S)


def _look(servers: Servers, watch: Watch, stop: threading.Event) -> None:
    while not stop.wait(LOOK_S):
        lost_at = watch.lost_at
        try:
            groups = servers.status()["groups"]
        except (ZenitError, OSError, StopIteration):  # it is being rewritten, or nobody answers
            continue
        watch.on_sample(groups, lost_at=lost_at if watch.lost_at is lost_at else {})
