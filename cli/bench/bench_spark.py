"""`zenit bench spark`: how fast Spark reads and writes topics, compared with reading the same rows from Parquet."""

from __future__ import annotations

import os
import tempfile
from importlib import metadata
from typing import Any, Final

from ...bench.environment import environment
from ...bench.options import BenchOptions, BenchProgress, Report
from ...bench.own_cluster import LogFiles
from ...bench.target import opened_target
from ...model.errors import RequirementMissing

MESSAGES: Final = 1_000_000  # the default


def run_spark(options: BenchOptions, report: Report) -> dict[str, Any]:
    """{work, master, size, messages, queues, every_column: {rows, seconds, rows_per_second}, ..., growth, job_ms,
    micro_batch_ms, environment}.

    Raises RequirementMissing if Spark is not installed.
    """
    try:
        from ...pipeline.reports.measure import SparkLoad, measure
        from ...pipeline.session.session import spark_session
    except ImportError as error:
        raise RequirementMissing(str(error.name), "pip install 'zenitmq[spark]', in a clone '.[spark]'") from error

    def tell(phase: str) -> None:
        report(BenchProgress(phase=phase, elapsed_seconds=0.0, total_seconds=0.0))

    if options.directory is not None:
        os.makedirs(options.directory, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="zenit-bench-", dir=options.directory) as directory,
        opened_target(options, directory, LogFiles(), report) as target,
    ):
        load = SparkLoad(
            namesrv=target.namesrv,
            topic=target.topic,
            queues=options.queues,
            messages=options.messages or MESSAGES,
            size=options.size,
            directory=directory,
        )
        tell("start Spark")
        spark = spark_session("zenit-bench", options.master, config={"spark.local.dir": directory})
        try:
            spark.sparkContext.setLogLevel("ERROR")
            found = measure(spark, load, tell)
        finally:
            spark.stop()
        cluster = dict(target.facts)
        facts = environment(directory) | {name: metadata.version(name) for name in ("pyspark", "pyarrow")}
    return {
        "work": options.work,
        "master": options.master,
        "size": load.size,
        "messages": load.messages,
        "queues": load.queues,
        **found,
        "cluster": cluster,
        "environment": facts,
    }
