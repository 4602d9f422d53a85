"""A backlog read again and again while others compete for the cores: a reply that nobody takes shows as a pull that fails.

Name server and broker are processes of their own, as they are shipped. Two more burn what CPU they get, so that threads
are interrupted in places where they usually are not.
"""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from zenitmq import FIRST, Admin, ClientClosed, MessageQueue, Producer, PullConsumer
from zenitmq.bench.own_cluster import LogFiles, OwnCluster, store_settings
from zenitmq.model.errors import ZenitError
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import PullMessages, Reply

TOPIC = "soak"
QUEUES, BATCHES, BATCH = 4, 160, 256
PASSES = 8
PASS_S = 12.0  # far above what one takes, and below the time-out of a pull: one that is lost ends the pass
BURNER = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end:\n    pass"

Backlog = dict[MessageQueue, list[bytes]]


@dataclass
class Pulls:
    """What became of every pull of the process, as its sender is told. Any thread.

    Pulls that wait for more when their consumer is closed end with ClientClosed: that is no failure.
    """

    answered: int = 0
    errors: list[ZenitError] = field(default_factory=list)
    longest_ms: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_answered(self, error: ZenitError | None, took_ms: float) -> None:
        with self._lock:
            self.answered += error is None
            self.longest_ms = max(self.longest_ms, took_ms)
            if error is not None and not isinstance(error, ClientClosed):
                self.errors.append(error)


@pytest.fixture
def pulls(monkeypatch: pytest.MonkeyPatch) -> Pulls:
    seen = Pulls()
    send_nowait = RemotingClient.send_nowait

    def watched(
        client: RemotingClient, address: str, request: Any, payload: Any, *, timeout_ms: int, on_reply: Any
    ) -> None:
        sent_s = time.monotonic()

        def told(reply: Reply | None, content: bytes, error: ZenitError | None) -> None:
            if isinstance(request, PullMessages):
                seen.on_answered(error, (time.monotonic() - sent_s) * 1000)
            on_reply(reply, content, error)

        send_nowait(client, address, request, payload, timeout_ms=timeout_ms, on_reply=told)

    monkeypatch.setattr(RemotingClient, "send_nowait", watched)
    return seen


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    files = LogFiles(segment_bytes=32 << 20)
    with OwnCluster(str(tmp_path), files) as running:
        running.start_broker(store_settings(files, flush="async", index=False, pages="fresh"))
        yield running


@pytest.fixture
def backlog(cluster: OwnCluster) -> Backlog:
    """What lies in each queue, in order, as the receipts told."""
    noise = random.Random(2026)
    stored: Backlog = {}
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(TOPIC, queues=QUEUES)
    with Producer("soak-producers", namesrv=cluster.namesrv, timeout=20) as producer:
        for index in range(BATCHES):
            size = noise.randrange(16, 2000)
            bodies = [b"%08d" % (index * BATCH + at) + bytes(size) for at in range(BATCH)]
            receipt = producer.send_bodies(TOPIC, bodies)
            queue = stored.setdefault(receipt.queue, [])
            assert receipt.queue_offset == len(queue)
            queue += bodies
    assert len(stored) == QUEUES
    return stored


@pytest.fixture
def busy_cores(backlog: Backlog) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", BURNER]) for _ in range(2)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait(10)


def read_all(consumer: PullConsumer, backlog: Backlog) -> Backlog:
    """As many messages as there are, by queue, in the order in which they came; fewer where the pass takes too long."""
    read: Backlog = {}
    left = sum(map(len, backlog.values()))
    give_up = time.monotonic() + PASS_S
    while left > 0 and time.monotonic() < give_up:
        batch = consumer.poll(5000, timeout=1.0)
        for message in batch:
            read.setdefault(message.queue, []).append(message.body)
        left -= len(batch)
    return read


@pytest.mark.usefixtures("busy_cores")
def test_a_backlog_is_read_again_and_again_without_a_lost_pull(
    cluster: OwnCluster, backlog: Backlog, pulls: Pulls, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "zenitmq"):
        for number in range(PASSES):
            pull_bytes = (64 << 10, 1 << 20)[number // 2 % 2]  # many pulls, or large ones
            with PullConsumer(
                f"soak-{number}", namesrv=cluster.namesrv, start_from=FIRST, pull_bytes=pull_bytes, timeout=10
            ) as consumer:
                if number % 2:
                    consumer.subscribe(TOPIC)
                else:
                    consumer.assign(sorted(backlog))
                    for queue in backlog:
                        consumer.seek(queue, 0)
                read = read_all(consumer, backlog)
            counts = {str(queue): f"{len(read.get(queue, ()))} of {len(bodies)}" for queue, bodies in backlog.items()}
            is_whole = read == backlog  # not inside the assertion: megabytes would be told
            assert is_whole, f"pass {number}: {counts}, longest pull {pulls.longest_ms:.0f} ms, {pulls.errors}"
    assert pulls.errors == []
    assert pulls.answered >= PASSES * QUEUES
    assert [record.getMessage() for record in caplog.records] == []
