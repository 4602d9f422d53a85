"""Does what docs/operate.md tells an operator to do, with the commands there, each in a process of its own.

`wait_blocked`, `restore`: for a group whose node in ZooKeeper was lost or set back. `scrub`: makes one broker read its log.
`elect_another`: an orderly change of master.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import RequestTimeout
from ...model.groups.log_reach import LogReach, best_log
from .drilled_cluster import DrilledCluster
from .servers import Group

COMMAND_S: Final = 120
SCRUB_S: Final = 900  # it yields to a busy broker's other work
BLOCKED_MS: Final = 30_000
ELECTED_MS: Final = 60_000
PAUSE_MS: Final = 200
SCRUB_BYTES_PER_SECOND: Final = 256 << 20


class Operator:
    """The operator of one cluster. One thread."""

    def __init__(self, cluster: DrilledCluster) -> None:
        self._cluster = cluster
        self._said = ""

    def elect_another(self, name: str) -> None:
        """Makes another replica of the group its master. Raises RequestTimeout."""
        self._again("an orderly election", lambda: self._zenit("controller", "elect", name) is not None)

    def wait_blocked(self, name: str) -> None:
        """Waits until `zenit status` says that the group was lost or set back. Raises RequestTimeout."""
        self._again(f"{name} is told to be blocked", lambda: self._group(name)["blocked"] is not None, BLOCKED_MS)

    def restore(self, name: str) -> None:
        """Restores the group, and elects the replica with the best log. Raises RequestTimeout with the last answer."""
        self._again(f"{name} is restored", lambda: self._restored(name))
        self._again(f"{name} has a master", lambda: self._elected(name))

    def scrub(self, address: str) -> dict[str, Any]:
        """The result of a broker's scrub, including damage that could not be repaired. Raises RequestTimeout."""
        rate = str(SCRUB_BYTES_PER_SECOND)
        done = self._run("store", "scrub", address, "--rate", rate, timeout_s=SCRUB_S)
        if not done.stdout:
            raise RequestTimeout(f"a scrub of {address}: {done.stderr.strip()}", SCRUB_S * 1000)
        (replica,) = json.loads(done.stdout)["replicas"]
        found: dict[str, Any] = replica
        return found

    def _restored(self, name: str) -> bool:
        epochs = [replica["epoch"] or 0 for replica in self._group(name)["replicas"]]
        return self._zenit("controller", "restore", name, "--epoch", str(max(epochs))) is not None

    def _elected(self, name: str) -> bool:
        status = self._zenit("controller", "status", name)
        if status is None:
            return False
        logs = [
            LogReach(
                name=replica["replica"],
                newest_epoch=replica["newest_epoch"],
                newest_begin=0,
                end=replica["written_offset"],
                confirm=replica["confirm_offset"],
            )
            for replica in status["replicas"]
            if replica["written_offset"] is not None
        ]
        members = self._cluster.members(self._group(name))
        if len(logs) < len(members):  # one that has not registered again may have the best log
            return False
        best = best_log(logs).name
        return self._zenit("controller", "elect", name, "--replica", best, "--force") is not None

    def _group(self, name: str) -> Group:
        return next(group for group in self._cluster.all_groups() if group["broker_name"] == name)

    def _zenit(self, *arguments: str) -> dict[str, Any] | None:
        """The document that a command prints; None if it is refused."""
        done = self._run(*arguments)
        self._said = done.stderr.strip()
        if done.returncode:
            return None
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def _run(self, *arguments: str, timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Raises RequestTimeout."""
        command = [sys.executable, "-P", "-m", "zenitmq", *arguments, "--namesrv", self._cluster.namesrv, "--json"]
        try:
            return subprocess.run(  # noqa: S603 (our own interpreter and module)
                command, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RequestTimeout(f"zenit {' '.join(arguments)}", int(timeout_s * 1000)) from error

    def _again(self, what: str, is_done: Callable[[], bool], timeout_ms: int = ELECTED_MS) -> None:
        deadline_ms = monotonic_ms() + timeout_ms
        self._said = ""
        while not is_done():
            if monotonic_ms() >= deadline_ms:
                raise RequestTimeout(f"{what}; the last answer: {self._said or 'none'}", timeout_ms)
            sleep_ms(PAUSE_MS)
