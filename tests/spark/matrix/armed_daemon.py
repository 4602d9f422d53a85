"""What Spark forks its Python workers from on the small cluster of the matrix: pyspark's own, but a task dies or stands still.

An *arm* is an empty file in the directory ARMS, `<work's id>.<moment>.<deed>`. The first task that comes to the moment takes
it away, and does the deed: it kills its process, or waits for ever. Moments are when a task has read a part of its rows,
sent all of them, or staged its files; it has told nobody yet.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final

import zenitmq.pipeline.jobs.archives.parquet_files as parquet_files
import zenitmq.pipeline.reading.queue_reader as queue_reader
import zenitmq.pipeline.writing.row_sends as row_sends
import zenitmq.pipeline.writing.send_lanes as send_lanes

ARMS: Final = "ZENIT_MATRIX_ARMS"


def at(moment: str, place: str) -> None:
    """A task is at a moment. `place`: a topic or directory that has the work's id in its name."""
    directory = os.environ[ARMS]
    for name in os.listdir(directory):
        work, when, deed = name.split(".")
        if when != moment or deed == "done" or not (f"{work}-" in place or f"{work}/" in place):
            continue
        try:
            os.rename(os.path.join(directory, name), os.path.join(directory, f"{work}.{moment}.done"))
        except FileNotFoundError:
            continue  # another task was faster
        if deed == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()


def arm_tasks() -> None:
    """Has the tasks of this process, and of its forks, tell when they are at a moment."""
    read_range, write_rows, finish = queue_reader.read_range, parquet_files.write_rows, send_lanes.TaskLanes.finish
    sent_to: list[str] = []

    def armed_read(options: Any, item: Any) -> Iterator[Any]:
        for batch in read_range(options, item):
            yield batch
            at("read", item.topic)

    def armed_write(batches: Any, directory: str, target_bytes: int) -> Any:
        staged = write_rows(batches, directory, target_bytes)
        at("staged", directory)
        return staged

    def armed_finish(lanes: Any) -> None:
        finish(lanes)
        for topic in sent_to:
            at("sent", topic)
        sent_to.clear()

    def remembering(send: Any) -> Any:
        def armed_send(sends: Any, topic: str, *others: Any) -> None:
            sent_to.append(topic)
            send(sends, topic, *others)

        return armed_send

    for function, armed in ((read_range, armed_read), (write_rows, armed_write)):
        armed.__module__, armed.__qualname__ = function.__module__, function.__qualname__  # found by these in a pickle
    queue_reader.read_range = armed_read
    parquet_files.write_rows = armed_write
    send_lanes.TaskLanes.finish = armed_finish  # type: ignore[method-assign]
    for kind in (row_sends.LooseSends, row_sends.PinnedSends):
        kind.send = remembering(kind.send)  # type: ignore[method-assign]


if __name__ == "__main__":
    arm_tasks()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
