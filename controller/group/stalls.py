"""Decides whether a living master stalls its group while another would not, from the heartbeats. Pure.

A master is replaced if its own heartbeats say, for the whole dead time, that it cannot do its work (for a full disk
half of that), and others report that they could:

- it was elected, and has not reported that its promise is durable;
- under `flush = sync` its disk hangs in a sync; or it has no room for a message: while as many others as the
  minimum have disks that work;
- too few replicas for the minimum acknowledge anything to it, while as many others as the minimum report that they have no
  session with it, though they reach the controller.

A single complaint is no reason: a master that has its minimum stays, whatever one slave reports, and so does
one whose successor would have fewer than the minimum. candidates decides who takes over, and how often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...model.groups.group import FlushMode, GroupNode
from .candidates import Candidates


@dataclass(frozen=True, slots=True)
class Stall:
    """`others_would_serve`: as many as the minimum report that they could; otherwise people must act."""

    why: str
    others_would_serve: bool = True


def stall(
    node: GroupNode, candidates: Candidates, *, term_began_ms: int, dead_after_ms: int, now_ms: int
) -> Stall | None:
    """The stall of the master that `node` names; None if there is none that others could end.

    `term_began_ms`: when this epoch was first known here.
    """
    sign = candidates.sign(node, node.master)
    if sign is None or not candidates.is_heard(node, node.master, now_ms, dead_after_ms):
        return None
    if sign.epoch < node.epoch:
        is_late = now_ms - term_began_ms >= dead_after_ms
        return Stall(f"{node.master} has not promised epoch {node.epoch} in {dead_after_ms} ms") if is_late else None
    is_sync = node.settings.flush_mode is FlushMode.SYNC

    def is_able(name: str) -> bool:
        return candidates.is_able(node, name, now_ms)

    def is_parted(name: str) -> bool:
        other = candidates.sign(node, name)
        return is_able(name) and other is not None and other.epoch == node.epoch and other.cut_off_ms >= dead_after_ms

    if is_sync and sign.sync_pending_ms >= dead_after_ms:
        return Stall(f"the disk of {node.master} does not finish a sync", _enough_others(node, is_able))
    if sign.no_room_ms >= dead_after_ms // 2:
        return Stall(f"the disk of {node.master} is full", _enough_others(node, is_able))
    if sign.cut_off_ms >= dead_after_ms and _enough_others(node, is_parted):
        return Stall(f"{node.master} and the other replicas do not reach each other")
    return None


def _enough_others(node: GroupNode, counts: Callable[[str], bool]) -> bool:
    """True if as many replicas as the minimum count, without the master."""
    others = [replica.name for replica in node.members if replica.name != node.master and counts(replica.name)]
    return len(others) >= node.settings.min_in_sync
