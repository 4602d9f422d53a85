"""`zenit consume` beside a range that is gone for good: it says so, and ends with 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Self

import pytest
import typer

from zenitmq.cli.commands.messages.consume import register
from zenitmq.cli.main import FAILED
from zenitmq.client import pull_consumer
from zenitmq.client.consuming.prefetch import MessagesLost
from zenitmq.model.queue import MessageQueue

QUEUE = MessageQueue("t", "broker-a", 3)
LOST = (MessagesLost(QUEUE, 5, 8, (4096, 5000)), MessagesLost(QUEUE, 9, 10, (6000, 6100)))


class DamagedConsumer:
    """Meets the losses at its first poll, in place of the client that asks a broker."""

    waits_for = None

    def __init__(self, _group: str, *, on_lost: Callable[[MessagesLost], object], **_: Any) -> None:
        self._on_lost, self._left = on_lost, list(LOST)

    def subscribe(self, _topic: str, _wanted: object) -> None:
        pass

    def poll(self, **_: Any) -> list[object]:
        while self._left:
            self._on_lost(self._left.pop(0))
        return []

    def commit(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def exit_code(*more: str) -> int:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    code = app(["consume", "t", "--group", "g", "--idle-exit", "0", *more], standalone_mode=False)
    return int(code)


@pytest.fixture(autouse=True)
def damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_consumer, "PullConsumer", DamagedConsumer)
    monkeypatch.setattr("zenitmq.cli.commands.messages.consume.stop_on_signals", lambda _stop: None)


def test_each_range_is_a_line_and_the_exit_code_is_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code() == FAILED
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "zenit: t@broker-a:3: messages 5 to 7 are lost: damaged at the broker, bytes 4096 to 5000 of its log",
        "zenit: t@broker-a:3: message 9 is lost: damaged at the broker, bytes 6000 to 6100 of its log",
    ]


def test_each_range_is_an_object_among_the_messages(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--json") == FAILED
    out, err = capfd.readouterr()
    assert err == ""
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "topic": "t",
            "queue_id": 3,
            "broker_name": "broker-a",
            "lost": {"begin": begin, "end": end},
            "damaged_bytes": {"begin": low, "end": high},
        }
        for begin, end, (low, high) in ((lost.begin, lost.end, lost.damaged) for lost in LOST)
    ]
