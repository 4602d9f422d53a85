"""A follower beside a group: it has all that is confirmed, is never elected, is promoted by hand, and seeds the others anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.backup.site import SMALL, Site

pytestmark = pytest.mark.timeout(300)
FAR = "far"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    if made.beside is not None:
        made.end_beside()
    if (made.directory / "cluster.json").exists():
        made.run("down", "--dir", str(made.directory))


def start_far(site: Site, *, role: str = "follower") -> None:
    """A broker that the cluster's record does not know, with its store beside."""
    shown = site.status()
    settings = {
        "name": "broker-a",
        "replica": FAR,
        "role": role,
        "port": "0",
        "replication_port": "0",
        "namesrv": shown["namesrv"],
        "controllers": shown["controller"],
        "store_dir": str(site.target / FAR),
        "metrics.bind": "",
    } | {f"store.{name}": value for name, _, value in (text.partition("=") for text in SMALL)}
    site.start_beside("broker", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")))


def shown_far(site: Site) -> dict[str, Any]:
    replicas = site.json("controller", "status", "broker-a")["replicas"]
    return dict(next((one for one in replicas if one["replica"] == FAR), {"role": "down", "set": None}))


def test_a_follower_is_promoted_and_seeds_the_group_anew(site: Site) -> None:
    site.start()
    site.run("topic", "create", "orders", "--queues", "2")
    site.run("produce", "orders", stdin=b"".join(b"%d %s\n" % (k, b"x" * 500) for k in range(500)))
    start_far(site)
    site.wait(lambda: shown_far(site)["set"] == "follower")
    site.run("produce", "orders", stdin=b"".join(b"%d\n" % k for k in range(500)))
    end = max(replica["confirm_offset"] for replica in site.group()["replicas"])
    site.wait(lambda: (shown_far(site)["confirm_offset"] or 0) >= end)
    assert shown_far(site)["role"] == "follower"
    assert sorted(one["role"] for one in site.json("cluster")["brokers"]) == ["follower", "master", "slave"]
    assert site.is_whole()  # without it

    site.kill("broker-a-1", "broker-a-2")
    before = site.json("controller", "status", "broker-a")
    assert FAR not in (before["master"], *before["in_sync"], *before["eligible"])
    site.wait(
        lambda: site.says("broker", "promote", "broker-a", FAR, "--accept-loss") == 0
    )  # once the dead time is over
    promoted = site.json("controller", "status", "broker-a")
    assert (promoted["master"], promoted["in_sync"]) == (FAR, [FAR])
    assert promoted["epoch"] > before["epoch"]
    assert len(site.consume("readers", 1000, "--from", "earliest")) == 1000
    forced = [event for event in site.events() if event["event"] == "election_forced"]
    assert forced[-1]["master"] == FAR
    site.run("produce", "orders", stdin=b"more\n")

    for name in ("broker-a-1", "broker-a-2"):  # what was the group is seeded anew by it
        shutil.rmtree(site.store(name))
    site.run("up", "--dir", str(site.directory), "--detach")
    site.wait(
        lambda: sorted(site.json("controller", "status", "broker-a")["in_sync"]) == ["broker-a-1", "broker-a-2", FAR]
    )
    site.run("controller", "elect", "broker-a", "--replica", "broker-a-1")
    assert len(site.consume("others", 1001, "--from", "earliest")) == 1001
