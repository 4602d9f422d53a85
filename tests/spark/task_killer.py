"""A driver on a standalone cluster: reads a topic; the first attempt of each task is killed in its middle.

Arguments: Spark's master, name server, topic. Prints a JSON document: [[queue id, queue offset], ...] of all rows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from zenitmq.pipeline.session import LOOPBACK, spark_session


def main(master: str, namesrv: str, topic: str) -> None:
    loopback = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    spark = spark_session(
        "survives", master, shuffle_partitions=2, config={**loopback, "spark.executor.memory": "512m"}
    )
    spark.sparkContext.setLogLevel("OFF")
    options = {"namesrv": namesrv, "subscribe": topic, "columns": "queueId,queueOffset", "minPartitions": "3"}
    frame = spark.read.format("zenit").options(**options).load()

    def killed_once(rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for number, row in enumerate(rows):
            task = TaskContext.get()
            if number == 3 and task is not None and task.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield [row.queueId, row.queueOffset]

    print(json.dumps(frame.rdd.mapPartitions(killed_once).collect()))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
