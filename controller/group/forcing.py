"""The node and the record of an operator's forced election of a replica that may lack acknowledged messages (R10). Pure.

log_reach decides which log is the best, and what another one lacks of it; the record stores that for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...model.errors import InvalidParameter, MasterStillAlive
from ...model.groups.group import GroupNode
from ...model.groups.log_reach import LogReach, best_log, lost_range
from .audit_record import ForcedElection
from .group_state import check_not_lost, crowned, electable, known_replica


def force_election(
    node: GroupNode, elected: LogReach, logs: Collection[LogReach], *, wait_ms: int, epoch_seen: int, now_ms: int
) -> tuple[GroupNode, ForcedElection]:
    """The node after an operator forced a replica that may lack acknowledged messages, and the record of that.

    Both sets contain only the elected one. `wait_ms`: the rest of the former master's dead time; `logs`: of every
    heard replica. Raises UnknownReplica, MasterStillAlive, GroupNodeLost; InvalidParameter if no force is
    needed.
    """
    check_not_lost(node, epoch_seen)
    name = elected.name
    replica = known_replica(node, name)
    if name in electable(node):
        raise InvalidParameter("force", "true", f"false: {name} holds all that was acknowledged")
    if wait_ms > 0:
        raise MasterStillAlive(node.broker_name, node.master or "", wait_ms)
    best = best_log([*logs, elected])
    lost_begin, lost_end = lost_range(elected, logs)
    record = ForcedElection(
        broker_name=node.broker_name,
        epoch=node.epoch + 1,
        elected=name,
        elected_newest_epoch=elected.newest_epoch,
        elected_end=elected.end,
        best=best.name,
        best_newest_epoch=best.newest_epoch,
        best_end=best.end,
        old_master=node.master or "",
        in_sync=node.in_sync,
        eligible=node.eligible,
        last=node.last or "",
        lost_begin=lost_begin,
        lost_end=lost_end,
        at_ms=now_ms,
        by="",
    )
    return crowned(replace(node, in_sync=(name,), eligible=(), last=None), replica), record
