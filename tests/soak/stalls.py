"""A process that does nothing but wait, and writes down when it is woken late: then the machine had no time for anybody.

Its own memory is that of a process of a soak without a client: what grows there is not the client's.
"""

from __future__ import annotations

from typing import Final

from .records import Stalled
from .worker import Worker, now_ms

TICK_S: Final = 0.25
LATE_MS: Final = 1000.0
"""A request waits 3 s for its answer, which passes through several processes: each may have been as late."""


def watch(worker: Worker) -> None:
    """Until the end."""
    due_ms = now_ms() + TICK_S * 1000
    while not worker.stopping.wait(TICK_S):
        woke_ms = now_ms()
        if woke_ms - due_ms > LATE_MS:
            worker.write(Stalled(due_ms, woke_ms))
        due_ms = now_ms() + TICK_S * 1000
