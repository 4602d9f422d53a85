"""Work for ZooKeeper: done in order, answered on the loop, bounded; trouble is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.controller.store_worker import StoreWorker
from zenitmq.model.errors import BrokerBusy, BufferFull, SystemFault, UnknownReplica, ZenitError, ZooKeeperUnavailable


class Hands:
    """An executor and a loop that do their next thing when told."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.posted: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        self.jobs.append((work, arguments))

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def do_all(self) -> None:
        while self.jobs:
            work, arguments = self.jobs.pop(0)
            work(*arguments)
        while self.posted:
            self.posted.pop(0)()


@pytest.fixture
def hands() -> Hands:
    return Hands()


def store_worker(hands: Hands, **limits: int) -> StoreWorker:
    return StoreWorker(hands, hands, on_dropped=pytest.fail, **limits)  # type: ignore[arg-type]


def raises(error: Exception) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


def test_the_answer_comes_on_the_loop_and_in_order(hands: Hands) -> None:
    told: list[int | ZenitError] = []
    one = store_worker(hands)
    for number in range(3):
        one.ask(lambda number=number: number, told.append)  # type: ignore[misc]
    assert told == []
    for work, arguments in hands.jobs:
        work(*arguments)
    assert told == [], "the worker tells nobody"
    hands.jobs.clear()
    hands.do_all()
    assert told == [0, 1, 2]


def test_an_error_is_an_answer(hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    one = store_worker(hands)
    one.ask(raises(UnknownReplica("g", "r")), told.append)
    one.ask(raises(KeyError("ours")), told.append)
    hands.do_all()
    assert isinstance(told[0], UnknownReplica)
    assert isinstance(told[1], SystemFault), "a mistake of ours is told, too, and the worker goes on"
    assert [record.message for record in caplog.records] == ["work for ZooKeeper failed"]


def test_over_its_limit_it_refuses_until_it_has_answered(hands: Hands) -> None:
    one = store_worker(hands, waiting_max=2)
    told: list[Any] = []
    one.ask(lambda: 1, told.append)
    one.ask(lambda: 2, told.append)
    with pytest.raises(BrokerBusy):
        one.ask(lambda: 3, told.append)
    hands.do_all()
    one.ask(lambda: 4, told.append)
    hands.do_all()
    assert told == [1, 2, 4]


def test_trouble_is_said_once_and_its_end_once(hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = store_worker(hands)
    away = raises(ZooKeeperUnavailable("read", "no answer"))
    for work in (lambda: 1, away, away, raises(UnknownReplica("g", "r")), away, lambda: 2, lambda: 3, away):
        one.ask(work, lambda _: None)
        hands.do_all()
    said = [record.message.partition(";")[0] for record in caplog.records]
    away_said = "ZooKeeper does not serve, waiting for it"
    assert said == [away_said, "ZooKeeper serves again", away_said]


def test_an_answer_that_the_loop_has_no_room_for_ends_the_process(hands: Hands) -> None:
    """Whoever waits for it would wait for ever; another process begins with what ZooKeeper holds."""

    class Full(Hands):
        def post(self, callback: Callable[[], None]) -> None:
            raise BufferFull(0)

    ended: list[str] = []
    full = Full()
    one = StoreWorker(full, full, on_dropped=lambda: ended.append("dropped"))  # type: ignore[arg-type]
    one.ask(lambda: 1, pytest.fail)
    full.do_all()
    assert ended == ["dropped"]
