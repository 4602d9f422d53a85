"""What an operator does who reads docs/operate.md, by the commands that it names: each a process of its own.

`scrub`: has one broker read its log.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

from ...model.errors import RequestTimeout
from .drilled_cluster import DrilledCluster

COMMAND_S: Final = 120
SCRUB_BYTES_PER_SECOND: Final = 256 << 20


class Operator:
    """Of one cluster. One thread."""

    def __init__(self, cluster: DrilledCluster) -> None:
        self._cluster = cluster

    def scrub(self, address: str) -> dict[str, Any]:
        """What a scrub of a broker tells of it; what could not be mended is in it. Raises RequestTimeout."""
        rate = str(SCRUB_BYTES_PER_SECOND)
        done = self._run("store", "scrub", address, "--rate", rate)
        if not done.stdout:
            raise RequestTimeout(f"a scrub of {address}: {done.stderr.strip()}", COMMAND_S * 1000)
        (replica,) = json.loads(done.stdout)["replicas"]
        found: dict[str, Any] = replica
        return found

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "zenitmq", *arguments, "--namesrv", self._cluster.namesrv, "--json"]
        return subprocess.run(  # noqa: S603 (our own interpreter and module)
            command, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
