"""A driver of its own on a small cluster: does what it is told of works that others have begun, until it is killed.

Arguments: Spark's master, name server, the works' directory and their names' prefix, settings of Spark's as JSON. A line of its
input is a call, {"work", "number", "options"}; the line that answers it has what it ended with, "" where nothing was wrong.
`{"begin": call}` is not answered: it goes on beside those that follow. Nor is `{"set": [key, value]}`, a setting of Spark's.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from spark.matrix.works import PARTITIONS, WORKS, Place

from zenitmq.pipeline.session.session import LOOPBACK
from zenitmq.pipeline.session.session import settings as session_settings


def done(place: Place, call: dict[str, Any]) -> str:
    """Does a work's part; returns what it ended with."""
    kind = next(kind for kind in WORKS if kind.name == call["work"])
    work = kind(place, call["number"])
    work.options.update(call["options"])
    try:
        work.do_far()
    except Exception:  # noqa: BLE001  # of whatever kind: who has called judges it
        return traceback.format_exc()
    return ""


def begin(spark: SparkSession, place: Place, call: dict[str, Any]) -> None:
    """In a thread of its own, of which Spark's Java is told which session it is of."""

    def run() -> None:
        assert spark._jvm is not None
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        print(done(place, call), file=sys.stderr, flush=True)

    InheritableThread(target=run).start()


def set_now(spark: SparkSession, key: str, value: str) -> None:
    """Of Spark itself, which looks at it for each set of tasks, and of the session, which tells it to tasks."""
    assert spark.sparkContext._jsc is not None
    spark.sparkContext._jsc.sc().conf().set(key, value)
    spark.conf.set(key, value)


def main(master: str, namesrv: str, directory: str, name: str, settings: str) -> None:
    loopback = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    builder = SparkSession.builder.master(master)  # nobody registers the format: Spark finds it
    chosen = session_settings(master, shuffle_partitions=PARTITIONS, ui=False) | loopback | json.loads(settings)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    place = Place(spark, namesrv, Path(directory), name)
    for line in sys.stdin:
        call = json.loads(line)
        if "begin" in call:
            begin(spark, place, call["begin"])
        elif "set" in call:
            set_now(spark, *call["set"])
        else:
            print(json.dumps(done(place, call)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
