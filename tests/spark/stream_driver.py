"""A driver of its own: copies a topic to Parquet in small batches, and dies by SIGKILL after a few of them.

Arguments: name server, topic, target, checkpoint, how many batches to live for.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event

from zenitmq.pipeline.session import spark_session


def main(namesrv: str, topic: str, target: str, checkpoint: str, batches: str) -> None:
    spark = spark_session("dies", "local[2]", shuffle_partitions=2)
    spark.sparkContext.setLogLevel("OFF")
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    writer = spark.readStream.format("zenit").options(**options).load().writeStream.format("parquet")
    query = writer.option("path", target).option("checkpointLocation", checkpoint).start()
    while (query.lastProgress or {"batchId": -1})["batchId"] < int(batches):
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        Event().wait(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
