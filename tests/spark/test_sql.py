"""SQL over topics and an archive: what comes back, and what a wrong query is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zenitmq import Message, Producer
from zenitmq.model.errors import InvalidParameter, QueryFailed, ZenitError
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zenitmq.pipeline.sql import SqlResult

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

Ask = Callable[..., "SqlResult"]


@pytest.fixture(scope="module")
def filled(cluster: LocalCluster) -> LocalCluster:
    """With 30 orders, and a topic that is no plain word with two messages."""
    cluster.create_topic("orders")
    cluster.create_topic("side-orders", queues=1)
    with Producer("p", namesrv=cluster.namesrv) as producer:
        for number in range(30):
            body = json.dumps({"region": "eu" if number % 2 else "us", "amount": number}).encode()
            producer.send_async(
                Message(
                    "orders",
                    body,
                    tags="buy" if number % 3 else "sell",
                    keys=[f"k{number}"],
                    properties={"n": str(number)},
                )
            )
        producer.send(Message("side-orders", b"\xff\x00", keys=["k7"]))
        producer.send(Message("side-orders", b"text", keys=["k8"]))
        producer.flush()
    return cluster


@pytest.fixture
def ask(spark: SparkSession, filled: LocalCluster) -> Ask:
    """ask(query, **arguments of run_sql)."""
    from zenitmq.pipeline.sql import SqlOptions, run_sql

    def run(query: str, **more: Any) -> SqlResult:
        return run_sql(SqlOptions(query, filled.namesrv, **more), lambda: spark)

    return run


def test_topics_are_tables(ask: Ask) -> None:
    amount = "cast(get_json_object(cast(body AS string), '$.amount') AS int)"
    found = ask(f"SELECT tags, count(*) AS n, sum({amount}) FROM orders GROUP BY tags ORDER BY tags;")
    assert found.columns[:2] == ("tags", "n")
    assert found.rows == (("buy", 20, 300), ("sell", 10, 135))
    assert not found.is_cut


def test_topics_are_joined_whatever_their_names(ask: Ask) -> None:
    query = "SELECT o.keys, s.body FROM orders o JOIN `side-orders` s ON o.keys = s.keys ORDER BY o.keys"
    assert ask(query).rows == (("k7", "/wA="), ("k8", "text"))


def test_all_columns_come_as_plain_values(ask: Ask) -> None:
    found = ask("SELECT * FROM orders WHERE keys = 'k4'")
    (row,) = (dict(zip(found.columns, values, strict=True)) for values in found.rows)
    assert row["body"] == '{"region": "us", "amount": 4}'
    assert row["properties"]["n"] == "4"
    assert row["storeTimestamp"].endswith("+00:00")
    json.dumps(row)


def test_rows_are_cut_and_said_to_be(ask: Ask) -> None:
    found = ask("SELECT queueOffset FROM orders", rows_max=7)
    assert (len(found.rows), found.is_cut) == (7, True)
    whole = ask("SELECT queueOffset FROM orders", rows_max=30)
    assert (len(whole.rows), whole.is_cut) == (30, False)


def test_the_tables_are_gone_afterwards(ask: Ask, spark: SparkSession) -> None:
    ask("SELECT count(*) FROM orders")
    assert [table.name for table in spark.catalog.listTables() if table.isTemporary] == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM ordres", "no topic or archive 'ordres'; did you mean `orders`? (line 1, pos 14)"),
        ("SELECT * FORM orders", "(line 1, pos 14)"),
        ("SELECT nope FROM orders", "line 1 pos 7"),
        ("SELECT 1 / (queueId - queueId) FROM orders", "Division by zero"),
    ],
)
def test_a_wrong_query_is_told_in_one_line(ask: Ask, query: str, said: str) -> None:
    with pytest.raises(ZenitError) as failed:
        ask(query)
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)


def test_what_writes_is_refused_before_spark_starts(filled: LocalCluster) -> None:
    from zenitmq.pipeline.sql import SqlOptions, run_sql

    with pytest.raises(InvalidParameter):
        run_sql(SqlOptions("DROP TABLE orders", filled.namesrv), no_session)
    with pytest.raises(InvalidParameter, match="no topic"):
        run_sql(SqlOptions("SELECT 1 FROM orders", filled.namesrv, {"orders": "/tmp"}), no_session)


def test_a_dry_run_tells_what_would_be_read(filled: LocalCluster) -> None:
    from zenitmq.pipeline.sql import SQL_JOB, SqlOptions

    query = "SELECT keys, queueId FROM orders JOIN old USING (keys)"
    planned = SQL_JOB.plan(SqlOptions(query, filled.namesrv, {"old": "/nowhere"}), no_session)
    assert planned["tables"] == [
        {"table": "orders", "columns": ["queueId", "keys"]},
        {"table": "old", "columns": ["*"]},
    ]


def no_session() -> SparkSession:
    raise AssertionError("Spark was started")


def test_an_archive_is_a_table_also_without_a_cluster(
    ask: Ask, spark: SparkSession, filled: LocalCluster, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs.archive import ArchiveOptions, run
    from zenitmq.pipeline.sql import SqlOptions, run_sql

    target = str(tmp_path / "archive")
    options = ArchiveOptions(target=target, topics=("orders",), namesrv=filled.namesrv)
    assert run(options, lambda: spark, lambda _progress: None)["rows"] == 30
    archives = {"old": target}
    both = "SELECT count(*) FROM old JOIN orders USING (topic, broker, queueId, queueOffset)"
    assert ask(both, archives=archives).rows == ((30,),)
    with pytest.raises(QueryFailed):
        ask("SELECT nope FROM old", archives=archives)
    alone = SqlOptions("SELECT count(*), count(DISTINCT body) FROM old", "127.0.0.1:1", archives)
    assert run_sql(alone, lambda: spark).rows == ((30, 30),)
