"""The reports against a real cluster: letters, lag and traces counted as they were made."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer
from zenitmq.client.tracing.trace_format import (
    ConsumeCode,
    Consumed,
    Delivered,
    Published,
    TracedType,
    TraceRecord,
    TransactionEnded,
    encode_trace,
)
from zenitmq.model.errors import ConfigError, GroupNotFound, TopicNotFound
from zenitmq.model.properties import encode_properties
from zenitmq.model.redelivery import Origin, dead_letter_properties
from zenitmq.pipeline.jobs import dlq_redrive, lag_report
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import SendMessages
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zenitmq.pipeline.jobs.summary import JobProgress

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine


def ignore(_progress: JobProgress) -> None:
    """Nobody watches."""


def no_session() -> SparkSession:
    raise AssertionError("Spark was started")


def headings(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").removeprefix("<!doctype html>\n")
    return ["".join(found.itertext()) for found in ET.fromstring(text).iter("h2")]


# ---- dead letters

TIMEOUTS, REFUSED = 6, 3


@pytest.fixture(scope="module")
def letters(cluster: LocalCluster) -> LocalCluster:
    """Group g gave up orders for two reasons; one of the topics that they came from is there."""
    cluster.create_topic("orders", queues=1)
    cluster.create_topic("%DLQ%g", queues=1)
    with Admin(cluster.namesrv) as admin, RemotingClient() as client:
        address = admin.route("%DLQ%g").brokers[0].master_address
        assert address is not None
        for number in range(TIMEOUTS + REFUSED):
            is_timeout = number < TIMEOUTS
            reason = f"order {number}: timeout after {3000 + number} ms" if is_timeout else "refused: no such item"
            sent = {"UNIQ_KEY": f"U-{number}", "KEYS": f"k{number}", "TAGS": "buy" if is_timeout else "sell"}
            properties = dead_letter_properties(sent, Origin("orders", "ID0"), reason)
            record = encode_record(
                topic=b"%DLQ%g", body=b"body %d" % number, properties=encode_properties(properties), born_timestamp_ms=7
            )
            client.call(address, SendMessages("%DLQ%g", 0, 1), record, timeout_ms=5000)
    return cluster


def test_dead_letters_are_counted_by_kind(spark: SparkSession, letters: LocalCluster, tmp_path: Path) -> None:
    from zenitmq.pipeline.jobs import dlq_report

    page = tmp_path / "letters.html"
    options = dlq_report.DeadLetterReportOptions(namesrv=letters.namesrv, samples=2, html=str(page))
    assert dlq_report.plan(options, no_session) == {"rows": TIMEOUTS + REFUSED, "groups": ["g"]}
    found = dlq_report.run(options, lambda: spark, ignore)
    assert (found["rows"], found["groups"], found["classes_left_out"]) == (TIMEOUTS + REFUSED, ["g"], 0)
    assert [(row["origin_topic"], row["tag"], row["reason"], row["letters"]) for row in found["classes"]] == [
        ("orders", "buy", "order #: timeout after # ms", TIMEOUTS),
        ("orders", "sell", "refused: no such item", REFUSED),
    ]
    assert all(0 < row["first_at_ms"] <= row["last_at_ms"] for row in found["classes"])
    assert [(row["class"], row["keys"]) for row in found["samples"]] == [(0, "k5"), (0, "k4"), (1, "k8"), (1, "k7")]
    assert found["samples"][0]["body"] == "body 5"
    assert sum(row["letters"] for row in found["hours"]) == TIMEOUTS + REFUSED
    assert "Kinds of failure" in headings(page)


def test_the_report_and_the_redrive_mean_the_same_letters(spark: SparkSession, letters: LocalCluster) -> None:
    from zenitmq.pipeline.jobs import dlq_report

    for chosen in ({"reason": "TIMEOUT"}, {"tags": ("sell",)}, {"origins": ("orders",)}, {"origins": ("elsewhere",)}):
        more: dict[str, Any] = {"namesrv": letters.namesrv, "groups": ("g",), **chosen}
        counted = dlq_report.run(dlq_report.DeadLetterReportOptions(**more, samples=0), lambda: spark, ignore)["rows"]
        planned = dlq_redrive.plan(dlq_redrive.RedriveOptions(**more), no_session)["rows"]
        assert counted == planned


def test_chosen_letters_are_sent_again_once(letters: LocalCluster) -> None:
    options = dlq_redrive.RedriveOptions(namesrv=letters.namesrv, groups=("g", "content"), reason="refused")
    with Admin(letters.namesrv) as admin:
        admin.create_group("content")
    assert dlq_redrive.plan(options, no_session)["groups"][0]["to"] == f"orders {REFUSED}"
    done = dlq_redrive.run(options, no_session, ignore)
    assert (done["rows"], done["failed"], done["passed"]) == (REFUSED, 0, True)
    assert dlq_redrive.run(options, no_session, ignore)["rows"] == 0
    with Admin(letters.namesrv) as admin:
        (queue,) = admin.queues("orders")
        assert admin.max_offset(queue) == REFUSED


def test_where_nothing_was_given_up_spark_is_not_started(letters: LocalCluster) -> None:
    from zenitmq.pipeline.jobs import dlq_report

    with Admin(letters.namesrv) as admin:
        admin.create_group("content")
    options = dlq_report.DeadLetterReportOptions(namesrv=letters.namesrv, groups=("content",))
    assert dlq_report.run(options, no_session, ignore)["classes"] == []


def test_letters_of_a_group_that_is_not_there_are_no_empty_result(letters: LocalCluster) -> None:
    from zenitmq.pipeline.jobs import dlq_report

    for groups in (("nobody",), ("g", "nobody")):
        redrive = dlq_redrive.RedriveOptions(namesrv=letters.namesrv, groups=groups)
        report = dlq_report.DeadLetterReportOptions(namesrv=letters.namesrv, groups=groups)
        with pytest.raises(GroupNotFound, match="nobody"):
            dlq_redrive.plan(redrive, no_session)
        with pytest.raises(GroupNotFound, match="nobody"):
            dlq_redrive.run(redrive, no_session, ignore)
        with pytest.raises(GroupNotFound, match="nobody"):
            dlq_report.plan(report, no_session)
        with pytest.raises(GroupNotFound, match="nobody"):
            dlq_report.run(report, no_session, ignore)


# ---- lag


def test_groups_are_held_against_limits(cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    with Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send_bodies(topic, [b"x"] * 10)
    with PullConsumer("behind", namesrv=cluster.namesrv, start_from=FIRST, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        while not consumer.poll(max_messages=3, timeout=5.0):
            pass
        consumer.commit()
    page = tmp_path / "lag.html"
    options = lag_report.LagReportOptions(
        namesrv=cluster.namesrv, groups=("behind",), samples=2, every="10ms", max_lag=1, html=str(page)
    )
    found = lag_report.run(options, no_session, ignore)
    (group,) = found["groups"]
    assert 0 < group["lag"] < 10
    assert (group["beyond"], found["passed"], len(found["over_time"])) == ("messages > 1", False, 2)
    assert {row["topic"] for row in found["queues"]} == {topic}
    assert "Messages behind over time" in "".join(headings(page))
    within = lag_report.LagReportOptions(namesrv=cluster.namesrv, max_lag=1000)
    assert lag_report.run(within, no_session, ignore)["passed"]
    with pytest.raises(GroupNotFound):
        lag_report.run(lag_report.LagReportOptions(namesrv=cluster.namesrv, groups=("nobody",)), no_session, ignore)


def test_a_page_that_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        lag_report.LagReportOptions(html=str(tmp_path / "nowhere" / "lag.html"))
    assert refused.value.key == "html"


# ---- traces

MESSAGES = 100
TRANSACTIONS = [
    ("U-0", "COMMIT_MESSAGE", False),
    ("U-1", "UNKNOW", False),
    ("U-1", "UNKNOW", True),
    ("U-1", "COMMIT_MESSAGE", True),
    ("U-2", "ROLLBACK_MESSAGE", False),
    ("U-3", "UNKNOW", False),
]
"""(message id, state, whether a broker asked): the second took three turns, the last is not decided."""


def transaction(name: str, state: str, from_check: bool) -> TransactionEnded:
    commit = TracedType.TRANSACTION_COMMIT
    return TransactionEnded(5, "r", "makers", "orders", name, "", "", "", commit, "", state, from_check=from_check)


def journey_records() -> list[list[TraceRecord]]:
    """Of messages that took 10 ms to produce, waited number ms, and were handled in 2 ms; every tenth at a second try."""
    told: list[list[TraceRecord]] = []
    for number in range(MESSAGES):
        name, begin = f"U-{number}", 1_000_000 + number
        records: list[TraceRecord] = [
            Published(begin, "r", "makers", "orders", name, "", "", "", 9, 10, TracedType.NORMAL, f"ID{number}", True)
        ]
        handed = begin + 10 + number
        attempts = 2 if number % 10 == 0 else 1
        for attempt in range(attempts):
            request, at_ms = f"R-{number}-{attempt}", handed + 100 * attempt
            is_last = attempt == attempts - 1
            code = ConsumeCode.SUCCESS if is_last else ConsumeCode.EXCEPTION
            records.append(Delivered(at_ms, "r", "g", request, name, attempt, ""))
            records.append(Consumed(request, name, 2, is_last, "", code, at_ms + 2, "g"))
        told.append(records)
    told.append([Published(5, "r", "makers", "orders", "U-lost", "", "", "", 9, 3000, TracedType.NORMAL, "", False)])
    told += [[transaction(*each)] for each in TRANSACTIONS]
    told.append([Published(5, "r", "makers", "other", "U-other", "", "", "", 9, 1, TracedType.NORMAL, "", True)])
    return told


@pytest.fixture(scope="module")
def traces(cluster: LocalCluster) -> str:
    """A trace topic."""
    name = cluster.create_topic("traces")
    with Producer("p", namesrv=cluster.namesrv) as producer:
        for records in journey_records():
            producer.send_async(Message(name, encode_trace(records)))
        producer.send_async(Message(name, b"\xff"))
        producer.flush()
    return name


def test_traces_are_counted(spark: SparkSession, cluster: LocalCluster, traces: str, tmp_path: Path) -> None:
    from zenitmq.pipeline.jobs import trace_report

    page = tmp_path / "traces.html"
    options = trace_report.TraceReportOptions(
        namesrv=cluster.namesrv, trace_topic=traces, storm=10, slowest=3, html=str(page)
    )
    assert trace_report.plan(options, no_session)["rows"] == MESSAGES + 3 + len(TRANSACTIONS)
    found = trace_report.run(options, lambda: spark, ignore)
    again = MESSAGES // 10
    assert {
        name: found[name]
        for name in ("produced", "produce_failures", "delivered", "consumed", "consume_failures", "damaged")
    } == {
        "produced": MESSAGES + 1,
        "produce_failures": 1,
        "delivered": MESSAGES + again,
        "consumed": MESSAGES,
        "consume_failures": again,
        "damaged": 1,
    }
    hops = {(row["hop"], row["topic"]): row for row in found["hops"]}
    assert (hops["produce", "orders"]["count"], hops["produce", "orders"]["p99_ms"]) == (MESSAGES, 10)
    waits = hops["wait", "orders"]
    assert (waits["group"], waits["count"], waits["max_ms"]) == ("g", MESSAGES, 99)
    assert 48 <= waits["p50_ms"] <= 50
    assert hops["end to end", "orders"]["max_ms"] == 10 + 90 + 100 + 2
    assert found["failures"] == [
        {"where": "consume", "name": "g", "what": "exception", "count": again},
        {"where": "produce", "name": "orders", "what": "failed", "count": 1},
    ]
    assert found["transactions"] == [
        {"topic": "orders", "group": "makers", "committed": 2, "rolled_back": 1, "unknown": 1, "checked": 1}
    ]
    assert [(row["group"], row["retries"]) for row in found["storms"]] == [("g", again)]
    assert {row["attempts"] for row in found["most_tried"]} == {2}
    assert len(found["most_tried"]) == again
    slow = found["journeys"][0]
    assert (slow["message_id"], slow["produce_ms"], slow["wait_ms"], slow["handle_ms"], slow["end_to_end_ms"]) == (
        "U-90",
        10,
        90,
        2,
        202,
    )
    assert len(found["journeys"]) == 3
    assert "Slowest journeys" in headings(page)


def test_traces_of_chosen_topics(spark: SparkSession, cluster: LocalCluster, traces: str) -> None:
    from zenitmq.pipeline.jobs import trace_report

    options = trace_report.TraceReportOptions(namesrv=cluster.namesrv, trace_topic=traces, topics=("other",))
    found = trace_report.run(options, lambda: spark, ignore)
    assert (found["rows"], found["produced"], found["delivered"]) == (1, 1, 0)


def test_a_trace_topic_that_is_not_there(cluster: LocalCluster) -> None:
    from zenitmq.pipeline.jobs import trace_report

    with pytest.raises(TopicNotFound):
        trace_report.run(
            trace_report.TraceReportOptions(namesrv=cluster.namesrv, trace_topic="nothing"), no_session, ignore
        )
