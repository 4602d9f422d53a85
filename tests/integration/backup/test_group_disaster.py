"""A replica group whose disks are all lost comes back from its backup, as docs/backup.md says: with ZooKeeper, and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.backup.site import Site

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    if made.beside is not None:
        made.end_beside()
    if (made.directory / "cluster.json").exists():
        made.run("down", "--dir", str(made.directory))


def lose_all_disks(site: Site) -> None:
    site.run("down", "--dir", str(site.directory))
    for name in ("broker-a-1", "broker-a-2"):
        shutil.rmtree(site.store(name))


def test_a_group_comes_back_from_its_backup(site: Site) -> None:
    site.start()
    site.run("topic", "create", "orders", "--queues", "2")
    site.run("produce", "orders", stdin=b"".join(b"%d %s\n" % (k, b"x" * 1000) for k in range(3000)))
    assert len(site.consume("readers", 500)) == 500
    site.follow("broker-a-2")
    confirmed = max(replica["confirm_offset"] for replica in site.group()["replicas"])
    site.wait(lambda: bool(list(site.target.glob("broker-a/manifest"))) and site.backup()["end_offset"] >= confirmed)
    assert site.end_beside() == 0
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
