"""zenitmq.testing: a cluster comes with a test, is killed and restarted in it, and goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest

from zenitmq import FIRST, ClientClosed, Message, Producer, PullConsumer
from zenitmq.deploy.processes import is_running
from zenitmq.model.clock import monotonic_ms
from zenitmq.remoting import sync_calls
from zenitmq.testing import LocalCluster


def bodies(namesrv: str, topic: str, count: int) -> list[bytes]:
    """The first `count` bodies of a topic, in some order; fewer where they do not come within ten seconds."""
    found: list[bytes] = []
    deadline_ms = monotonic_ms() + 10_000
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < count and monotonic_ms() < deadline_ms:
            found += [message.body for message in consumer.poll(timeout=0.5)]
    return sorted(found)


def test_a_cluster_is_killed_restarted_and_gone_in_the_end() -> None:
    with LocalCluster() as cluster:
        directory, processes = cluster.directory, [cluster.process("namesrv-1"), cluster.process("broker-a")]
        assert cluster.master == "broker-a"
        assert cluster.brokers == ["broker-a"]
        topic = cluster.create_topic("kept")
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic, b"before"))
            cluster.kill("broker-a")
            assert cluster.group()["master"] is None
            cluster.restart()
            with cluster.paused("broker-a"):
                future = producer.send_async(Message(topic, b"after"))
                assert not future.done()
            future.result(10)
        assert bodies(cluster.namesrv, topic, 2) == [b"after", b"before"]
        processes.append(cluster.process("broker-a"))
    assert [is_running(process.pid, process.birth) for process in processes] == [False] * 3
    assert not os.path.exists(directory)
    with pytest.raises(ClientClosed):
        _ = cluster.namesrv


def test_a_cluster_at_the_addresses_of_the_one_before_gets_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that lives on shares its connection to the first cluster with all others of this process."""
    monkeypatch.setattr(sync_calls, "FRESH_MS", 60_000)  # how long a connection is not looked at again
    with ExitStack() as clients:
        namesrv = set()
        for _ in range(2):
            with LocalCluster() as cluster:
                namesrv.add(cluster.namesrv)
                topic = cluster.create_topic("again", queues=1)
                producer = clients.enter_context(Producer(namesrv=cluster.namesrv))
                producer.send(Message(topic, b"one"))
                assert bodies(cluster.namesrv, topic, 1) == [b"one"]
        assert len(namesrv) == 1, "somebody else has taken the port"


def test_nothing_is_left_of_a_cluster_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(Exception, match="no_such_key"), LocalCluster(settings=("no_such_key=1",)):
        pytest.fail("it started")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_the_fixtures_work_in_a_session_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["zenitmq.testing.pytest_plugin"]\n')
    (tmp_path / "test_orders.py").write_text(
        textwrap.dedent(
            """
            from zenitmq import Message, Producer

            def test_one(zenit_namesrv, zenit_topic):
                with Producer(namesrv=zenit_namesrv) as producer:
                    assert producer.send(Message(zenit_topic, b"1")).queue_offset == 0

            def test_two(zenit_cluster, zenit_topic):
                with Producer(namesrv=zenit_cluster.namesrv) as producer:
                    assert producer.send(Message(zenit_topic, b"2")).queue_offset == 0

            def test_three(zenit_namesrv, new_zenit_cluster):
                assert new_zenit_cluster(replicas=1).namesrv != zenit_namesrv
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
