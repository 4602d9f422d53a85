"""A cluster of two replicas whose disks are lost, what is beside it, and their user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.store.opening.checkpoint import read_checkpoint
from zenitmq.store.upkeep import CHECKPOINT_FILE

ZENIT = str(Path(sys.executable).with_name("zenit"))
SMALL = "segment_bytes=1048576 index_slots=1024 index_entries=4096 checkpoint_interval_ms=100".split()
WAIT_MS = 60_000


class Site:
    """`beside`: a process that goes on until `end_beside`."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "z"
        self.target = home / "target"
        self.target.mkdir()
        self.environment = {**os.environ, "HOME": str(home)}
        self.environment.pop("ZENIT_NAMESRV", None)
        self.beside: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [ZENIT, *arguments], input=stdin, env=self.environment, capture_output=True, timeout=150, check=False
        )
        assert done.returncode == 0, f"zenit {' '.join(arguments)}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        return done.stdout

    def says(self, *arguments: str) -> int:
        """The status of a command that may fail."""
        return subprocess.run(
            [ZENIT, *arguments], env=self.environment, capture_output=True, timeout=150, check=False
        ).returncode

    def start(self) -> None:
        """Until both are in sync."""
        settings = [text for value in SMALL for text in ("--set", f"store.{value}")]
        self.run("up", "--dir", str(self.directory), "--detach", "--replicas", "2", *settings)
        self.wait(self.is_whole)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def status(self) -> dict[str, Any]:
        return dict(self.json("status", "--dir", str(self.directory)))

    def group(self) -> dict[str, Any]:
        return dict(self.status()["groups"][0])

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline_ms = monotonic_ms() + WAIT_MS
        while not condition():
            assert monotonic_ms() < deadline_ms, json.dumps(self.status()["groups"])
            sleep_ms(200)

    def store(self, name: str) -> Path:
        return self.directory / name

    def kill(self, *names: str) -> None:
        """kill -9."""
        for process in self.status()["processes"]:
            if process["name"] in names:
                os.kill(process["pid"], signal.SIGKILL)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("events", "--json").splitlines()]

    def start_beside(self, *command: str) -> None:
        self.beside = subprocess.Popen([ZENIT, *command], env=self.environment, stderr=subprocess.DEVNULL)

    def backup(self) -> dict[str, Any]:
        return dict(self.json("backup", "status", str(self.target), "--group", "broker-a"))

    def follow(self, name: str) -> None:
        """From when the store's first checkpoint says how far its log is on the disk."""
        checkpoint = str(self.store(name) / CHECKPOINT_FILE)
        self.wait(lambda: read_checkpoint(checkpoint).flushed_offset is not None)
        places = (str(self.store(name)), str(self.target))
        self.start_beside("backup", "run", *places, "--group", "broker-a", "--follow", "--tail-every", "200ms")

    def end_beside(self) -> int:
        assert self.beside is not None
        self.beside.send_signal(signal.SIGTERM)
        status, self.beside = self.beside.wait(30), None
        return status

    def is_whole(self) -> bool:
        group = self.group()
        return sorted(group["in_sync"] or ()) == ["broker-a-1", "broker-a-2"]

    def consume(self, group: str, count: int, *options: str) -> list[bytes]:
        limits = ("--max", str(count), "--idle-exit", "15")
        return self.run("consume", "orders", "--group", group, *limits, *options).split(b"\n")[:-1]
