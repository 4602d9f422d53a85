"""The cluster of a drill: started by `zenit up`, observed, and read back completely.

Faults are elsewhere (faults.py); this is what a drill must know and restart. `zenit up` runs in a process of its own with a
home inside the directory, so that the user's last started cluster stays the last one, and so that the drill's present
environment and group id are inherited by the started processes.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ClusterNotStarted, InvalidParameter, NoCluster, RequestTimeout, StoreFormatError
from ...remoting.client import RemotingClient
from ...remoting.commands import GetBrokerStatistics
from ..cluster_keys import ADMINISTRATOR, administrator
from ..cluster_plan import key_path
from ..cluster_record import BROKER, CONTROLLER, ProcessRecord
from ..cluster_status import ask_json
from ..local_cluster import ProcessCluster
from ..processes import is_running, terminate
from .log_compare import differences
from .watch import quarantined

UP_TIMEOUT_S: Final = 180
END_S: Final = 20  # for an interrupted `up` to stop what it started
STOP_MS: Final = 20_000
HEALTHY_MS: Final = 60_000
LOOK_MS: Final = 50
LOOK_AGAIN_MS: Final = 1_000

Group = Mapping[str, Any]


class DrilledCluster:
    """One cluster of one or several replica groups, of which one at a time is the target. One thread."""

    def __init__(
        self,
        directory: str,
        *,
        replicas: int,
        controllers: int = 1,
        groups: int = 1,
        settings: Sequence[str] = (),
        is_given: bool = False,
        secure: bool = False,
    ) -> None:
        """`replicas`: of each of `groups`.

        `controllers`: 0 = a static master. `settings`: of the brokers, in the form for `--set`. `is_given`: it runs
        already, and is left running. `secure`: with keys and users.
        """
        self._secure = secure
        self.directory = os.path.abspath(directory)
        self.replicas = replicas
        self.groups = groups
        self.aim = 0  # the number of the group to which `group`, `master` and `slaves` refer
        self.is_given = is_given
        self._controllers = controllers
        self._settings = tuple(settings)
        self._local = ProcessCluster(self.directory)
        self._started: tuple[ProcessRecord, ...] = ()

    # ---- up and down

    def up(self, environ: Mapping[str, str] | None = None, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Starts what is down and waits until it answers. `environ`: added to the processes' environment. `meanwhile`:
        called after the start has begun.

        Raises ClusterNotStarted, RequestTimeout.
        """
        command = [sys.executable, "-P", "-m", "zenitmq", "up", "--dir", self.directory, "--detach"]
        if self._secure:
            command.append("--secure")
        if self.replicas > 1:
            command += ["--replicas", str(self.replicas)]
            command += ["--controllers", str(self._controllers)] if self._controllers else ["--no-controller"]
        if self.groups > 1:
            command += ["--groups", str(self.groups)]
        for setting in self._settings:
            command += ["--set", setting]
        environment = {**os.environ, **(environ or {})}
        if not self.is_given:
            environment["HOME"] = self.directory
        try:
            with subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as child:
                try:
                    meanwhile()
                    _, told = child.communicate(timeout=UP_TIMEOUT_S)
                except BaseException:
                    _end(child)
                    raise
        except subprocess.TimeoutExpired as error:
            raise RequestTimeout("zenit up", UP_TIMEOUT_S * 1000) from error
        if child.returncode:
            said = told.strip().splitlines() or [f"exit code {child.returncode}"]
            reason = f"did not start: {said[-1].removeprefix('zenit: ')}"
            raise ClusterNotStarted("the drill's cluster", reason, os.path.join(self.directory, "log"))
        self._started = self._local.existing().processes

    def down(self) -> None:
        """Stops the cluster, unless it was given; from our own list of processes if its record is unreadable."""
        if self.is_given:
            return
        try:
            with suppress(NoCluster):  # an interrupted `up` has stopped all that it started
                self._local.down()
        finally:
            for process in reversed(self._started):
                terminate(process.pid, process.birth, timeout_ms=STOP_MS, hands_over=process.role != BROKER)

    # ---- observing

    @property
    def namesrv(self) -> str:
        """The name server's address."""
        return self._local.existing().namesrv

    def processes(self, role: str) -> list[ProcessRecord]:
        """The processes of a role, in the order of their start."""
        return list(self._local.existing().of_role(role))

    def brokers(self) -> list[ProcessRecord]:
        """The replicas."""
        return self.processes(BROKER)

    def process(self, name: str) -> ProcessRecord:
        """The process with this name, as recorded now. Raises InvalidParameter."""
        found = next((process for process in self._local.existing().processes if process.name == name), None)
        if found is None:
            raise InvalidParameter("process", name, f"one of the cluster in {self.directory}")
        return found

    def log_path(self, name: str) -> str:
        """The log file of a process."""
        return self._local.log_path(name)

    def all_groups(self) -> list[Group]:
        """The replica groups as in `zenit status`, by name. Raises InvalidParameter if their number is wrong."""
        groups: list[Group] = self._local.status()["groups"]
        if len(groups) != self.groups:
            raise InvalidParameter("groups", len(groups), f"{self.groups}: a drill is of so many replica groups")
        return sorted(groups, key=lambda group: str(group["broker_name"]))

    def group(self) -> Group:
        """The target group."""
        return self.all_groups()[self.aim]

    def members(self, group: Group) -> list[ProcessRecord]:
        """The processes of a group's replicas."""
        return [self.process(replica["name"]) for replica in group["replicas"]]

    def leading_controller(self) -> ProcessRecord | None:
        """The leading controller, if status shows it; else the first running one; None if none runs."""
        running = [process for process in self.processes(CONTROLLER) if is_running(process.pid, process.birth)]
        leader = self._local.status().get("controller")
        leading = [process for process in running if leader in (process.name, process.address)]
        return next(iter(leading or running), None)

    def master(self) -> ProcessRecord:
        """The master of the target group. Raises RequestTimeout if there is none for too long."""
        return self._wait_master(lambda name: name is not None, "the group has a master")

    def next_master(self, old: str, timeout_ms: int) -> ProcessRecord:
        """The master that takes over from `old`. Raises RequestTimeout."""
        return self._wait_master(lambda name: name not in (None, old), f"another leads than {old}", timeout_ms)

    def slaves(self) -> list[ProcessRecord]:
        """The running replicas of the target group, without the master."""
        master = self.master().name
        return [p for p in self.members(self.group()) if p.name != master and is_running(p.pid, p.birth)]

    def quarantined(self) -> list[str]:
        """In-sync replicas with quarantined ranges, as text."""
        in_sync = [name for group in self.all_groups() for name in group["in_sync"] or ()]
        return quarantined(in_sync, {name: answer["store"] for name, answer in self._statistics().items()})

    def mended_ranges(self) -> dict[str, int]:
        """How many damaged ranges each answering replica has repaired since its start."""
        return {name: answer.get("repairs", {}).get("mended_ranges", 0) for name, answer in self._statistics().items()}

    @property
    def key(self) -> str:
        """The administrator's key file, of a secured cluster."""
        return key_path(self._local.existing(), ADMINISTRATOR)

    def administrator(self) -> RemotingClient:
        """A client that may ask all processes everything."""
        return administrator(self._local.existing())

    def _statistics(self) -> dict[str, dict[str, Any]]:
        """The statistics of each answering replica."""
        with self.administrator() as client:
            answers = {
                broker.name: ask_json(client, broker.address, GetBrokerStatistics()) for broker in self.brokers()
            }
        return {name: answer for name, answer in answers.items() if answer is not None}

    def differing_logs(self) -> list[str]:
        """Replicas of a group whose logs differ, byte for byte, as text; call it when they are level. Raises OSError.

        The logs are read one after the other, and a master may append by itself in between (the end of a lease, a client's
        offsets): what differs has to differ from the same byte on when it is read again.
        """
        found = self._differences()
        if found:
            sleep_ms(LOOK_AGAIN_MS)
            again = self._differences()
            found = [text for text in found if text in again]
        return found

    def _differences(self) -> list[str]:
        return [
            text
            for group in self.all_groups()
            for text in differences({each.name: each.store_dir or "" for each in self.members(group)})
        ]

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

    def _wait_master(
        self, fits: Callable[[str | None], bool], what: str, timeout_ms: int = HEALTHY_MS
    ) -> ProcessRecord:
        groups = self._wait(lambda groups: fits(groups[self.aim]["master"]), what, timeout_ms)
        return self.process(groups[self.aim]["master"])

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


def _end(child: subprocess.Popen[str]) -> None:
    """Makes `zenit up` stop what it started, and waits, because it holds the cluster's lock. Kills it if it does not end."""
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(END_S)
