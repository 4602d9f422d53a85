"""A replica group whose disks are all lost comes back from its backup, as docs/backup.md says: with ZooKeeper, and without."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zenitmq.model.clock import monotonic_ms, sleep_ms

pytestmark = pytest.mark.timeout(300)

ZENIT = str(Path(sys.executable).with_name("zenit"))
SMALL = "segment_bytes=1048576 index_slots=1024 index_entries=4096 checkpoint_interval_ms=100".split()
WAIT_MS = 25_000


class Site:
    """A cluster of two replicas, a backup beside one of them, and their user."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "z"
        self.target = home / "target"
        self.target.mkdir()
        self.environment = {**os.environ, "HOME": str(home)}
        self.environment.pop("ZENIT_NAMESRV", None)
        self.following: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [ZENIT, *arguments], input=stdin, env=self.environment, capture_output=True, timeout=150, check=False
        )
        assert done.returncode == 0, f"zenit {' '.join(arguments)}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        return done.stdout

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

    def backup(self) -> dict[str, Any]:
        return dict(self.json("backup", "status", str(self.target), "--group", "broker-a"))

    def follow(self, name: str) -> None:
        command = [ZENIT, "backup", "run", str(self.store(name)), str(self.target), "--group", "broker-a", "--follow"]
        self.following = subprocess.Popen([*command, "--tail-every", "200ms"], env=self.environment)

    def end_following(self) -> int:
        assert self.following is not None
        self.following.send_signal(signal.SIGTERM)
        status, self.following = self.following.wait(30), None
        return status

    def is_whole(self) -> bool:
        group = self.group()
        return sorted(group["in_sync"] or ()) == ["broker-a-1", "broker-a-2"]

    def consume(self, group: str, count: int, *options: str) -> list[bytes]:
        limits = ("--max", str(count), "--idle-exit", "15")
        return self.run("consume", "orders", "--group", group, *limits, *options).split(b"\n")[:-1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    if made.following is not None:
        made.end_following()
    if (made.directory / "cluster.json").exists():
        made.run("down", "--dir", str(made.directory))


def lose_all_disks(site: Site) -> None:
    site.run("down", "--dir", str(site.directory))
    for name in ("broker-a-1", "broker-a-2"):
        shutil.rmtree(site.store(name))


def test_a_group_comes_back_from_its_backup(site: Site) -> None:
    settings = [text for value in SMALL for text in ("--set", f"store.{value}")]
    site.run("up", "--dir", str(site.directory), "--detach", "--replicas", "2", *settings)
    site.wait(site.is_whole)
    site.run("topic", "create", "orders", "--queues", "2")
    site.run("produce", "orders", stdin=b"".join(b"%d %s\n" % (k, b"x" * 1000) for k in range(3000)))
    assert len(site.consume("readers", 500)) == 500
    site.follow("broker-a-2")
    confirmed = max(replica["confirm_offset"] for replica in site.group()["replicas"])
    site.wait(lambda: bool(list(site.target.glob("broker-a/manifest"))) and site.backup()["end_offset"] >= confirmed)
    assert site.end_following() == 0
    before = site.backup()
    assert before["is_restorable"]

    lose_all_disks(site)  # ZooKeeper lives
    command = ["restore", str(site.target), str(site.store("broker-a-1")), "--group", "broker-a"]
    made = site.json(*command, "--cluster-id", before["cluster_id"])
    assert (made["end_offset"], made["group_id"]) == (before["end_offset"], before["group_id"])
    site.run("up", "--dir", str(site.directory), "--detach")
    site.run("controller", "elect", "broker-a", "--replica", "broker-a-1", "--force", "--accept-loss")
    site.wait(site.is_whole)
    assert site.group()["master"] == "broker-a-1"
    assert len(site.consume("readers", 2500)) == 2500  # its offsets are back
    site.run("produce", "orders", stdin=b"more\n")
    assert site.json("store", "verify", str(site.store("broker-a-2")))["damaged"] == []

    lose_all_disks(site)  # and ZooKeeper's too
    shutil.rmtree(site.store("zookeeper"))
    made = site.json(*command)
    site.run("up", "--dir", str(site.directory), "--detach")
    site.wait(lambda: "zenit controller restore" in str(site.group()["blocked"]))
    site.run("controller", "restore", "broker-a", "--epoch", str(made["epoch"]))
    site.run("controller", "elect", "broker-a", "--replica", "broker-a-1", "--force")
    site.wait(site.is_whole)
    assert len(site.consume("others", 3000, "--from", "earliest")) == 3000
