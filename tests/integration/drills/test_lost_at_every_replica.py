"""The same bytes rot at all living replicas, and the third one was wiped: a copy of a store ends its wait."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from client_kit import remoting_of

from zenitmq import Message, Producer
from zenitmq.deploy.drills.log_compare import differences
from zenitmq.deploy.processes import terminate
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.get_status import GetStatus
from zenitmq.record.kernel import StoredMessage, decode_batch
from zenitmq.remoting.commands import PullMessages, PullReply
from zenitmq.store.log.segment import segment_name
from zenitmq.testing import LocalCluster

from .test_drill_runs import needs_zookeeper

MESSAGES = 20
SETTINGS = ("repair_wait_ms=1000", "store.segment_bytes=4194304", "store.index_slots=4096", "store.index_entries=16384")


def zenit(cluster: LocalCluster, *arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-P", "-m", "zenitmq", *arguments]
    environment = {**cluster.environ, "HOME": cluster.directory}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


def await_that(condition: Callable[[], Any], cluster: LocalCluster) -> Any:
    deadline_ms = monotonic_ms() + 60_000
    while not (found := condition()):
        assert monotonic_ms() < deadline_ms, cluster.group()
        sleep_ms(100)
    return found


def put(cluster: LocalCluster, topic: str, numbers: range) -> None:
    """Each in an append of its own."""
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in numbers:
            producer.send(Message(topic, b"%04d" % number * 50))


def offset_of(cluster: LocalCluster, name: str, which: str) -> int:
    return int(next(one for one in cluster.group()["replicas"] if one["name"] == name)[which])


def stop(cluster: LocalCluster, name: str) -> str:
    """Returns its directory."""
    process = cluster.process(name)
    terminate(process.pid, process.birth, timeout_ms=20_000)
    return process.store_dir or ""


def flip(store: str, offset: int) -> None:
    """Turns a bit of the log in its first file, and lets go of the cached pages."""
    with open(os.path.join(store, "commitlog", segment_name(0)), "r+b") as file:
        (byte,) = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes((byte ^ 4,)), offset)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def pull(cluster: LocalCluster, name: str, topic: str, at: int) -> tuple[PullReply, list[StoredMessage]]:
    with remoting_of(cluster.namesrv) as remoting:
        request = PullMessages("g", topic, 0, at, 100, 1 << 20)
        reply, payload = remoting.call(cluster.process(name).address, request, timeout_ms=5_000)
    assert isinstance(reply, PullReply)
    return reply, decode_batch(payload)


def read(cluster: LocalCluster, name: str, topic: str) -> tuple[list[int], list[tuple[int, int, int]]]:
    """(the messages, what was passed over by name: from, to, how many), as that replica hands them out."""
    found: list[int] = []
    lost: list[tuple[int, int, int]] = []
    at = 0
    while True:
        reply, messages = pull(cluster, name, topic, at)
        if reply.status == GetStatus.MESSAGES_LOST:
            lost.append((reply.lost_begin, reply.lost_end, reply.next_offset - at))
        elif reply.status != GetStatus.FOUND:
            return found, lost
        found += [int(message.body[:4]) for message in messages]
        at = reply.next_offset


@needs_zookeeper
@pytest.mark.timeout(300)
def test_a_wiped_replica_gets_past_a_range_that_all_others_have_lost() -> None:
    with LocalCluster(replicas=3, settings=SETTINGS) as cluster:
        topic = cluster.create_topic("rotten", queues=1)
        put(cluster, topic, range(MESSAGES))
        wiped, source = (name for name in cluster.brokers if name != cluster.master)
        master = cluster.master
        flushed = ("written_offset", "flushed_offset", "confirm_offset")
        await_that(lambda: len({one[which] for one in cluster.group()["replicas"] for which in flushed}) == 1, cluster)
        rotten = pull(cluster, master, topic, 7)[1][0]
        empty = stop(cluster, wiped)
        shutil.rmtree(empty)
        for name in (master, source):
            flip(cluster.process(name).store_dir or "", rotten.physical_offset + len(rotten.record) // 2)
        zenit(cluster, "store", "scrub", "--namesrv", cluster.namesrv, status=1)
        await_that(lambda: read(cluster, master, topic)[1], cluster)
        kept, lost = read(cluster, master, topic)
        assert kept == [number for number in range(MESSAGES) if number != 7]
        begin = rotten.physical_offset
        assert lost == [(begin, begin + len(rotten.record), 1)]

        zenit(cluster, "up", "--dir", cluster.directory, "--detach")
        await_that(lambda: offset_of(cluster, wiped, "written_offset") == begin, cluster)
        assert f"{wiped} gets its master's log only up to" in zenit(cluster, "status", "--dir", cluster.directory)

        stop(cluster, wiped)
        copied = stop(cluster, source)
        shutil.rmtree(empty)
        told = json.loads(zenit(cluster, "store", "copy", copied, empty, "--json"))
        assert told["epoch"] > 0
        cluster.restart()
        await_that(lambda: set(cluster.group()["in_sync"]) == set(cluster.brokers), cluster)
        put(cluster, topic, range(100, 103))
        zenit(cluster, "controller", "elect", "broker-a", "--replica", wiped, "--namesrv", cluster.namesrv)
        await_that(lambda: cluster.master == wiped, cluster)
        put(cluster, topic, range(103, 105))
        await_that(lambda: len({one[which] for one in cluster.group()["replicas"] for which in flushed}) == 1, cluster)
        for name in cluster.brokers:
            await_that(lambda name=name: read(cluster, name, topic) == ([*kept, *range(100, 105)], lost), cluster)
        assert differences({name: cluster.process(name).store_dir or "" for name in cluster.brokers}) == []
