"""Pops leave no copies: what came again, and what became a dead letter, is one row; jobs count and copy it once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zenitmq import Admin, Message, Producer, SimpleConsumer
from zenitmq.model.properties import POP_LEASE
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenitmq.pipeline.jobs.summary import JobProgress

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

BODIES = [b"body %d" % number for number in range(6)]
BAD = 2


def ignore(_progress: JobProgress) -> None:
    """Nobody watches."""


@pytest.fixture
def group(cluster: LocalCluster, topic: str) -> str:
    """It got each message of the topic twice, gave up two of them, and acknowledged the others."""
    name = f"g-{secrets.token_hex(5)}"
    with (
        Producer("p", namesrv=cluster.namesrv) as producer,
        SimpleConsumer(name, namesrv=cluster.namesrv) as consumer,
    ):
        producer.send_batch([Message(topic, body, keys=(f"k{number}",)) for number, body in enumerate(BODIES)])
        consumer.subscribe(topic)
        for is_last in (False, True):
            count = 0
            while count < len(BODIES):
                for message in consumer.receive(wait=10):
                    count += 1
                    if not is_last:
                        consumer.change_invisible(message, 0)
                        continue
                    assert message.reconsume_times == 1
                    if message.body in BODIES[:BAD]:
                        consumer.dead_letter(message, reason="refused")
                    else:
                        consumer.ack(message, wait=True)
    return name


def test_reads_and_jobs_see_each_message_once(
    spark: SparkSession, cluster: LocalCluster, read: Callable[..., DataFrame], topic: str, group: str, tmp_path: Path
) -> None:
    from zenitmq.pipeline.jobs import archive, dedup, dlq_redrive, dlq_report

    assert sorted(bytes(row.body) for row in read().collect()) == BODIES
    chosen = {"groups": (group,), "namesrv": cluster.namesrv}
    report = dlq_report.run(dlq_report.DeadLetterReportOptions(**chosen), lambda: spark, ignore)
    assert [(row["origin_topic"], row["reason"], row["letters"]) for row in report["classes"]] == [
        (topic, "refused", BAD)
    ]
    redrive = dlq_redrive.RedriveOptions(**chosen)
    assert [dlq_redrive.run(redrive, lambda: spark, ignore)["rows"] for _ in range(2)] == [BAD, 0]
    rows = read().collect()
    assert sorted(bytes(row.body) for row in rows) == sorted([*BODIES, *BODIES[:BAD]])
    assert not any(POP_LEASE in row.properties for row in rows)

    kept = archive.run(
        archive.ArchiveOptions(topics=(topic,), target=str(tmp_path / "archive"), namesrv=cluster.namesrv),
        lambda: spark,
        ignore,
    )
    assert kept["rows"] == len(rows)
    to = cluster.create_topic(f"to-{secrets.token_hex(5)}", queues=2)
    once = {"topics": (topic,), "to": to, "by": "keys", "checkpoint": str(tmp_path / "state")}
    dedup.run(dedup.DedupOptions(**once, namesrv=cluster.namesrv), lambda: spark, ignore)
    with Admin(cluster.namesrv) as admin:
        assert sum(admin.max_offset(queue) for queue in admin.queues(to)) == len(BODIES)
