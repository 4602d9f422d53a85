"""Asking replicas to flush: whom, in which life, and what is told once all have answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sim.group_kit import GROUP, group, replica

from zenitmq.controller.flush_round import FlushRound
from zenitmq.model.errors import BufferFull, ConnectionLost, IncarnationUnknown, RequestTimeout
from zenitmq.remoting.channel import OnReply
from zenitmq.remoting.commands import Done, FlushLog, Request


class Replicas:
    """Keeps what was asked; is the loop, too, and carries out what is posted when it is told to."""

    def __init__(self, *, unreachable: str = "", is_full: bool = False) -> None:
        self.asked: dict[str, tuple[Request, int, OnReply]] = {}
        self.posted: list[Callable[[], None]] = []
        self.told: list[frozenset[str]] = []
        self._unreachable = unreachable
        self._is_full = is_full

    def send_nowait(self, address: str, request: Request, payload: None, *, timeout_ms: int, on_reply: OnReply) -> None:
        name = address.removeprefix("host-").partition(":")[0]
        if name in self._unreachable:
            raise ConnectionLost(address)
        self.asked[name] = (request, timeout_ms, on_reply)

    def post(self, callback: Callable[[], None]) -> None:
        if self._is_full:
            raise BufferFull(1)
        self.posted.append(callback)

    def begin(self, names: str, timeout_ms: int = 500) -> None:
        FlushRound(self, self, group(starts=3), frozenset(names), self.told.append).begin(timeout_ms)

    def answer(self, name: str, error: Exception | None = None) -> None:
        self.asked[name][2](None if error else Done(), b"", error)  # type: ignore[arg-type]

    def run(self) -> None:
        while self.posted:
            self.posted.pop(0)()


def test_each_that_is_named_is_asked_in_the_life_that_is_known() -> None:
    replicas = Replicas()
    replicas.begin("ac")
    assert {name: asked[:2] for name, asked in replicas.asked.items()} == {
        "a": (FlushLog(GROUP, "a", "store-a", 3), 500),
        "c": (FlushLog(GROUP, "c", "store-c", 3), 500),
    }
    assert replica("a", 3).incarnation.starts == 3


def test_it_is_told_once_all_have_answered_and_on_the_loop() -> None:
    replicas = Replicas()
    replicas.begin("abc")
    replicas.answer("b")
    replicas.answer("a")
    replicas.run()
    assert replicas.told == []
    replicas.answer("c")
    assert replicas.told == [], "not in the client's thread"
    replicas.run()
    assert replicas.told == [frozenset("abc")]


@pytest.mark.parametrize("error", [RequestTimeout("FlushLog", 500), IncarnationUnknown(GROUP, "b", 4, 3)])
def test_one_that_fails_has_not_flushed(error: Exception) -> None:
    replicas = Replicas()
    replicas.begin("ab")
    replicas.answer("a")
    replicas.answer("b", error)
    replicas.run()
    assert replicas.told == [frozenset("a")]


def test_one_that_cannot_even_be_asked_does_not_keep_the_others_from_it() -> None:
    replicas = Replicas(unreachable="a")
    replicas.begin("ab")
    assert replicas.told == []
    replicas.answer("b")
    replicas.run()
    assert replicas.told == [frozenset("b")]


def test_none_can_be_asked() -> None:
    replicas = Replicas(unreachable="ab")
    replicas.begin("ab")
    assert replicas.told == [frozenset()]


def test_a_loop_that_is_far_behind_loses_the_answer_only() -> None:
    replicas = Replicas(is_full=True)
    replicas.begin("a")
    replicas.answer("a")
    assert replicas.told == []
