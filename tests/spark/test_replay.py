"""Replays by a real Spark: of an archive, and of what brokers still have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.spark_kit import send

from zenitmq.client.administration.pipeline_calls import pipeline_calls
from zenitmq.model.errors import ReplayChanged
from zenitmq.model.properties import RESERVED
from zenitmq.pipeline.jobs import archive, replay
from zenitmq.pipeline.jobs.archive import ArchiveOptions
from zenitmq.pipeline.jobs.archives.replay_plan import Replay
from zenitmq.pipeline.jobs.replay import ReplayOptions
from zenitmq.pipeline.jobs.summary import JobProgress
from zenitmq.testing import LocalCluster

Document = dict[str, Any]
COUNT = 120


def silent(_progress: JobProgress) -> None:
    """Nobody is told how it goes."""


class Replays:
    """Runs replays of one topic to another."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, topic: str, directory: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.topic = topic
        self.target = cluster.create_topic(f"{topic}-again")
        self.archive = str(directory / "archive")
        self.state = str(directory / "state")

    def write_archive(self) -> None:
        options = ArchiveOptions(topics=(self.topic,), target=self.archive, namesrv=self.cluster.namesrv)
        archive.run(options, lambda: self.spark, silent)

    def options(self, **more: Any) -> ReplayOptions:
        chosen = {"to": self.target, "topics": (self.topic,), "state_dir": self.state, "namesrv": self.cluster.namesrv}
        return ReplayOptions(**(chosen | more))

    def run(self, **more: Any) -> Document:
        return replay.run(self.options(**more), lambda: self.spark, silent)

    def planned(self, **more: Any) -> int:
        return int(replay.plan(self.options(**more), lambda: self.spark)["rows"])

    def rows(self, topic: str) -> list[Any]:
        source = {"namesrv": self.cluster.namesrv, "subscribe": topic}
        return self.spark.read.format("zenit").options(**source).load().collect()

    def pins(self) -> list[int]:
        """How many pins the brokers keep of writes to the target, and how many of them are done with a chunk."""
        with pipeline_calls(self.cluster.namesrv) as calls:
            kept = [row["query"] for row in calls.queries() if row["query"].endswith(f"/{self.target}")]
        return [sum(f"/{kind}/" in name for name in kept) for kind in ("sink", "finished")]

    def sent(self) -> list[str]:
        """The bodies in the target, each as often as it is there."""
        return sorted(bytes(row.body).decode() for row in self.rows(self.target))


@pytest.fixture
def replays(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> Replays:
    send(cluster.namesrv, topic, COUNT)
    return Replays(spark, cluster, topic, tmp_path)


def test_an_archive_is_sent_again_with_where_it_came_from(replays: Replays) -> None:
    replays.write_archive()
    assert replays.planned(archive=replays.archive) == COUNT
    assert replays.sent() == []
    summary = replays.run(archive=replays.archive)
    assert (summary["rows"], summary["rows_before"]) == (COUNT, 0)
    originals = {row.messageId: row for row in replays.rows(replays.topic)}
    again = replays.rows(replays.target)
    assert len(again) == COUNT
    for row in again:
        origin = originals.pop(row.properties["REPLAY_ORIGIN_MESSAGE_ID"])
        assert (row.body, row.keys, row.tags, row.flag) == (origin.body, origin.keys, origin.tags, origin.flag)
        place = f"{origin.topic}@{origin.broker}:{origin.queueId}/{origin.queueOffset}"
        assert row.properties["REPLAY_ORIGIN"] == place
        own = {name: value for name, value in origin.properties.items() if name not in RESERVED}
        assert own.items() <= row.properties.items()
        assert row.messageId != origin.messageId
    assert not originals
    assert replays.run(archive=replays.archive)["rows"] == 0, "it is done"
    assert len(replays.rows(replays.target)) == COUNT


def test_what_was_replayed_keeps_its_first_origin(replays: Replays) -> None:
    replays.run()
    third = replays.cluster.create_topic(f"{replays.topic}-third")
    replays.run(topics=(replays.target,), to=third)
    origins = {row.properties["REPLAY_ORIGIN"].partition("@")[0] for row in replays.rows(third)}
    assert origins == {replays.topic}


@pytest.mark.parametrize("source", ["archive", "brokers"])
def test_only_what_is_asked_for_is_sent(source: str, replays: Replays, read: Callable[..., DataFrame]) -> None:
    more: dict[str, Any] = {}
    if source == "archive":
        replays.write_archive()
        more["archive"] = replays.archive
    assert replays.planned(filter="even", **more) == COUNT // 2
    assert replays.planned(sql="number BETWEEN 10 AND 19", **more) == 10
    times = sorted(row.storeTimestamp for row in read().select("storeTimestamp").collect())
    middle = times[COUNT // 2].isoformat() + "+00:00"
    before, after = replays.planned(until=middle, **more), replays.planned(since=middle, **more)
    assert before == sum(time < times[COUNT // 2] for time in times)
    assert before + after == COUNT
    first = next(row for row in read().collect() if row.queueOffset == 0)
    ends = json.dumps({first.topic: {first.broker: {str(queue): 1 for queue in range(4)}}})
    assert replays.planned(ending_offsets=ends, **more) <= 4
    assert replays.run(sql="number < 5", name="few", rate=1000, **more)["rows"] == 5
    assert len(replays.sent()) == 5
    with pytest.raises(ReplayChanged, match="few"):
        replays.run(sql="number < 6", name="few", **more)


def test_a_replay_that_ended_in_the_middle_sends_nothing_twice(
    replays: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after a chunk was sent, before that was written down; the chunk is sent again when it goes on."""

    def stop(*_: Any) -> Replay:
        raise KeyboardInterrupt

    more = {"rate": 8.0, "name": "halves"}  # chunks of forty
    with monkeypatch.context() as patch:
        patch.setattr(Replay, "done", stop)
        with pytest.raises(KeyboardInterrupt):
            replays.run(**more)
    some = len(replays.sent())
    assert 0 < some < COUNT
    assert replays.pins() == [1, 1]
    summary = replays.run(**(more | {"rate": 1000.0}))
    assert summary["rows"] == COUNT
    assert replays.pins() == [0, 0], "what the brokers kept of it is dropped once it is done"
    assert replays.run(**more)["rows"] == 0
    assert len(replays.sent()) == COUNT
    assert len(set(replays.sent())) == COUNT
