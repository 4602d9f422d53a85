"""A Spark session that is fit for the format "zenit": the workers' Python, Java, filters pushed, few shuffle partitions.

A program with its own session does not need this one: docs/pipeline.md says what it sets, and why.
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
"""Java then checks no bounds, and nulls once instead of twice, when it reads from Arrow."""

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""For local files, Spark's default starts processes (`readlink`) at each micro-batch."""


def spark_session(
    app: str,
    master: str = "local[*]",
    *,
    shuffle_partitions: int | None = None,
    ui: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, created if there is none yet.

    `shuffle_partitions`: of joins and aggregations; None = as many as this machine has cores (a stateful query keeps its
    initial number). `config`: settings of Spark that override those made here. Sets PYSPARK_PYTHON, PYSPARK_DRIVER_PYTHON
    and JAVA_HOME in this process's environment, unless they are set. Raises RequirementMissing.
    """
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # otherwise workers run the path's python3, without our packages
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
    """The settings of the session. A local one uses only the loopback interface."""
    chosen = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle_partitions or os.cpu_count() or 2),
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
        "spark.executor.extraJavaOptions": ARROW_UNCHECKED,
        "spark.python.unix.domain.socket.enabled": "true",  # between Java and its Python workers, instead of TCP
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        }
    return chosen
