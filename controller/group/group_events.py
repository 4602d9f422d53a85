"""The events of a replica group: what differs between its node before and after a write. Pure.

One place for all of them, whoever decided the write: detection, the master, an operator. `Reasons` has what the node does not
hold: why an epoch was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...model.events.event import EventKind
from ...model.events.table import (
    ELECTED,
    ELECTION_FORCED,
    GROUP_FOUNDED,
    GROUP_RESTORED,
    IN_SYNC_CHANGED,
    REPLICA_JOINED,
    REPLICA_LEFT,
    SETTINGS_CHANGED,
)
from ...model.groups.group import GroupNode, GroupSettings
from ...model.plain_dataclass import dataclass
from .audit_record import ForcedElection

Told = tuple[EventKind, Mapping[str, object]]

FOUND_LATER: Final = "not told by the controller that elected it; found by the next one"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group has this epoch. `forced`: the record of an election that an operator forced."""

    epoch: int
    why: str
    forced: ForcedElection | None = None


class Reasons:
    """The last reason of each group; given when a write is decided, asked for when it is known to be written."""

    def __init__(self) -> None:
        self._reasons: dict[str, Reason] = {}

    def because(self, node: GroupNode, why: str, forced: ForcedElection | None = None) -> None:
        """The node's epoch, if it is written, is for this reason."""
        self._reasons[node.broker_name] = Reason(node.epoch, why, forced)

    def of(self, node: GroupNode) -> Reason:
        """Why the node has its epoch; without a text if another controller gave it."""
        reason = self._reasons.get(node.broker_name)
        return reason if reason is not None and reason.epoch == node.epoch else Reason(node.epoch, "")


def events_between(before: GroupNode | None, after: GroupNode, reason: Reason) -> Iterator[Told]:
    """What happened to the group, in the order in which it is to be told. `before` None: it was founded."""
    group, epoch = {"group": after.broker_name}, {"epoch": after.epoch}
    if before is None:
        facts = _settings(after.settings)
        del facts["lag_ms_max"]
        yield GROUP_FOUNDED, group | facts
        before = GroupNode(broker_name=after.broker_name, settings=after.settings)
    yield from _replicas(before, after)
    if after.epoch > before.epoch:
        yield from _election(before, after, reason)
    elif before.in_sync != after.in_sync:
        joined = sorted(set(after.in_sync) - set(before.in_sync))
        left = sorted(set(before.in_sync) - set(after.in_sync))
        members = {"in_sync": after.in_sync, "joined": joined, "left": left}
        yield IN_SYNC_CHANGED, group | epoch | members | {"min_in_sync": after.settings.min_in_sync}
    if before.settings != after.settings:
        yield SETTINGS_CHANGED, group | epoch | _settings(after.settings)


def _replicas(before: GroupNode, after: GroupNode) -> Iterator[Told]:
    for replica in after.replicas:
        known = before.replica(replica.name)
        if known is None or known.incarnation != replica.incarnation:
            facts = {"replica": replica.name, "peer": replica.address, "starts": replica.incarnation.starts}
            yield REPLICA_JOINED, {"group": after.broker_name} | facts
    for replica in before.replicas:
        if after.replica(replica.name) is None:
            yield REPLICA_LEFT, {"group": after.broker_name, "replica": replica.name}


def _election(before: GroupNode, after: GroupNode, reason: Reason) -> Iterator[Told]:
    facts: dict[str, object] = {"group": after.broker_name, "epoch": after.epoch}
    if after.master is None:
        yield GROUP_RESTORED, facts
        return
    yield ELECTED, election_facts(after, old_master=before.master, why=reason.why)
    if (forced := reason.forced) is not None:
        lost = {"lost_begin": forced.lost_begin, "lost_end": forced.lost_end}
        yield ELECTION_FORCED, facts | {"master": after.master} | lost


def election_facts(node: GroupNode, *, old_master: str | None, why: str) -> dict[str, object]:
    """The facts of the election that gave the node its epoch."""
    members = {"master": node.master, "old_master": old_master, "in_sync": node.in_sync}
    return {"group": node.broker_name, "epoch": node.epoch, **members, "why": why}


def _settings(settings: GroupSettings) -> dict[str, object]:
    modes = {"flush_mode": settings.flush_mode.value, "ack_mode": settings.ack_mode.value}
    return {"min_in_sync": settings.min_in_sync, **modes, "lag_ms_max": settings.lag_ms_max}
