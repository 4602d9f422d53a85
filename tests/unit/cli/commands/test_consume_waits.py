"""`zenit consume` while no broker serves the topic: it says so once, waits, and does not end as if nothing were there."""

from __future__ import annotations

import threading

import pytest

from zenitmq.cli.commands.messages.consume import LostRanges, _print_messages
from zenitmq.model.errors import NoRoute, ZenitError

REASON = NoRoute("t", "broker-a, which has it, is not registered now")


class WaitingConsumer:
    """One entry a poll: what it waits for then; at the last it is stopped. It is its own consumer."""

    def __init__(self, stopping: threading.Event, *reasons: ZenitError | None) -> None:
        self.consumer = self
        self.waits_for: ZenitError | None = None
        self._stopping, self._reasons = stopping, list(reasons)

    def next(self, _: int | None) -> list[object]:
        self.waits_for = self._reasons.pop(0)
        if not self._reasons:
            self._stopping.set()
        return []

    def end(self) -> None:
        pass


def consume(*reasons: ZenitError | None, idle_exit: float | None = None) -> None:
    stopping = threading.Event()
    consumer = WaitingConsumer(stopping, *reasons)
    _print_messages(consumer, LostRanges(as_json=False), lambda _: b"", None, idle_exit, stopping)  # type: ignore[arg-type]


def test_what_it_waits_for_is_one_line_each_time(capfd: pytest.CaptureFixture[str]) -> None:
    consume(REASON, NoRoute(*REASON.args), None, REASON)
    assert capfd.readouterr().err == f"zenit: waiting: {REASON}\n" * 2


def test_it_does_not_end_as_idle_while_it_waits() -> None:
    with pytest.raises(NoRoute):
        consume(REASON, REASON, idle_exit=0)
    consume(None, REASON, idle_exit=0)
