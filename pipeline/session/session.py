"""A Spark session that is fit for the format "zenit": the workers' Python, Java, filters pushed, few shuffle partitions.

Whoever has a session of their own does not need this one: see docs/pipeline.md for what it sets, and why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..source import ZenitDataSource
from .java import bring_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java tests no bounds, and nulls once instead of twice, of what it reads from Arrow."""

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's usual one starts processes (`readlink`) for each micro-batch where the files are of this machine."""


def spark_session(
    app: str,
    master: str = "local[*]",
    *,
    shuffle_partitions: int | None = None,
    ui: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, made where there is none yet.

    `shuffle_partitions`: of joins and aggregations; None = as many as this machine has cores (a stateful query keeps
    the number that it began with). `config`: settings of Spark's that go before those made here. Sets PYSPARK_PYTHON,
    PYSPARK_DRIVER_PYTHON and JAVA_HOME in this process's environment, where they are not set. Raises RequirementMissing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the path's python3, without our packages
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = bring_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(master)
    for key, value in (settings(master, shuffle_partitions=shuffle_partitions, ui=ui) | dict(config or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(ZenitDataSource)
    return session


def settings(master: str, *, shuffle_partitions: int | None, ui: bool) -> dict[str, str]:
    """What the session sets. One on this machine only talks over the loopback interface."""
    chosen = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle_partitions or os.cpu_count() or 2),
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
        "spark.executor.extraJavaOptions": ARROW_UNCHECKED,
        "spark.python.unix.domain.socket.enabled": "true",  # Java and its Python workers: no TCP between them
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        }
    return chosen
