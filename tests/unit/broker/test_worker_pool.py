"""Work of the workers: its result is answered by the loop, unless another broker has become master meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from zenitmq.broker.worker_pool import WorkerPool
from zenitmq.model.errors import BrokerBusy, NotMaster, SystemFault, ZenitError
from zenitmq.remoting.commands import GetTopics, Request


class Now(Executor):
    """Runs what it is given at once."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work(*args, **kwargs)
        return Future()


class Loop:
    """Keeps what is posted until the test runs it, and the errors that were answered."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.failed: list[ZenitError] = []

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def fail(self, call: object, error: ZenitError) -> None:
        self.failed.append(error)

    def turn(self) -> None:
        while self.posted:
            self.posted.pop(0)()


class Call:
    request = GetTopics()


class Bench:
    def __init__(self) -> None:
        self.loop = Loop()
        self.against: ZenitError | None = None
        self.results: list[object] = []
        self.workers = WorkerPool(Now(), self.loop, None, waiting_max=2, check=self.check)  # type: ignore[arg-type]

    def check(self, request_class: type[Request]) -> None:
        assert request_class is GetTopics
        if self.against is not None:
            raise self.against

    def run(self, work: Callable[[], object]) -> None:
        self.workers.run(Call(), work, self.results.append)  # type: ignore[arg-type]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_result_comes_back_to_the_loop(bench: Bench) -> None:
    bench.run(lambda: 7)
    assert (bench.results, bench.workers.waiting) == ([], 1)
    bench.loop.turn()
    assert (bench.results, bench.workers.waiting, bench.workers.done) == ([7], 0, 1)


def test_nothing_is_done_with_it_once_another_broker_leads(bench: Bench) -> None:
    bench.run(lambda: 7)
    bench.against = NotMaster("broker-a", 2)
    bench.loop.turn()
    assert bench.results == []
    assert bench.loop.failed == [bench.against]
    assert bench.workers.waiting == 0


def test_an_error_is_answered_and_a_fault_told_as_one(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    error = BrokerBusy(1)

    def refuse() -> object:
        raise error

    bench.run(refuse)
    bench.run(lambda: 1 // 0)
    bench.loop.turn()
    assert bench.loop.failed[0] is error
    assert isinstance(bench.loop.failed[1], SystemFault)
    assert "ZeroDivisionError" in caplog.text


def test_waiting_work_is_bounded(bench: Bench) -> None:
    bench.run(lambda: 1)
    bench.run(lambda: 2)
    with pytest.raises(BrokerBusy):
        bench.run(lambda: 3)


def test_work_of_the_broker_s_own_brings_its_result_or_none(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> object:
        raise ValueError("of its own")

    bench.workers.run_aside(lambda: 5, bench.results.append)
    bench.workers.run_aside(fails, bench.results.append)
    assert bench.results == []
    bench.loop.turn()
    assert (bench.results, bench.workers.waiting, bench.loop.failed) == ([5, None], 0, [])
    assert "of its own" in caplog.text
