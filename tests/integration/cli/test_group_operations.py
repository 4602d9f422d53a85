"""What an operator changes of a running group by `zenit controller`: settings, members, and a group that was set back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_kit import zookeeper_of

from zenitmq import Message, Producer
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

pytestmark = pytest.mark.timeout(300)

ZENIT = str(Path(sys.executable).with_name("zenit"))
GROUP = "broker-a"
SELDOM = "store.flush_interval_ms=60000"
"""So that a flush in this test is one that somebody asked for."""


@pytest.fixture(scope="module")
def started() -> Iterator[LocalCluster]:
    with LocalCluster(replicas=3, settings=(*SMALL_STORE, SELDOM)) as made:
        yield made


@pytest.fixture
def cluster(started: LocalCluster) -> LocalCluster:
    """Whole when a test begins; settings stay as the one before left them."""
    started.wait_healthy()
    return started


def zenit(cluster: LocalCluster, *arguments: str, status: int = 0) -> str:
    """What `zenit controller` prints; its one line on stderr where it is to fail."""
    done = subprocess.run(
        [ZENIT, "controller", *arguments, "--namesrv", cluster.namesrv],
        env=cluster.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    assert status == 0 or done.stderr.count("\n") == 1, done.stderr
    return done.stderr if status else done.stdout


def zenit_json(cluster: LocalCluster, *arguments: str) -> Any:
    return json.loads(zenit(cluster, *arguments, "--json"))


def await_group(cluster: LocalCluster, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline_ms = monotonic_ms() + 30_000
    while not condition(group := cluster.group()):
        assert monotonic_ms() < deadline_ms, group
        sleep_ms(50)
    return group


def slave_of(cluster: LocalCluster) -> str:
    return next(name for name in cluster.brokers if name != cluster.master)


def put(cluster: LocalCluster, topic: str, count: int) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number))


def unflushed_bytes(cluster: LocalCluster) -> list[int]:
    """Of each replica."""
    replicas = cluster.group()["replicas"]
    return [replica["written_offset"] - replica["flushed_offset"] for replica in replicas]


def tells_of_unflushed(cluster: LocalCluster, name: str) -> bool:
    """Whether a replica would say, after a loss of power, that it may have forgotten."""
    text = Path(cluster.directory, name, "replica.zenit").read_text(encoding="ascii")
    return bool(json.loads(text.splitlines()[0])["ran_async"])


def test_a_group_goes_over_to_sync_while_it_runs_with_all_that_may_lead_it(cluster: LocalCluster) -> None:
    """While one of them is gone, the change is refused; once it is back, every log is flushed."""
    topic = cluster.create_topic("changed")
    put(cluster, topic, 20)
    before = zenit_json(cluster, "settings", GROUP)
    assert before == {
        "broker_name": GROUP,
        "min_in_sync": 2,
        "flush_mode": "async",
        "ack_mode": "all",
        "lag_ms_max": 10_000,
    }
    after = zenit_json(cluster, "settings", GROUP, "--min-in-sync", "3", "--lag-ms", "7000")
    assert after == before | {"min_in_sync": 3, "lag_ms_max": 7000}
    slave = slave_of(cluster)
    cluster.kill(slave)
    await_group(cluster, lambda group: slave not in group["in_sync"])
    refused = zenit(cluster, "settings", GROUP, "--flush", "sync", status=1)
    assert f"{slave} did not flush" in refused
    assert zenit_json(cluster, "settings", GROUP) == after

    cluster.restart()
    zenit(cluster, "settings", GROUP, "--min-in-sync", "2")
    put(cluster, topic, 20)
    await_group(cluster, lambda group: all(replica["lag_bytes"] == 0 for replica in group["replicas"]))
    assert min(unflushed_bytes(cluster)) > 0
    leading = cluster.group()
    changed = zenit_json(cluster, "settings", GROUP, "--flush", "sync")
    assert changed == after | {"min_in_sync": 2, "flush_mode": "sync"}
    assert unflushed_bytes(cluster) == [0, 0, 0]
    now = await_group(cluster, lambda group: group["epoch"] == leading["epoch"] + 1)
    assert now["master"] == leading["master"]
    put(cluster, topic, 5)
    await_group(cluster, lambda _: not any(tells_of_unflushed(cluster, name) for name in cluster.brokers))
    assert sum(left == 0 for left in unflushed_bytes(cluster)) == 3


def test_a_wrong_setting_is_a_wrong_command_line(cluster: LocalCluster) -> None:
    assert "--flush" in zenit(cluster, "settings", GROUP, "--flush", "perhaps", status=2)
    assert "at most 3" in zenit(cluster, "settings", GROUP, "--min-in-sync", "4", status=1)


def test_a_replica_is_removed_and_registers_again_when_it_comes_back(cluster: LocalCluster) -> None:
    assert "it is the master" in zenit(cluster, "remove", GROUP, cluster.master, status=1)
    slave = slave_of(cluster)
    cluster.kill(slave)
    await_group(cluster, lambda group: slave not in group["in_sync"])
    left = sorted(name for name in cluster.brokers if name != slave)
    removed = zenit_json(cluster, "remove", GROUP, slave)
    assert removed == {"broker_name": GROUP, "removed": slave, "runs": False, "replicas": left}
    assert "is not a replica" in zenit(cluster, "remove", GROUP, slave, status=1)
    cluster.restart()
    assert sorted(cluster.group()["in_sync"]) == sorted(cluster.brokers)


def test_a_group_that_zookeeper_set_back_is_restored(cluster: LocalCluster) -> None:
    """Nothing is lost, since the one with all messages is elected by force."""
    topic = cluster.create_topic("kept")
    put(cluster, topic, 10)
    zenit(cluster, "elect", GROUP)
    cluster.wait_healthy()
    epoch, master = cluster.group()["epoch"], cluster.master
    written = {replica["written_offset"] for replica in cluster.group()["replicas"]}
    zookeeper = zookeeper_of(cluster)
    zookeeper.start(timeout=10)
    try:
        path = f"/zenit/zenit/groups/{GROUP}"
        node = json.loads(zookeeper.get(path)[0])
        zookeeper.set(path, json.dumps(node | {"epoch": epoch - 1}).encode())
    finally:
        zookeeper.stop()
        zookeeper.close()
    await_group(cluster, lambda group: group["epoch"] == epoch - 1)
    assert "data was lost or set back" in zenit(cluster, "elect", GROUP, "--replica", master, status=1)
    remedy = f"zenit controller restore {GROUP} --epoch {epoch}"  # the controller says so once it has looked
    blocked = await_group(cluster, lambda group: remedy in (group["blocked"] or ""))["blocked"]
    shown = zenit_json(cluster, "status", GROUP)
    assert (shown["blocked"], shown["epoch"]) == (blocked, epoch - 1)
    assert {replica["written_offset"] for replica in shown["replicas"]} == written
    assert f"at least {epoch}" in zenit(cluster, "restore", GROUP, "--epoch", str(epoch - 1), status=1)

    restored = zenit_json(cluster, "restore", GROUP, "--epoch", str(epoch))
    assert restored == {"broker_name": GROUP, "group_id": shown["group_id"], "epoch": epoch + 1, "master": None}
    assert cluster.group()["blocked"] is None
    assert "a name" in zenit(cluster, "elect", GROUP, "--force", status=1)
    elected = zenit_json(cluster, "elect", GROUP, "--replica", master, "--force")
    assert (elected["master"], elected["epoch"]) == (master, epoch + 2)
    cluster.wait_healthy()
    assert {replica["written_offset"] for replica in cluster.group()["replicas"]} == written
    put(cluster, topic, 1)
