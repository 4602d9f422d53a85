"""A driver of its own, with a session of its own in which nobody registered the format: copies a topic to Parquet in small
batches, and dies by SIGKILL after a few of them.

Arguments: name server, topic, target, checkpoint, how many batches to live for.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event

from pyspark.sql import SparkSession


def main(namesrv: str, topic: str, target: str, checkpoint: str, batches: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1").getOrCreate()
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
