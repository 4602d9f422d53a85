"""Replies go out when the log, or the disk, has what they tell of, and not after a disk failed."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.broker.acknowledgements import Acknowledgements
from zenitmq.model.errors import FlushTimeout, ZenitError
from zenitmq.remoting.commands import Done


class Answers:
    """Stands for the loop: what was answered, in order."""

    def __init__(self) -> None:
        self.replied: list[str] = []
        self.failed: list[tuple[str, type[ZenitError]]] = []

    def reply(self, call: str, reply: object, payload: object) -> None:
        self.replied.append(call)

    def fail(self, call: str, error: ZenitError) -> None:
        self.failed.append((call, type(error)))


class Disk:
    flushed = 0


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def disk() -> Disk:
    return Disk()


def make(answers: Answers, disk: Disk, *, sync: bool) -> Acknowledgements:
    loop: Any = answers
    return Acknowledgements(loop, promised=(lambda: disk.flushed) if sync else None, timeout_ms=50)


def stage(acknowledgements: Acknowledgements, **ends: int) -> None:
    for name, end in ends.items():
        call: Any = name
        acknowledgements.staged.append((call, Done(), end, ()))


def test_without_flush_the_commit_answers(answers: Answers, disk: Disk) -> None:
    acknowledgements = make(answers, disk, sync=False)
    stage(acknowledgements, a=10, b=20)
    assert answers.replied == []
    acknowledgements.on_committed(0)
    assert answers.replied == ["a", "b"]
    acknowledgements.on_committed(0)
    assert answers.replied == ["a", "b"]


def test_with_flush_each_waits_for_its_own_end(answers: Answers, disk: Disk) -> None:
    acknowledgements = make(answers, disk, sync=True)
    stage(acknowledgements, a=10, b=20)
    acknowledgements.on_committed(0)
    stage(acknowledgements, c=30)
    acknowledgements.on_committed(1)
    assert (answers.replied, acknowledgements.waiting_count) == ([], 3)
    disk.flushed = 19
    acknowledgements.on_promised()
    assert (answers.replied, acknowledgements.waiting_count) == (["a"], 2)
    disk.flushed = 30
    acknowledgements.on_promised()
    assert (answers.replied, acknowledgements.waiting_count) == (["a", "b", "c"], 0)


def test_a_slow_disk_is_told_to_those_whose_time_is_up(answers: Answers, disk: Disk) -> None:
    acknowledgements = make(answers, disk, sync=True)
    stage(acknowledgements, a=10)
    acknowledgements.on_committed(0)
    stage(acknowledgements, b=20)
    acknowledgements.on_committed(10)
    acknowledgements.on_tick(49)
    assert answers.failed == []
    acknowledgements.on_tick(50)
    assert answers.failed == [("a", FlushTimeout)]
    disk.flushed = 20
    acknowledgements.on_tick(51)
    assert (answers.replied, acknowledgements.waiting_count) == (["b"], 0)


@pytest.mark.parametrize("sync", [False, True])
def test_nothing_is_acknowledged_after_the_disk_failed(answers: Answers, disk: Disk, sync: bool) -> None:
    acknowledgements = make(answers, disk, sync=sync)
    if sync:
        stage(acknowledgements, parked=5)
        acknowledgements.on_committed(0)
    stage(acknowledgements, a=10)
    acknowledgements.on_poisoned()
    stage(acknowledgements, b=20)
    disk.flushed = 100
    acknowledgements.on_committed(1)
    acknowledgements.on_promised()
    acknowledgements.on_tick(1000)
    assert (answers.replied, answers.failed, acknowledgements.waiting_count) == ([], [], 0)


class Calls:
    """Callbacks that note how they were called."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, type[ZenitError] | None]] = []

    def named(self, name: str) -> Any:
        return lambda error: self.heard.append((name, None if error is None else type(error)))


@pytest.mark.parametrize("sync", [False, True])
def test_a_callback_comes_where_an_answer_would_go_out(answers: Answers, disk: Disk, sync: bool) -> None:
    acknowledgements, calls = make(answers, disk, sync=sync), Calls()
    acknowledgements.when_promised(10, calls.named("a"))
    acknowledgements.when_promised(20, calls.named("b"))
    assert calls.heard == []
    acknowledgements.on_committed(0)
    assert calls.heard == ([] if sync else [("a", None), ("b", None)])
    assert acknowledgements.waiting_count == (2 if sync else 0)
    disk.flushed = 10
    acknowledgements.on_promised()
    assert calls.heard[0] == ("a", None)
    disk.flushed = 20
    acknowledgements.on_promised()
    assert (calls.heard, acknowledgements.waiting_count) == ([("a", None), ("b", None)], 0)


def test_a_callback_is_told_that_its_time_is_up_or_that_it_never_will_be(answers: Answers, disk: Disk) -> None:
    acknowledgements, calls = make(answers, disk, sync=True), Calls()
    acknowledgements.when_promised(10, calls.named("late"))
    acknowledgements.on_committed(0)
    acknowledgements.when_promised(20, calls.named("deposed"))
    acknowledgements.on_committed(30)
    acknowledgements.on_tick(50)
    assert calls.heard == [("late", FlushTimeout)]
    acknowledgements.fail_all(FlushTimeout(1))
    assert calls.heard == [("late", FlushTimeout), ("deposed", FlushTimeout)]
    assert acknowledgements.waiting_count == 0


@pytest.mark.parametrize("sync", [False, True])
def test_no_callback_comes_once_the_disk_failed(answers: Answers, disk: Disk, sync: bool) -> None:
    acknowledgements, calls = make(answers, disk, sync=sync), Calls()
    acknowledgements.when_promised(10, calls.named("a"))
    if sync:
        acknowledgements.on_committed(0)
    acknowledgements.on_poisoned()
    acknowledgements.when_promised(20, calls.named("b"))
    acknowledgements.on_committed(1)
    disk.flushed = 20
    acknowledgements.on_promised()
    acknowledgements.on_tick(1000)
    assert calls.heard == []
