"""What the handlers have counted since the start, for metrics. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCounts:
    """Counts since the start; `*_waiting` and `pops_open` are of this moment."""

    send_batches: int
    retried: int
    dead_letters: int
    pulls_waiting: int
    pops_waiting: int
    pops_open: int
    pops_returned: int
    pops_acked: int
    lite_collected: int
