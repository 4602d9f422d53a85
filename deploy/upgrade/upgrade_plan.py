"""The order in which the servers of a cluster are upgraded, and why it may not be safe to begin now. Pure.

    controllers, the leading one last  ->  name servers  ->  of each group: slaves, then the master

Controllers come first: an older one does not read what a newer one, or a newer broker, has written. The leading one is last, so
that leadership changes once. A master is last in its group: it hands over to a slave that was upgraded before it, and is
elected no more than once. Between two restarts there is a gate: the group of each broker is whole again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...model.plain_dataclass import dataclass

GATE_SECONDS: Final = 10
UNKNOWN: Final = ""
CONTROLLER, NAME_SERVER, BROKER = "controller", "namesrv", "broker"
FOLLOWER = "follower"
"""The role of a replica that is never in sync."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers, or one that does not: then `version` is None. "" = too old to say."""

    role: str
    address: str
    version: str | None = UNKNOWN


@dataclass(frozen=True, slots=True)
class RunningReplica:
    """A broker. `role`: in its group. `drain`: how far its drain is; None if it does not drain."""

    address: str
    name: str
    role: str
    drain: str | None = None


@dataclass(frozen=True, slots=True)
class RunningGroup:
    """The brokers of one name. `in_sync`, `members`: names, as the master knows them; None if there is none, or it says nothing
    of replicas. `can_fail_over`: controllers elect another master."""

    name: str
    replicas: tuple[RunningReplica, ...]
    in_sync: tuple[str, ...] | None = None
    members: tuple[str, ...] | None = None
    min_in_sync: int = 1
    can_fail_over: bool = False

    @property
    def master(self) -> RunningReplica | None:
        """The one that leads."""
        return next((one for one in self.replicas if one.role == "master"), None)

    @property
    def is_replicated(self) -> bool:
        """It has, or had, more than one replica."""
        return len(self.members or self.replicas) > 1

    def missing(self) -> str:
        """Why the group is not whole: a master, and every replica in sync; "" if it is."""
        if self.master is None:
            return f"{self.name} has no master"
        voting = {one.name for one in self.replicas if one.role != FOLLOWER}
        out = sorted({*(self.members or ()), *voting} - {*(self.in_sync or ())})
        return f"{self.name}: not in sync: {', '.join(out)}" if self.is_replicated and out else ""


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One restart. `group`: of a broker; "" else. `note`: what is to be known about it."""

    server: RunningServer
    group: str = ""
    name: str = ""
    note: str = ""

    def document(self, number: int) -> dict[str, Any]:
        """As JSON has it; `gate`: the command that waits until the next one may begin."""
        return {
            "step": number,
            "role": self.server.role,
            "group": self.group or None,
            "name": self.name or None,
            "address": self.server.address,
            "version": self.server.version or None,
            "note": self.note or None,
            "gate": gate(self.group),
        }


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """`refusals`: why it is not safe to begin now. `notes`: what will be noticed all the same."""

    steps: tuple[UpgradeStep, ...]
    refusals: tuple[str, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "safe": not self.refusals,
            "refusals": list(self.refusals),
            "notes": list(self.notes),
            "steps": [step.document(number) for number, step in enumerate(self.steps, 1)],
        }


def gate(group: str) -> str:
    """The command that returns once the next server may be restarted."""
    return f"zenit upgrade wait-in-sync {group}" if group else "zenit upgrade wait-in-sync"


def plan_upgrade(
    servers: Sequence[RunningServer],
    groups: Sequence[RunningGroup],
    *,
    leader: str = "",
    target: str = "",
    versions: str = "",
) -> UpgradePlan:
    """`leader`: the address of the leading controller. `target`: servers that run this version are done. `versions`: what is
    wrong with the versions that run now; "" if nothing is."""
    todo = [server for server in servers if not target or server.version != target]
    steps = [*_control_steps(todo, leader), *_broker_steps(todo, groups)]
    refusals = [versions] if versions else []
    refusals += [f"{one.role} {one.address} does not answer" for one in servers if one.version is None]
    for group in groups:
        refusals += _refusals(group)
    controllers = [server for server in servers if server.role == CONTROLLER]
    notes = [note for group in groups for note in _notes(group)]
    if len(controllers) == 1:
        notes.append("there is one controller: nobody is elected while it restarts, and no master hands over meanwhile")
    if not steps:
        notes.append(f"nothing is left to do: every server runs {target}" if target else "there is no server")
    return UpgradePlan(tuple(steps), tuple(refusals), tuple(notes))


def _control_steps(todo: Sequence[RunningServer], leader: str) -> Iterator[UpgradeStep]:
    controllers = sorted(
        (one for one in todo if one.role == CONTROLLER), key=lambda one: (one.address == leader, one.address)
    )
    for one in controllers:
        yield UpgradeStep(one, note="it leads the controllers" if one.address == leader else "")
    for one in sorted((one for one in todo if one.role == NAME_SERVER), key=lambda one: one.address):
        yield UpgradeStep(one)


def _broker_steps(todo: Sequence[RunningServer], groups: Sequence[RunningGroup]) -> Iterator[UpgradeStep]:
    servers = {one.address: one for one in todo if one.role == BROKER}
    for group in sorted(groups, key=lambda group: group.name):
        for replica in sorted(group.replicas, key=lambda one: (one.role == "master", one.name)):
            server = servers.pop(replica.address, None)
            if server is None:
                continue
            note = ""
            if replica.role == "master" and group.is_replicated:
                note = "master: it hands over" if group.can_fail_over else "master: writes wait until it is back"
            yield UpgradeStep(server, group.name, replica.name, note)
    for server in sorted(servers.values(), key=lambda one: one.address):
        yield UpgradeStep(server)


def _refusals(group: RunningGroup) -> Iterator[str]:
    if missing := group.missing():
        yield f"{missing}: wait, or look at zenit controller status {group.name}"
    elif group.is_replicated and len(group.in_sync or ()) <= group.min_in_sync:
        yield (
            f"{group.name}: {len(group.in_sync or ())} in sync, {group.min_in_sync} needed: it takes no writes while one"
            f" of them restarts; add a replica, or first: zenit controller settings {group.name}"
            f" --min-in-sync {max(1, group.min_in_sync - 1)}"
        )


def _notes(group: RunningGroup) -> Iterator[str]:
    if not group.is_replicated:
        yield f"{group.name} has no replicas: its messages wait while it restarts"
    for one in group.replicas:
        if one.drain is not None:
            yield f"{one.name} drains: after its restart it may lead again"
