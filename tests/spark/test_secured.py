"""Spark and a secured cluster: the option `key` names the key file, for what is read, streamed and written."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark.spark_kit import send

from zenitmq.client.connection.client_keys import ENVIRONMENT_KEY
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.key_file import KeyFile, read_key_file, write_key_file
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalCluster]:
    with LocalCluster(secure=True) as running:
        yield running


@pytest.fixture
def orders(secured: LocalCluster) -> tuple[str, list[bytes]]:
    """A topic, and what is in it."""
    topic = secured.create_topic(f"t-{secrets.token_hex(5)}")
    return topic, send(secured.namesrv, topic, 60)


def test_a_batch_a_stream_and_the_sink_come_with_the_key(
    spark: SparkSession, secured: LocalCluster, orders: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    topic, bodies = orders
    where = {"namesrv": secured.namesrv, "key": secured.key()}
    copied, streamed = (secured.create_topic(f"{topic}-{kind}") for kind in ("copied", "streamed"))
    rows = spark.read.format("zenit").options(**where, subscribe=topic).load()
    assert sorted(bytes(row.body) for row in rows.collect()) == sorted(bodies)
    rows.select("body").write.format("zenit").options(**where, topic=copied).mode("append").save()
    once = {"delivery": "dedup", "queryName": f"q-{topic}", "batchId": "1"}
    rows.select("body", "messageGroup").write.format("zenit").options(**where, topic=copied, **once).mode(
        "append"
    ).save()
    query = (
        spark.readStream.format("zenit")
        .options(**where, subscribe=topic, startingOffsets="earliest", group="watchers", commitOffsets="true")
        .load()
        .select("body")
        .writeStream.format("zenit")
        .options(**where, topic=streamed, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    for name, times in ((copied, 2), (streamed, 1)):
        found = spark.read.format("zenit").options(**where, subscribe=name).load().collect()
        assert sorted(bytes(row.body) for row in found) == sorted(bodies * times)


def strangers_key(secured: LocalCluster, directory: Path) -> str:
    path = str(directory / "stranger.key")
    write_key_file(path, KeyFile("stranger", new_key_pair(), read_key_file(secured.key()).servers))
    return path


@pytest.mark.parametrize(
    ("which", "does", "reason"),
    [
        ("none", "reads", "does it want a key?"),
        ("missing", "reads", "it cannot be read (No such file"),
        ("missing", "writes", "it cannot be read (No such file"),
        ("stranger", "reads", "refuses this client"),
        ("stranger", "writes", "refuses this client"),
    ],
)
def test_a_wrong_key_is_told_by_the_driver(
    spark: SparkSession, secured: LocalCluster, orders: tuple[str, list[bytes]], tmp_path: Path, which: str, does: str,
    reason: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Before any task runs: what a task raises, Spark repeats and wraps."""
    monkeypatch.delenv(ENVIRONMENT_KEY, raising=False)
    topic, _ = orders
    options: dict[str, Any] = {"namesrv": secured.namesrv, "requestTimeoutMs": "2000"}
    if which != "none":
        options["key"] = str(tmp_path / "absent.key") if which == "missing" else strangers_key(secured, tmp_path)
    rows = spark.createDataFrame([(b"x",)], "body binary")

    def work() -> None:
        if does == "reads":
            spark.read.format("zenit").options(**options, subscribe=topic).load().collect()
        else:
            rows.write.format("zenit").options(**options, topic=topic).mode("append").save()

    with pytest.raises(Exception, match=re.escape(reason)) as raised:
        work()
    text = str(raised.value)
    assert "Job aborted" not in text
    last = [line for line in text.splitlines() if line.strip() and not line.startswith(" SQLSTATE")][-1]
    assert last.startswith("zenitmq.model.errors.")
    assert reason in last
