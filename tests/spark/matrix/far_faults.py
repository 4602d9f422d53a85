"""The faults of the matrix that need a cluster of Spark's own: tasks and drivers that are killed, and speculation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from spark.matrix.query_faults import Fault
from spark.matrix.works import Work


class TaskKilled(Fault):
    """The process of a task is killed once it has read, sent or staged rows; Spark runs the task again."""

    name = "task killed"

    def prepare(self, work: Work) -> None:
        work.leave()

    def go_on(self, work: Work) -> None:
        far = work.place.far
        far.cluster.arm(work, "kill")
        far.driver().do(work)
        assert far.cluster.has_struck(work), "no task was killed"


class Speculation(Fault):
    """A task stands still, and Spark runs it a second time on another host."""

    name = "speculation"

    def prepare(self, work: Work) -> None:
        work.leave()

    def go_on(self, work: Work) -> None:
        far = work.place.far
        far.cluster.arm(work, "stop")
        far.driver(speculates=True).do(work)
        assert far.cluster.has_struck(work), "no task stood still"


class DriverKilled(Fault):
    """The driver is killed in the middle of a batch of which rows were read, sent or staged; another one goes on."""

    name = "driver killed"

    def prepare(self, work: Work) -> None:
        work.leave()

    @contextmanager
    def striking(self, works: Sequence[Work]) -> Iterator[None]:
        far = works[0].place.far
        far.driver().begin(works)
        far.end_driver()
        yield


FAR_FAULTS: Final = (TaskKilled(), Speculation(), DriverKilled())
