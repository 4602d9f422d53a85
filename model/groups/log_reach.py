"""How far replicas' logs reach, and which one is the best: the comparison behind a forced election. Pure.

Logs are compared by their last epoch row first, then by their end. A log has a row only with every byte before it, and the
master of a later epoch was elected with all that was acknowledged before; a longer log of an earlier epoch is the tail of a
master that had no slaves any more. One exception comes first: a log that ends below a confirm offset which any replica
knows lacks what consumers have seen. Such a log can have the newer row if the slaves of a later master never got a byte of
its epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReach:
    """How far a replica's log reaches: its last epoch row ((0, 0): it has none) and its end; and the confirm offset that
    the replica knows. Offsets are bytes of the commit log.
    """

    name: str
    newest_epoch: int
    newest_begin: int
    end: int
    confirm: int


def best_log(logs: Collection[LogReach]) -> LogReach:
    """The best log; among equals, the first by name. `logs` must not be empty."""
    confirmed = max(log.confirm for log in logs)
    return min(logs, key=lambda log: (*(-part for part in worth(log, confirmed)), log.name))


def worth(log: LogReach, confirmed: int) -> tuple[int, int, int]:
    """The key by which logs are compared; `confirmed`: the highest confirm offset that any replica knows."""
    return int(log.end >= confirmed), log.newest_epoch, log.end


def lost_range(elected: LogReach, logs: Collection[LogReach]) -> tuple[int, int]:
    """Bytes [begin, end) that the elected log lacks of the best one; empty if it is as good.

    If the best has a newer row, its bytes of that epoch are lost, whatever the elected has in their place.
    """
    best = best_log([*logs, elected])
    confirmed = max(log.confirm for log in [*logs, elected])
    if worth(best, confirmed) <= worth(elected, confirmed):
        return elected.end, elected.end
    begin = elected.end if best.newest_epoch <= elected.newest_epoch else min(elected.end, best.newest_begin)
    return begin, max(begin, best.end)
