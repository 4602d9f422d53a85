"""Tasks, drivers and brokers that die while topics are read: in the end each row is there once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.spark_kit import place, send, stored

from zenitmq.pipeline.java import bring_java
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBrokerStatistics
from zenitmq.testing import LocalCluster

HERE = Path(__file__).parent
HOME = Path(pyspark.__file__).parent


def start_spark_process(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of pyspark's own jars; it writes to `log`."""
    environment = os.environ | {"JAVA_HOME": bring_java(), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    with open(log, "wb") as output:
        command = [str(HOME / "bin" / "spark-class"), *arguments]
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=log.parent)


def wait_logged(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    for _ in range(1200):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[0]
        assert process.poll() is None, log.read_text(errors="replace")
        Event().wait(0.1)
    raise AssertionError(log.read_text(errors="replace"))


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """The address of a Spark master that has a worker of two cores: processes of their own, as on a cluster."""
    with ExitStack() as running:
        master = start_spark_process(
            tmp_path / "master.log", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"
        )
        running.callback(master.wait, 20)
        running.callback(master.terminate)
        address = wait_logged(tmp_path / "master.log", r"spark://127\.0\.0\.1:\d+", master)
        worker = start_spark_process(
            tmp_path / "worker.log",
            *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"),
            *("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"), address),
        )
        running.callback(worker.wait, 20)
        running.callback(worker.terminate)
        wait_logged(tmp_path / "worker.log", "Successfully registered with master", worker)
        yield address


def run_driver(script: str, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a driver to its end. `site`: a folder of its path beside ours."""
    path = os.pathsep.join([*([str(site)] if site is not None else []), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": bring_java()}
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment, check=False)


@pytest.mark.timeout(600)
def test_tasks_that_are_killed_on_a_cluster_of_processes(cluster: LocalCluster, topic: str, standalone: str) -> None:
    send(cluster.namesrv, topic, 60)
    done = run_driver("task_killer.py", standalone, cluster.namesrv, topic)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]
    assert sorted(rows) == sorted(where[2:] for where in stored(cluster.namesrv, topic, 60))


@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_between_batches(
    spark: SparkSession, cluster: LocalCluster, topic: str, read_stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    send(cluster.namesrv, topic, 100)
    target, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")
    site = tmp_path / "site"  # has what an installed package has there
    site.mkdir()
    shutil.copy(HERE.parents[1] / "pyspark_zenit.py", site)
    done = run_driver("stream_driver.py", cluster.namesrv, topic, target, checkpoint, "1", site=site)
    assert done.returncode == -9, done.stderr[-3000:]
    send(cluster.namesrv, topic, 40, first=100)
    writer = read_stream(maxOffsetsPerTrigger="50").writeStream.format("parquet").option("path", target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(400)
    assert query.recentProgress[0].batchId >= 1, "it went on, it did not begin again"
    rows = [place(row) for row in spark.read.parquet(target).collect()]
    assert sorted(rows) == sorted(stored(cluster.namesrv, topic, 140))


def pulls_at(address: str) -> int:
    """How many pulls a broker has had."""
    with RemotingClient() as client:
        _, payload = client.call(address, GetBrokerStatistics(), timeout_ms=5_000)
    return int(json.loads(payload)["pulls"]["requests"])


@pytest.mark.timeout(600)
def test_a_master_that_is_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """What was acknowledged by three replicas before and after is read, each once, from slaves too where that is told."""
    rows: list[tuple] = []
    bodies: list[bytes] = []
    with LocalCluster(replicas=3) as cluster:
        topic = cluster.create_topic("orders")
        bodies += send(cluster.namesrv, topic, 60)
        pulled = pulls_at(cluster.process(cluster.master).address)
        options = {"namesrv": cluster.namesrv, "subscribe": topic}
        frame = spark.read.format("zenit").options(**options, readFrom="replica").load()
        assert {bytes(row.body) for row in frame.collect()} == set(bodies)
        assert pulls_at(cluster.process(cluster.master).address) == pulled, "its slaves were asked"

        def take(batch: DataFrame, number: int) -> None:
            rows.extend((place(row), bytes(row.body)) for row in batch.collect())
            if number == 0:
                cluster.kill(cluster.master)
                bodies.extend(send(cluster.namesrv, topic, 60, first=60, timeout=60))

        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
        frame = spark.readStream.format("zenit").options(**options).load()
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for _ in range(2000):
                if query.exception() is not None or ({body for _, body in rows} >= set(bodies) and len(bodies) == 120):
                    break
                Event().wait(0.1)
            query.processAllAvailable()
        finally:
            query.stop()
        truth = stored(cluster.namesrv, topic, len(rows))
    assert sorted(rows) == sorted((where, message.body) for where, message in truth.items())
    assert {body for _, body in rows} == set(bodies)
