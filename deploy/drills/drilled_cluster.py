"""The cluster of a drill: observed, waited for, and asked who is what in it.

Faults are elsewhere (faults.py), and so is how a server is found and harmed (servers.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import InvalidParameter, RequestTimeout, StoreFormatError
from ...remoting.commands import GetBrokerStatistics
from ..cluster_record import BROKER, CONTROLLER, ServerRecord
from ..cluster_status import ask_json
from .servers import Group, Servers
from .watch import quarantined

HEALTHY_MS: Final = 60_000
LOOK_MS: Final = 50


class DrilledCluster:
    """One cluster of one or several replica groups, of which one at a time is the target. One thread."""

    def __init__(self, servers: Servers, *, replicas: int, groups: int = 1) -> None:
        """`replicas`: of each of `groups`."""
        self.servers = servers
        self.replicas = replicas
        self.groups = groups
        self.aim = 0  # the number of the group to which `group`, `master` and `slaves` refer

    # ---- observing

    @property
    def namesrv(self) -> str:
        """The name servers' addresses."""
        return self.servers.namesrv

    def of_role(self, role: str) -> Sequence[ServerRecord]:
        """The servers of a role, in the order of their start."""
        return self.servers.listed(role)

    def brokers(self) -> Sequence[ServerRecord]:
        """The replicas."""
        return self.of_role(BROKER)

    def server(self, name: str) -> ServerRecord:
        """The server with this name. Raises InvalidParameter."""
        found = next((server for server in self.servers.listed() if server.name == name), None)
        if found is None:
            raise InvalidParameter("server", name, f"one of the cluster in {self.servers.where}")
        return found

    def all_groups(self) -> list[Group]:
        """The replica groups as in `zenit status`, by name. Raises InvalidParameter if their number is wrong."""
        groups: Sequence[Group] = self.servers.status()["groups"]
        if len(groups) != self.groups:
            raise InvalidParameter("groups", len(groups), f"{self.groups}: a drill is of so many replica groups")
        return sorted(groups, key=lambda group: str(group["broker_name"]))

    def group(self) -> Group:
        """The target group."""
        return self.all_groups()[self.aim]

    def members(self, group: Group) -> list[ServerRecord]:
        """The servers of a group's replicas."""
        return [self.server(replica["name"]) for replica in group["replicas"]]

    def leading_controller(self) -> ServerRecord | None:
        """The leading controller, if status shows it; else the first running one; None if none runs."""
        running = [controller for controller in self.of_role(CONTROLLER) if self.servers.is_running(controller)]
        leader = self.servers.status().get("controller")
        leading = [controller for controller in running if leader in (controller.name, controller.address)]
        return next(iter(leading or running), None)

    def master(self) -> ServerRecord:
        """The master of the target group. Raises RequestTimeout if there is none for too long."""
        return self._wait_master(lambda name: name is not None, "the group has a master")

    def next_master(self, old: str, timeout_ms: int) -> ServerRecord:
        """The master that takes over from `old`. Raises RequestTimeout."""
        return self._wait_master(lambda name: name not in (None, old), f"another leads than {old}", timeout_ms)

    def slaves(self) -> list[ServerRecord]:
        """The running replicas of the target group, without the master."""
        master = self.master().name
        return [one for one in self.members(self.group()) if one.name != master and self.servers.is_running(one)]

    def quarantined(self) -> list[str]:
        """In-sync replicas with quarantined ranges, as text."""
        in_sync = [name for group in self.all_groups() for name in group["in_sync"] or ()]
        return quarantined(in_sync, {name: answer["store"] for name, answer in self._statistics().items()})

    def mended_ranges(self) -> dict[str, int]:
        """How many damaged ranges each answering replica has repaired since its start."""
        return {name: answer.get("repairs", {}).get("mended_ranges", 0) for name, answer in self._statistics().items()}

    def _statistics(self) -> dict[str, dict[str, Any]]:
        """The statistics of each answering replica."""
        with self.servers.client() as client:
            answers = {
                broker.name: ask_json(client, broker.address, GetBrokerStatistics()) for broker in self.brokers()
            }
        return {name: answer for name, answer in answers.items() if answer is not None}

    # ---- waiting

    def wait_healthy(self, timeout_ms: int = HEALTHY_MS) -> None:
        """Waits until there is a master and every replica is in sync. Raises RequestTimeout, which gives the state.

        A replica that copies a long log may take longer, as long as it makes progress.
        """
        self._wait(
            lambda groups: all(_is_healthy(group, self.replicas) for group in groups),
            "every replica is in sync",
            timeout_ms,
            _lag_bytes,
        )

    def wait_level(self, timeout_ms: int = HEALTHY_MS) -> None:
        """Waits, without load, until every replica has the same log and knows it confirmed. Raises RequestTimeout."""
        self._wait(lambda groups: all(map(_is_level, groups)), "all replicas hold the same", timeout_ms)

    def _wait_master(self, fits: Callable[[str | None], bool], what: str, timeout_ms: int = HEALTHY_MS) -> ServerRecord:
        groups = self._wait(lambda groups: fits(groups[self.aim]["master"]), what, timeout_ms)
        return self.server(groups[self.aim]["master"])

    def _wait(
        self,
        condition: Callable[[list[Group]], bool],
        what: str,
        timeout_ms: int = HEALTHY_MS,
        left: Callable[[Group], int] = lambda _: 0,
    ) -> list[Group]:
        """Waits for a condition of all groups; returns them as they are then.

        The time starts again whenever what is `left` to do is a tenth less than ever before.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        least: float = math.inf
        while True:
            try:
                groups = self.all_groups()
                if condition(groups):
                    return groups
                stands = " | ".join(map(_standing, groups))
                if (now_left := sum(map(left, groups))) < 0.9 * least:
                    least = now_left
                    deadline_ms = monotonic_ms() + timeout_ms
            except (StoreFormatError, StopIteration) as error:  # read while `zenit up` rewrites it
                stands = str(error)
            if monotonic_ms() >= deadline_ms:
                raise RequestTimeout(f"{what}; it stands: {stands}", timeout_ms)
            sleep_ms(LOOK_MS)


def _is_healthy(group: Group, replicas: int) -> bool:
    roles = [replica["role"] for replica in group["replicas"]]
    return len(group["in_sync"] or ()) == replicas == len(roles) and sorted(roles) == ["master"] + ["slave"] * (
        replicas - 1
    )


def _lag_bytes(group: Group) -> int:
    """How many bytes of the longest log the replica furthest behind lacks."""
    ends = [replica["written_offset"] or 0 for replica in group["replicas"]]
    return max(ends, default=0) - min(ends, default=0)


def _is_level(group: Group) -> bool:
    ends = {(replica["written_offset"], replica["confirm_offset"]) for replica in group["replicas"]}
    return len(ends) == 1 and all(None not in end and end[0] == end[1] for end in ends)


def _standing(group: Group) -> str:
    replicas = ", ".join(
        f"{replica['name']} {replica['role']} {replica['written_offset']}/{replica['confirm_offset']}"
        for replica in group["replicas"]
    )
    in_sync = "not known" if group["in_sync"] is None else ",".join(group["in_sync"]) or "none"
    return f"master {group['master']}, in sync {in_sync}; {replicas}"
