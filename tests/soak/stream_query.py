"""A streaming query that runs as long as the soak: a topic through the zenit source into the at-least-once sink.

Java's heap has its full size from the start (-Xms, pre-touched), so that what grows is not the heap.
"""

from __future__ import annotations

import os
import time

from zenitmq.pipeline.session.session import ARROW_UNCHECKED, spark_session

from .topics import COPIED, STREAM
from .worker import Worker

HEAP = "512m"
TRIGGER_S = 5
STARTS_MAX = 20


def copy(worker: Worker) -> None:
    """Begins the query again from its checkpoint where it fails, which is told."""
    session = spark_session(
        "zenit-soak",
        "local[1]",
        shuffle_partitions=1,
        config={
            "spark.driver.memory": HEAP,
            "spark.driver.extraJavaOptions": f"{ARROW_UNCHECKED} -Xms{HEAP} -XX:+AlwaysPreTouch",
            "spark.local.dir": os.path.join(worker.job.directory, "spark"),
            "spark.sql.warehouse.dir": os.path.join(worker.job.directory, "warehouse"),
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.streaming.minBatchesToRetain": "5",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    options = {"namesrv": worker.job.namesrv, "subscribe": STREAM, "startingOffsets": "earliest"}
    for start in range(STARTS_MAX):
        frame = session.readStream.format("zenit").options(**options).load()
        query = (
            frame.select("body")
            .writeStream.format("zenit")
            .options(namesrv=worker.job.namesrv, topic=COPIED)
            .option("checkpointLocation", os.path.join(worker.job.directory, "checkpoint"))
            .trigger(processingTime=f"{TRIGGER_S} seconds")
            .start()
        )
        while query.isActive and not worker.stopping.is_set():
            worker.stopping.wait(1.0)
        if worker.stopping.is_set():
            query.stop()
            break
        failure = query.exception()
        worker.wrong(f"the streaming query ended at start {start}", str(failure)[:2000])
        time.sleep(2)
    session.stop()
