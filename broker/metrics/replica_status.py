"""What a broker is in its group at this moment, for metrics and readiness. Pure."""

from __future__ import annotations

from ...model.groups.group import KnownGroup
from ...model.plain_dataclass import dataclass

NO_CONTROLLER = "no controller: it hears from none of them"
NO_MASTER = "no master: the group has none, or its controller has not said who it is"
NOT_MEMBER = "not a member: its controller has not registered it"
NOT_CONFIRMED = "recovering: as master it waits until enough replicas have the log that it inherited"
TOO_FEW = "too few replicas in sync: the group takes no writes"
DRAINS = "drains"
NOT_IN_SYNC = "not in sync: it copies what its master has more of"


@dataclass(frozen=True, slots=True)
class OtherReplica:
    """Another replica of the group, as its master sees it."""

    name: str
    lag_bytes: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """`role`: master, slave or candidate. `in_sync`, `min_in_sync`, `replicas`: counts, None where this broker does not say
    it. `reasons`: why it is not ready, as far as its group is concerned."""

    role: str
    epoch: int
    in_sync: int | None = None
    min_in_sync: int | None = None
    replicas: int | None = None
    others: tuple[OtherReplica, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_master(self) -> bool:
        """It leads the group."""
        return self.role == "master"


def reasons_not_ready(
    name: str,
    role: str,
    known: KnownGroup | None,
    *,
    is_linked: bool,
    halted: str | None,
    serves_state: bool,
    takes_writes: bool,
    drain: str | None = None,
) -> tuple[str, ...]:
    """Why a replica is not ready. `is_linked`: a controller answers. `serves_state`, `takes_writes`: of a master.
    `drain`: how far its drain is, None if it does not drain."""
    reasons = [] if is_linked else [NO_CONTROLLER]
    if drain is not None:
        return (*reasons, f"{DRAINS}: {drain}")
    if halted is not None:
        reasons.append(f"halted: {halted}")
    if role == "master":
        reasons += [] if serves_state else [NOT_CONFIRMED]
        reasons += [] if takes_writes else [TOO_FEW]
    elif known is None or role == "candidate":
        reasons.append(NOT_MEMBER if known is None else NO_MASTER)
    elif name not in known.node.in_sync:
        reasons.append(NOT_IN_SYNC)
    return tuple(reasons)
