"""Being asked: however many questions come at once, each is answered, within a bound of memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from zenitmq.client.connection.waiting import run_blocking
from zenitmq.client.sending.transactions import transaction_checks
from zenitmq.client.sending.transactions.transaction_checks import TransactionChecks
from zenitmq.model.handles.transaction import Resolution
from zenitmq.record.kernel import StoredMessage, encode_record
from zenitmq.remoting.commands import CheckTransaction


class Timer:
    def cancel(self) -> None:
        pass


class Connection:
    """Of which the timer alone is used here."""

    class remoting:
        @staticmethod
        def every(_interval_ms: int, _callback: Callable[[], None]) -> Timer:
            return Timer()


class Waits:
    """Keeps what is to run."""

    def __init__(self) -> None:
        self.works: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], _name: str) -> None:
        self.works.append(work)

    def run(self) -> None:
        while self.works:
            run_blocking(self.works.pop(0)())


class Asked:
    """A producer that is asked; `decided`: the ids that it decided."""

    def __init__(self, resolution: object = Resolution.COMMIT) -> None:
        self.waits = Waits()
        self.decided: list[tuple[str, Resolution]] = []
        self.resolution = resolution

        async def check(_message: StoredMessage) -> object:
            if isinstance(self.resolution, Exception):
                raise self.resolution
            return self.resolution

        async def decide(request: CheckTransaction, _message: StoredMessage, resolution: Resolution) -> None:
            self.decided.append((request.transaction_id, resolution))

        self.checks = TransactionChecks(cast("Any", Connection()), cast("Any", self.waits), check, decide, workers=4)

    def ask(self, name: str, body: bytes = b"pay") -> None:
        record = encode_record(topic=b"t", body=body, properties=b"", born_timestamp_ms=1)
        self.checks.on_check(CheckTransaction("g", name, 0), bytes(record))


def test_a_flood_of_questions_is_answered_each_once() -> None:
    """A thousand were kept, the others dropped, and parked at last though the producer answered all the time."""
    asked = Asked()
    names = [str(number) for number in range(20_000)]
    for name in names:
        asked.ask(name)
        asked.ask(name)
    assert len(asked.waits.works) == 4
    asked.waits.run()
    assert asked.decided == [(name, Resolution.COMMIT) for name in names]


def test_over_the_bound_questions_are_dropped_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transaction_checks, "WAITING_BYTES_MAX", 10_000)
    asked = Asked()
    for number in range(100):
        asked.ask(str(number), bytes(800))
    assert [record.message for record in caplog.records] == [
        "questions about transactions are dropped, 5 wait already: is check stuck?"
    ]
    asked.waits.run()
    assert len(asked.decided) == 5
    asked.ask("large", bytes(20_000))
    asked.waits.run()
    assert asked.decided[-1][0] == "large", "one alone is taken, whatever its size"


@pytest.mark.parametrize("said", [RuntimeError("away"), True, None, Resolution.UNKNOWN])
def test_what_is_no_decision_decides_nothing_and_holds_nothing_up(said: object) -> None:
    asked = Asked(said)
    asked.ask("A")
    asked.waits.run()
    assert asked.decided == [("A", Resolution.UNKNOWN)]
    asked.resolution = Resolution.ROLLBACK
    asked.ask("A")
    asked.waits.run()
    assert asked.decided[1:] == [("A", Resolution.ROLLBACK)]


def test_who_is_closed_during_a_check_decides_nothing() -> None:
    asked = Asked()
    asked.ask("A")
    asked.ask("B")
    (work, *_) = asked.waits.works
    asked.checks.close()
    run_blocking(work())
    asked.ask("C")
    assert asked.decided == []
