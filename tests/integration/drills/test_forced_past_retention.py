"""An operator forces a replica whose log ends below where those of the others begin: they halt, and go on by what they say.

Not a drill: the operator gives messages up, so that a drill would tell of a loss. It is the one that was recorded, and no more.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from client_kit import remoting_of, zookeeper_of

from zenitmq import Message, Producer
from zenitmq.deploy.cluster_status import ask_json
from zenitmq.deploy.drills.log_compare import differences
from zenitmq.deploy.processes import terminate
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting.commands import GetBrokerStatistics, PullMessages, PullReply
from zenitmq.testing import LocalCluster

from .test_drill_runs import needs_zookeeper

GROUP = "broker-a"
BODY = random.Random(1).randbytes(8_000)  # nothing to compress
KEPT, GIVEN_UP = 6, 60
SETTINGS = (
    *("store.segment_bytes=65536", "store.body_bytes_max=8192", "store.record_bytes_max=16384"),
    *("store.retention_bytes=262144", "store.preallocate_segments=0", "store.recycle_segments=0"),
    *("store.index_slots=4096", "store.index_entries=16384"),
)


def zenit(cluster: LocalCluster, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "zenitmq", "controller", *arguments, "--namesrv", cluster.namesrv, "--json"]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def await_that(condition: Callable[[], Any], cluster: LocalCluster) -> Any:
    deadline_ms = monotonic_ms() + 60_000
    while not (found := condition()):
        assert monotonic_ms() < deadline_ms, cluster.group()
        sleep_ms(100)
    return found


def put(cluster: LocalCluster, topic: str, numbers: range) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in numbers:
            producer.send(Message(topic, b"%04d" % number + BODY[4:]))


def numbers_in(cluster: LocalCluster, topic: str) -> list[int]:
    """As the master hands them out."""
    found: list[int] = []
    with remoting_of(cluster.namesrv) as remoting:
        address = cluster.process(cluster.master).address
        while True:
            pulled = PullMessages("reader", topic, 0, len(found), 100, 1 << 20)
            reply, payload = remoting.call(address, pulled, timeout_ms=5_000)
            assert isinstance(reply, PullReply)
            if not reply.count:
                return found
            found += [int(message.body[:4]) for message in decode_batch(payload)]


def store_begin(cluster: LocalCluster, name: str) -> int:
    """Once the replica answers: a busy one may take longer than a request."""
    with remoting_of(cluster.namesrv) as remoting:
        address = cluster.process(name).address
        told = await_that(lambda: ask_json(remoting, address, GetBrokerStatistics()), cluster)
    return int(told["store"]["begin_offset"])


def started_what_is_down(cluster: LocalCluster) -> None:
    """Without waiting until all are in sync."""
    command = [sys.executable, "-P", "-m", "zenitmq", "up", "--dir", cluster.directory, "--detach"]
    environment = {**cluster.environ, "HOME": cluster.directory}
    subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)


def replica(cluster: LocalCluster, name: str) -> dict[str, Any]:
    return next(dict(one) for one in cluster.group()["replicas"] if one["name"] == name)


def last_forced(cluster: LocalCluster) -> dict[str, Any]:
    """The record of the last forced election."""
    zookeeper = zookeeper_of(cluster)
    zookeeper.start(timeout=10)
    try:
        newest = max(zookeeper.get_children("/zenit/zenit/audit"))
        record: dict[str, Any] = json.loads(zookeeper.get(f"/zenit/zenit/audit/{newest}")[0])
        return record
    finally:
        zookeeper.stop()
        zookeeper.close()


@needs_zookeeper
@pytest.mark.timeout(300)
def test_who_was_left_behind_by_a_forced_election_halts_and_is_filled_again() -> None:
    with LocalCluster(replicas=3, settings=SETTINGS) as cluster:
        topic = cluster.create_topic("given-up", queues=1)
        put(cluster, topic, range(KEPT))
        behind = next(name for name in cluster.brokers if name != cluster.master)
        others = [name for name in cluster.brokers if name != behind]
        await_that(lambda: len({one["written_offset"] for one in cluster.group()["replicas"]}) == 1, cluster)
        end = replica(cluster, behind)["written_offset"]
        with cluster.paused(behind):
            await_that(lambda: behind not in cluster.group()["in_sync"], cluster)
            put(cluster, topic, range(KEPT, KEPT + GIVEN_UP))
            await_that(lambda: all(store_begin(cluster, name) > end for name in others), cluster)
            longest = max(replica(cluster, name)["written_offset"] for name in others)
            sleep_ms(1_000)  # two heartbeats: the controller has heard how far they reach
            for name in others:
                cluster.kill(name)
        await_that(lambda: cluster.group()["master"] is None or replica(cluster, behind)["role"] != "down", cluster)

        sleep_ms(3_000)  # longer than the dead time: the old master cannot lead any more
        end = replica(cluster, behind)["written_offset"]  # with what lay in its socket's buffer
        elected = zenit(cluster, "elect", GROUP, "--replica", behind, "--force")
        assert elected["master"] == behind
        told = last_forced(cluster)
        assert (told["elected"], told["elected_end"], told["lost_begin"]) == (behind, end, end)
        assert end < told["lost_end"] <= longest
        zenit(cluster, "settings", GROUP, "--min-in-sync", "1")
        await_that(lambda: replica(cluster, behind)["role"] == "master", cluster)
        started_what_is_down(cluster)
        for name in others:
            halted = await_that(lambda name=name: replica(cluster, name)["halted"], cluster)
            assert replica(cluster, name)["role"] == "halted"
            assert "start it with an empty one" in halted
            assert store_begin(cluster, name) > end, "it has cut nothing, and begun nothing anew"

        for name in others:
            process = cluster.process(name)
            terminate(process.pid, process.birth, timeout_ms=20_000)
            shutil.move(process.store_dir or "", f"{process.store_dir}.kept")
        cluster.restart()
        zenit(cluster, "settings", GROUP, "--min-in-sync", "2")
        kept = numbers_in(cluster, topic)
        assert kept == list(range(len(kept)))
        assert KEPT <= len(kept) < KEPT + GIVEN_UP
        put(cluster, topic, range(100, 103))
        assert numbers_in(cluster, topic) == [*kept, 100, 101, 102]
        levels = ("written_offset", "confirm_offset")
        await_that(lambda: len({one[level] for one in cluster.group()["replicas"] for level in levels}) == 1, cluster)
        assert differences({name: cluster.process(name).store_dir or "" for name in cluster.brokers}) == []
        assert [one["halted"] for one in cluster.group()["replicas"]] == [None] * 3
