"""A replica that is asked whether the disk has its log: when it answers, and whom it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.broker.flush_waits import FlushWaits
from zenitmq.model.errors import FlushTimeout, IncarnationUnknown, UnknownReplica, ZenitError
from zenitmq.model.groups.group import Incarnation
from zenitmq.remoting.commands import Done, FlushLog, Reply

ASKED = FlushLog("g", "a", "store-a", 2)


class Call:
    def __init__(self, request: FlushLog, deadline_ms: int) -> None:
        self.request = request
        self.deadline_ms = deadline_ms


class Replica:
    """Its log and its loop; `answers` in the order in which they were given."""

    def __init__(self, written: int = 100, flushed: int = 0) -> None:
        self.written = written
        self.flushed = flushed
        self.requests = 0
        self.answers: list[tuple[Any, Reply | ZenitError]] = []
        itself: Any = self
        self.waits = FlushWaits(itself, itself, broker_name="g", name="a", incarnation=Incarnation("store-a", 2))

    def request_flush(self) -> None:
        self.requests += 1

    def reply(self, call: Any, reply: Reply) -> None:
        self.answers.append((call, reply))

    def fail(self, call: Any, error: ZenitError) -> None:
        self.answers.append((call, error))

    def ask(self, request: FlushLog = ASKED, *, deadline_ms: int = 1000, now_ms: int = 0) -> Any:
        """The call, where it waits; else the answer."""
        call: Any = Call(request, deadline_ms)
        answer = self.waits.on_flush_log(call, now_ms)
        return call if answer is None else answer

    def flush_to(self, flushed: int) -> None:
        self.flushed = flushed
        self.waits.on_flushed()


@pytest.mark.parametrize(("written", "flushed"), [(0, 0), (100, 100), (100, 120)])
def test_what_the_disk_has_is_answered_at_once(written: int, flushed: int) -> None:
    replica = Replica(written, flushed)
    assert replica.ask() == Done()
    assert replica.requests == 0


def test_it_waits_for_what_was_written_when_it_came_and_for_nothing_later() -> None:
    replica = Replica()
    call = replica.ask()
    assert replica.requests == 1
    replica.written = 500
    replica.flush_to(99)
    assert replica.answers == []
    replica.flush_to(100)
    assert replica.answers == [(call, Done())]


def test_several_wait_each_for_its_own_end() -> None:
    replica = Replica()
    first = replica.ask()
    replica.written = 200
    second, third = replica.ask(), replica.ask()
    replica.flush_to(150)
    assert replica.answers == [(first, Done())]
    replica.flush_to(200)
    assert [call for call, _ in replica.answers] == [first, second, third]


def test_who_has_given_up_is_refused_and_the_others_wait_on() -> None:
    replica = Replica()
    waits = replica.ask(deadline_ms=5000)
    hasty = replica.ask(deadline_ms=300, now_ms=100)
    replica.waits.on_tick(299)
    assert replica.answers == []
    replica.waits.on_tick(300)
    ((call, error),) = replica.answers
    assert call is hasty
    assert isinstance(error, FlushTimeout)
    assert error.timeout_ms == 200
    replica.flush_to(100)
    assert replica.answers[1:] == [(waits, Done())]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (FlushLog("other", "a", "store-a", 2), UnknownReplica),
        (FlushLog("g", "b", "store-a", 2), UnknownReplica),
        (FlushLog("g", "a", "store-b", 2), IncarnationUnknown),
        (FlushLog("g", "a", "store-a", 1), IncarnationUnknown),
    ],
)
def test_another_replica_or_life_is_refused_even_where_all_is_flushed(
    request_: FlushLog, error: type[ZenitError]
) -> None:
    """Its address may be another's by now."""
    replica = Replica(100, 100)
    with pytest.raises(error):
        replica.ask(request_)
