"""Deduplication and windows: what comes out is what was to come out, once, also where a batch is repeated."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from zenitmq import Message, Producer
from zenitmq.model.errors import ConfigError, TopicNotFound
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zenitmq.pipeline.jobs.summary import JobProgress

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

Rows = Callable[..., list[Any]]


def ignore(_progress: JobProgress) -> None:
    """Nobody watches."""


def no_session() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def to(cluster: LocalCluster) -> str:
    """The topic that a job writes to."""
    return cluster.create_topic(f"to-{secrets.token_hex(5)}", queues=2)


@pytest.fixture
def rows(spark: SparkSession, cluster: LocalCluster) -> Rows:
    """rows(topic, *columns): what a topic holds."""

    def read(topic: str, *columns: str) -> list[Any]:
        loaded = spark.read.format("zenit").options(namesrv=cluster.namesrv, subscribe=topic).load()
        return [tuple(row) for row in loaded.select(*columns).collect()]

    return read


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between the batch's end and Spark's note of it: the batch is run again."""
    commits = checkpoint / "commits"
    last = max(int(name) for name in os.listdir(commits) if name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


# ---- dedup


def test_messages_go_through_once_by_their_keys(
    spark: SparkSession, cluster: LocalCluster, topic: str, to: str, rows: Rows, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs import dedup

    options = dedup.DedupOptions(
        topics=(topic,), to=to, by="keys", checkpoint=str(tmp_path / "state"), namesrv=cluster.namesrv
    )
    with Producer("p", namesrv=cluster.namesrv) as producer:
        for number in range(60):
            producer.send_async(
                Message(topic, b"%d" % number, tags="t", keys=[f"k{number % 20}"], properties={"n": str(number % 20)})
            )
        for number in range(5):
            producer.send_async(Message(topic, b"keyless-%d" % number))
        producer.flush()
        assert dedup.plan(options, no_session)["rows"] == 65
        first = dedup.run(options, lambda: spark, ignore)
        assert {name: first[name] for name in ("rows", "sent", "duplicates", "late_rows", "passed")} == {
            "rows": 65,
            "sent": 25,
            "duplicates": 40,
            "late_rows": 0,
            "passed": True,
        }
        for number in range(25):
            producer.send_async(Message(topic, b"again", keys=[f"k{number}"]))
        producer.flush()
    second = dedup.run(options, lambda: spark, ignore)
    assert (second["rows"], second["sent"]) == (25, 5)
    found = rows(to, "keys", "body", "tags", "properties")
    assert Counter(key for key, *_ in found) == Counter([None] * 5 + [f"k{number}" for number in range(25)])
    first_ones = [row for row in found if row[2] == "t"]
    assert len(first_ones) == 20
    assert all(properties["n"] == key.removeprefix("k") for key, _, _, properties in first_ones)

    forget_last_commit(tmp_path / "state")
    dedup.run(options, lambda: spark, ignore)
    assert len(rows(to, "keys")) == len(found)


def test_of_messages_of_one_key_the_same_one_stays_in_each_attempt(
    spark: SparkSession, cluster: LocalCluster, topic: str, to: str, rows: Rows, tmp_path: Path
) -> None:
    """Twins that differ: were it left to chance which one stays, a batch that comes again would have other rows."""
    from zenitmq.pipeline.jobs import dedup

    with Producer("p", namesrv=cluster.namesrv) as producer:
        for number in range(3000):
            producer.post(topic, b"twin-%d" % number, properties={"order": str(number % 700)})
        producer.flush()
    sent = []
    for attempt in range(2):
        options = dedup.DedupOptions(
            topics=(topic,),
            to=to,
            by="property:order",
            checkpoint=str(tmp_path / f"c{attempt}"),
            namesrv=cluster.namesrv,
        )
        done = dedup.run(options, lambda: spark, ignore)
        assert (done["sent"], done["duplicates"]) == (700, 2300)
        sent.append(Counter(rows(to, "body")) - sum(sent, Counter()))
    assert sent[0] == sent[1], "two checkpoints choose the same ones"
    places = {body: place for body, *place in rows(topic, "body", "broker", "queueId", "queueOffset")}
    for (body,) in sent[0]:
        number = int(bytes(body).removeprefix(b"twin-"))
        twins = [places[b"twin-%d" % twin] for twin in range(number % 700, 3000, 700)]
        assert places[body] == min(twins), "that of the first place"
    forget_last_commit(tmp_path / "c1")
    dedup.run(options, lambda: spark, ignore)
    assert len(rows(to, "body")) == 1400


def test_messages_that_came_twice_are_known_by_a_property(
    spark: SparkSession, cluster: LocalCluster, topic: str, to: str, rows: Rows, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs import dedup

    with Producer("p", namesrv=cluster.namesrv) as producer:
        for number in range(12):
            producer.send_async(Message(topic, b"%d" % number, properties={"order": str(number % 4)}))
        producer.flush()
    options = dedup.DedupOptions(
        topics=(topic,), to=to, by="property:order", checkpoint=str(tmp_path / "state"), namesrv=cluster.namesrv
    )
    assert dedup.run(options, lambda: spark, ignore)["sent"] == 4
    assert sorted(properties["order"] for (properties,) in rows(to, "properties")) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"topics": ()}, "topics"),
        ({"to": ""}, "to"),
        ({"to": "a"}, "to"),
        ({"checkpoint": ""}, "checkpoint"),
        ({"by": "body"}, "by"),
        ({"by": "property:"}, "by"),
        ({"watermark": "soon"}, "watermark"),
        ({"every": "0s"}, "every"),
        ({"start": "yesterday"}, "start"),
    ],
)
def test_wrong_options_of_dedup_are_refused(changed: dict[str, Any], key: str) -> None:
    from zenitmq.pipeline.jobs import dedup

    with pytest.raises(ConfigError) as refused:
        dedup.DedupOptions(**{"topics": ("a",), "to": "b", "checkpoint": "/tmp/c", **changed})
    assert refused.value.key == key


def test_a_topic_that_is_not_there_is_told_before_spark_starts(
    cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs import dedup

    options = dedup.DedupOptions(topics=(topic,), to="nothing", checkpoint=str(tmp_path), namesrv=cluster.namesrv)
    for call in (dedup.plan, lambda chosen, session: dedup.run(chosen, session, ignore)):
        with pytest.raises(TopicNotFound):
            call(options, no_session)


# ---- windows

MINUTE_MS = 60_000


@pytest.fixture
def spec(tmp_path: Path, topic: str) -> Path:
    """Revenue by region in windows of a minute."""
    path = tmp_path / "revenue.toml"
    path.write_text(
        f"""
topics = ["{topic}"]
window = "1m"
watermark = "1s"
time = "born"
key = ["region"]

[aggregates]
orders = "count"
revenue = "sum(amount)"
largest = "max(amount)"
""",
        encoding="utf-8",
    )
    return path


def test_the_windows_of_a_batch_are_what_sql_says(spark: SparkSession, spec: Path) -> None:
    from zenitmq.pipeline.jobs.window import windows
    from zenitmq.pipeline.options.window_spec import parse_window_spec

    bodies = [
        '{"region": "eu", "amount": 2}',
        '{"region": "eu", "amount": "x"}',
        '{"region": "us", "amount": 5}',
        "no JSON",
    ]
    values = ", ".join(f"('{body}', timestamp_millis({30_000 * index}))" for index, body in enumerate(bodies))
    frame = spark.sql(f"SELECT cast(b AS binary) AS body, t AS bornTimestamp FROM VALUES {values} AS v(b, t)")
    found = windows(frame, parse_window_spec(spec.read_text())).selectExpr(
        "unix_millis(window_start)", "unix_millis(window_end)", "region", "orders", "revenue", "largest"
    )
    assert sorted((tuple(row) for row in found.collect()), key=str) == sorted(
        [
            (0, MINUTE_MS, "eu", 2, 2.0, 2.0),
            (MINUTE_MS, 2 * MINUTE_MS, "us", 1, 5.0, 5.0),
            (MINUTE_MS, 2 * MINUTE_MS, None, 1, None, None),
        ],
        key=str,
    )


def test_sliding_windows_count_a_message_in_each(spark: SparkSession, spec: Path) -> None:
    from zenitmq.pipeline.jobs.window import windows
    from zenitmq.pipeline.options.window_spec import parse_window_spec

    sliding = spec.read_text().replace('window = "1m"', 'window = "1m"\nslide = "20s"')
    frame = spark.sql("SELECT cast('{}' AS binary) AS body, timestamp_millis(120000) AS bornTimestamp")
    found = windows(frame, parse_window_spec(sliding)).selectExpr("unix_millis(window_start)", "orders").collect()
    assert sorted(tuple(row) for row in found) == [(80_000, 1), (100_000, 1), (120_000, 1)]


def test_windows_go_to_a_topic_and_to_files_once(
    spark: SparkSession, cluster: LocalCluster, topic: str, to: str, spec: Path, rows: Rows, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs import window

    short = spec.read_text().replace('window = "1m"', 'window = "1ms"').replace('watermark = "1s"', 'watermark = "1ms"')
    spec.write_text(short.replace('time = "born"', 'time = "stored"'), encoding="utf-8")
    common: dict[str, Any] = {"spec": str(spec), "namesrv": cluster.namesrv}
    to_topic = window.WindowOptions(**common, to=to, checkpoint=str(tmp_path / "a"))
    target = tmp_path / "files"
    to_files = window.WindowOptions(**common, parquet=str(target), checkpoint=str(tmp_path / "b"))
    with Producer("p", namesrv=cluster.namesrv) as producer:
        for start in (0, 10):  # the second lot moves the watermark on
            for number in range(start, start + 10):
                body = json.dumps({"region": "eu" if number % 2 else "us", "amount": number})
                producer.send(Message(topic, body.encode()))
            for options in (to_topic, to_files):
                assert window.run(options, lambda: spark, ignore)["rows"] == 10
        for _ in range(
            2
        ):  # the watermark is that of the batch before: behind the second lot, then behind the first of these
            producer.send(Message(topic, b"{}"))
            for options in (to_topic, to_files):
                window.run(options, lambda: spark, ignore)
    told = [json.loads(body) for (body,) in rows(to, "body")]
    listed = [row.asDict() for row in spark.read.parquet(f"file://{target}").collect()]
    for counted in (told, listed):
        assert {row["region"] for row in counted} == {"eu", "us"}
        assert sum(row["orders"] for row in counted) == 20
        assert sum(row["revenue"] for row in counted) == sum(range(20))
    assert all(row["window_end_ms"] == row["window_start_ms"] + 1 for row in told)
    assert {keys for (keys,) in rows(to, "keys")} == {"eu", "us"}
    assert not os.listdir(target / "_staging")

    forget_last_commit(tmp_path / "a")
    forget_last_commit(tmp_path / "b")
    window.run(to_topic, lambda: spark, ignore)
    window.run(to_files, lambda: spark, ignore)
    assert len(rows(to, "body")) == len(told)
    assert spark.read.parquet(f"file://{target}").count() == len(listed)

    # a copy of the checkpoint went on with other messages: its batch of that number tells of other windows
    newest = max(target.glob("batch=*"), key=lambda path: int(path.name.rpartition("-")[2]))
    others = spark.read.parquet(f"file://{newest}").limit(0).toArrow()
    for file in newest.glob("*.parquet"):
        file.unlink()
    pq.write_table(others, newest / "part-0.parquet")
    forget_last_commit(tmp_path / "b")
    with pytest.raises(Exception, match=f"is repeated with other rows.*{newest} tells of others"):
        window.run(to_files, lambda: spark, ignore)
    assert not os.listdir(target / "_staging")

    # a checkpoint that was set back: windows of a batch of that number are there already, and other ones
    newest = next(name for name in os.listdir(target) if name.startswith("batch="))
    (target / f"{newest.rpartition('-')[0]}-999").mkdir()
    with Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send(Message(topic, b"{}"))
    with pytest.raises(Exception, match="comes after its batch 999"):
        window.run(to_files, lambda: spark, ignore)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"spec": ""}, "spec"),
        ({"spec": "/nowhere/x.toml"}, "spec"),
        ({"to": ""}, "to"),
        ({"parquet": "/tmp/x"}, "to"),
        ({"to": "", "parquet": "s3://bucket/x"}, "parquet"),
        ({"checkpoint": ""}, "checkpoint"),
        ({"start": "later"}, "start"),
    ],
)
def test_wrong_options_of_window_are_refused(changed: dict[str, Any], key: str, spec: Path) -> None:
    from zenitmq.pipeline.jobs import window

    with pytest.raises(ConfigError) as refused:
        window.WindowOptions(**{"spec": str(spec), "to": "b", "checkpoint": "/tmp/c", **changed})
    assert refused.value.key == key


def test_a_job_does_not_read_what_it_writes(spec: Path, topic: str) -> None:
    from zenitmq.pipeline.jobs import window

    with pytest.raises(ConfigError, match="another topic"):
        window.WindowOptions(spec=str(spec), to=topic, checkpoint="/tmp/c")
