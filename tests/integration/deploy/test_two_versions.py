"""A cluster of the revision before is upgraded to this one under load, one process at a time: both work side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from zenitmq import Admin, Message, Producer
from zenitmq.deploy.cluster_record import BROKER, CONTROLLER, NAME_SERVER, ProcessRecord
from zenitmq.deploy.drills.drilled_cluster import DrilledCluster
from zenitmq.deploy.drills.process_servers import ProcessServers
from zenitmq.deploy.processes import wait_ended
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import UnknownRequest, ZenitError
from zenitmq.testing.local_cluster import SMALL_STORE

ROOT = Path(__file__).parents[3]
BEFORE = "32dd2838ee9e2aa212615c566483a551769dffd5"
"""The last revision whose brokers do not hand over. A release moves this to the one before it."""
ENDED_MS = 20_000
TOPIC = "two-versions"


def git(*arguments: str) -> bytes | None:
    """What git says of this clone; None where it cannot."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def revision_before() -> str | None:
    """The revision before; in a shallow clone the oldest one that it has; None where there is no history."""
    if git("cat-file", "-e", f"{BEFORE}^{{commit}}") is not None:
        return BEFORE
    roots = git("rev-list", "--max-parents=0", "HEAD")
    return None if roots is None else roots.decode().split()[0]


@pytest.fixture(scope="module")
def old_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the package of the revision before, as its wheel would install it without a compiler."""
    folder = tmp_path_factory.mktemp("before")
    revision = revision_before()
    archive = None if revision is None else git("archive", revision)
    if archive is None:
        (folder / "zenitmq").symlink_to(ROOT)
    else:
        (folder / "zenitmq").mkdir()
        subprocess.run(["tar", "-x", "-C", str(folder / "zenitmq")], input=archive, timeout=60, check=True)
    return str(folder)


@pytest.fixture
def processes(tmp_path: Path, old_path: str) -> Iterator[ProcessServers]:
    """Three replicas, all of the revision before; what is started from now on is of this one."""
    made = ProcessServers(str(tmp_path / "cluster"), replicas=3, controllers=1, settings=SMALL_STORE)
    try:
        made.library = {"PYTHONPATH": old_path}
        made.up()
        made.library = {}
        yield made
    finally:
        made.down()


@pytest.fixture
def cluster(processes: ProcessServers) -> DrilledCluster:
    """All of them in sync."""
    made = DrilledCluster(processes, replicas=3)
    made.wait_healthy()
    return made


class Sending:
    """One message after the other, until it is left."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[ZenitError] = []
        self._namesrv = namesrv
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _send(self) -> None:
        with Producer(namesrv=self._namesrv, timeout=20.0) as producer:
            while not self._stopping.is_set():
                body = b"%d" % len(self.acknowledged)
                try:
                    producer.send(Message(TOPIC, body))
                except ZenitError as error:
                    self.failures.append(error)
                    return
                self.acknowledged.append(body)
                sleep_ms(5)

    def go_on(self) -> None:
        """Waits for twenty more."""
        count, deadline_ms = len(self.acknowledged), monotonic_ms() + 30_000
        while len(self.acknowledged) < count + 20:
            assert not self.failures
            assert monotonic_ms() < deadline_ms
            sleep_ms(20)


def replaced(cluster: DrilledCluster, process: ProcessRecord) -> None:
    """Stops a process, and starts it as of this revision."""
    os.kill(process.pid, signal.SIGTERM)
    assert wait_ended(process.pid, process.birth, timeout_ms=ENDED_MS)
    cluster.servers.start_again()
    cluster.wait_healthy()


def revision_of(process: ProcessRecord) -> str:
    """Where a running process has its package from."""
    environ = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    return next((one.decode().partition("=")[2] for one in environ if one.startswith(b"PYTHONPATH=")), "")


def consumed(namesrv: str, count: int) -> set[bytes]:
    """What the topic holds, read at the master's."""
    from zenitmq import FIRST, PullConsumer

    found: set[bytes] = set()
    deadline_ms = monotonic_ms() + 60_000
    with PullConsumer("readers", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        while len(found) < count and monotonic_ms() < deadline_ms:
            found.update(bytes(message.body) for message in consumer.poll(timeout=1.0))
    return found


def test_a_group_is_upgraded_under_load_and_nothing_is_lost(
    processes: ProcessServers, cluster: DrilledCluster, old_path: str
) -> None:
    """In the order of `zenit upgrade plan`; between the steps old and new replicas serve one group."""
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(TOPIC, queues=4)
        if revision_before() == BEFORE:
            with pytest.raises(UnknownRequest):
                admin.drain_broker(cluster.master().address)
    assert revision_of(processes.listed(BROKER)[0]) == old_path
    with Sending(cluster.namesrv) as sending:
        sending.go_on()
        for role in (CONTROLLER, NAME_SERVER):
            for process in processes.listed(role):
                replaced(cluster, process)
                sending.go_on()
        old = processes.process(cluster.master().name)
        first, second = (one for one in processes.listed(BROKER) if one.name != old.name)
        replaced(cluster, first)
        sending.go_on()
        leaves_an_old_master(cluster, processes.process(first.name))
        sending.go_on()
        replaced(cluster, second)
        replaced(cluster, old)
        sending.go_on()
        assert old_path not in {revision_of(one) for one in processes.listed(BROKER)}
        new = processes.process(cluster.master().name)
        replaced(cluster, new)
        assert cluster.master().name != new.name
        sending.go_on()
    assert not sending.failures
    assert consumed(cluster.namesrv, len(sending.acknowledged)) >= set(sending.acknowledged)


def leaves_an_old_master(cluster: DrilledCluster, slave: ProcessRecord) -> None:
    """A slave of this revision is drained: its master ends its session at the goodbye, as it knows no better."""
    with Admin(cluster.namesrv) as admin:
        admin.drain_broker(slave.address, ends=True)
    assert wait_ended(slave.pid, slave.birth, timeout_ms=ENDED_MS)
    cluster.servers.start_again()
    cluster.wait_healthy()
