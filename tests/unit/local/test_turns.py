"""Turns: what a send leaves for later, and who does it then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from zenitmq.local.turns import BEHIND_BYTES, Turns
from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock
from zenitmq.model.errors import ConnectionLost, ZenitError
from zenitmq.remoting.commands import Done, GetMaxOffset, PullMessages, Reply, SendMessages
from zenitmq.remoting.server import Call

TIMEOUT_MS = 10_000
SEND = SendMessages("t", 0, 1, "g")
ASK = GetMaxOffset("t", 0)
PULL = PullMessages("g", "t", 0, 0, 32, 1 << 20, TIMEOUT_MS)


class StillClock(SystemClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        """See Clock."""
        return self.passed_ms


class Engine:
    """Turns over handlers that note what happens, and when."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.seen: list[str] = []
        self.parked: list[Call[Any]] = []
        self.answers: list[Reply | ZenitError | None] = []
        arena = Arena(1 << 20, 1 << 20)
        self.turns = Turns(
            bind="0.0.0.1:3",
            arena=arena,
            clock=self.clock,
            on_turn_end=lambda: self.seen.append("append"),
            on_replied=self._follow,
        )
        self.turns.handle(SendMessages, self._on_send)
        self.turns.handle(GetMaxOffset, self._on_ask)
        self.turns.handle(PullMessages, self.parked.append)

    def ask(self, request: Any, payload: bytes | None = None) -> list[str]:
        """What the turn of a request did."""
        before = len(self.seen)
        self.turns.serve(
            b"me", request, payload, TIMEOUT_MS, lambda reply, _, error: self.answers.append(reply or error)
        )
        return self.seen[before:]

    def _on_send(self, call: Call[SendMessages]) -> Reply:
        self.seen.append("send")
        self.turns.arena.used = call.end
        return Done()

    def _on_ask(self, _: Call[GetMaxOffset]) -> Reply:
        self.seen.append("ask")
        return Done()

    def _follow(self) -> None:
        self.turns.arena.used = 0
        self.seen.append("follow")


def test_queues_follow_when_somebody_asks() -> None:
    engine = Engine()
    assert [engine.ask(SEND, b"x") for _ in range(2)] == [["send", "append"]] * 2
    assert engine.ask(ASK) == ["follow", "ask", "append", "follow"]
    assert engine.ask(ASK) == ["ask", "append", "follow"]
    assert len(engine.answers) == 4


def test_queues_follow_at_once_while_somebody_waits() -> None:
    engine = Engine()
    engine.ask(PULL)
    assert engine.ask(SEND, b"x") == ["send", "append", "follow"]
    engine.turns.reply(engine.parked[0], Done())
    assert engine.ask(SEND, b"x") == ["send", "append"]


def test_queues_are_not_far_behind() -> None:
    engine = Engine()
    assert engine.ask(SEND, bytes(BEHIND_BYTES - 1)) == ["send", "append"]
    assert engine.ask(SEND, b"x") == ["send", "append", "follow"]


@pytest.mark.parametrize("in_a_send", [False, True])
def test_queues_follow_before_a_timer(*, in_a_send: bool) -> None:
    engine = Engine()
    engine.ask(SEND, b"x")
    engine.turns.call_later(100, lambda: engine.seen.append("timer"))
    engine.clock.passed_ms += 100
    if in_a_send:
        assert engine.ask(SEND, b"x") == ["send", "append", "follow", "timer", "append", "follow"]
    else:
        engine.turns.turn(0)
        assert engine.seen[2:] == ["follow", "append", "follow", "timer", "append", "follow"]


def test_queues_follow_before_what_is_posted_and_the_engine_s_own_work() -> None:
    engine = Engine()
    engine.ask(SEND, b"x")
    engine.turns.post(lambda: engine.seen.append("posted"))
    engine.turns.turn(0)
    assert engine.seen[2:4] == ["follow", "posted"]
    engine.seen.clear()
    engine.ask(SEND, b"x")
    engine.turns.do(lambda: engine.seen.append("work"))
    assert engine.seen[2:4] == ["follow", "work"]


def test_queues_follow_before_the_end() -> None:
    engine = Engine()
    engine.ask(SEND, b"x")
    engine.turns.stop()
    engine.turns.run()
    assert engine.seen == ["send", "append", "follow"]
    with pytest.raises(ConnectionLost):
        engine.ask(SEND, b"x")


def test_what_is_asked_in_the_middle_of_a_turn_is_done_in_another() -> None:
    engine = Engine()
    engine.turns.do(lambda: engine.ask(SEND, b"x") and None)
    assert engine.seen == ["append", "follow"]
    engine.turns.turn(0)
    assert engine.seen[2:] == ["send", "append", "follow"]
    assert len(engine.answers) == 1


def test_a_turn_of_any_thread_is_the_same() -> None:
    engine = Engine()
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(engine.ask(SEND, b"x")))
    thread.start()
    thread.join(10)
    assert found == [["send", "append"]]
