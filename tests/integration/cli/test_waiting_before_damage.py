"""Who waits before damaged messages that a dead replica may have says so, and does not end as if it had read all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zenitmq import FIRST, Message, Producer, PullConsumer, PushConsumer
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import DamageAwaited
from zenitmq.store.log.segment import segment_name
from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


def zenit(cluster: LocalCluster, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [ZENIT, *arguments, "--namesrv", cluster.namesrv]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def await_that(condition: Callable[[], bool]) -> None:
    deadline_ms = monotonic_ms() + 20_000
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"


def flip(store: str, offset: int) -> None:
    with open(os.path.join(store, "commitlog", segment_name(0)), "r+b") as file:
        (byte,) = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes((byte ^ 4,)), offset)
        os.fsync(file.fileno())


@pytest.mark.timeout(180)
def test_damage_that_a_dead_replica_may_mend_is_told_to_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(replicas=2, controllers=0) as cluster:
        master, slave = cluster.brokers
        topic = cluster.create_topic("t", queues=1)
        with Producer(namesrv=cluster.namesrv) as producer:
            receipts = [producer.send(Message(topic, b"%d" % number * 100)) for number in range(10)]
        cluster.kill(slave)
        flip(cluster.process(master).store_dir or "", receipts[5].physical_offset + 130)
        zenit(cluster, "store", "scrub", status=1)

        consume = ("consume", topic, "--from", "earliest", "--idle-exit", "4")
        for selection in ((), ("--sql", "a IS NULL")):
            done = zenit(cluster, *consume, "--group", f"cli{len(selection)}", *selection, status=1)
            assert len(done.stdout.splitlines()) == 5
            assert f"{topic}@broker-a:0: messages from 5 on are damaged at the broker" in done.stderr

        with PullConsumer("pull", namesrv=cluster.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic)
            got: list[bytes] = []

            def waits() -> bool:
                got.extend(message.body for message in consumer.poll(timeout=0.5))
                return consumer.waits_for is not None

            await_that(waits)
            assert isinstance(consumer.waits_for, DamageAwaited)
            assert (len(got), consumer.waits_for.queue_offset) == (5, 5)
            pushed: list[bytes] = []
            push = PushConsumer("push", namesrv=cluster.namesrv, start_from=FIRST)
            push.subscribe(topic)
            push.on_message(lambda messages: pushed.extend(message.body for message in messages))
            with push:
                await_that(lambda: "messages from 5 on are damaged" in caplog.text and len(pushed) == 5)
                cluster.restart()
                await_that(lambda: not waits() and len(got) == 10 and len(pushed) == 10)
        assert consumer.messages_lost == 0
        described = json.loads(zenit(cluster, "group", "describe", "pull", "--json").stdout)
        assert described["lag"] == 0
