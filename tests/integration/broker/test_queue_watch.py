"""AwaitArrivals at a real broker: one request waits for a message in any of many queues."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.remoting import commands
from zenitmq.remoting.commands import ArrivalsReply, AwaitArrivals


def told(reply: ArrivalsReply) -> list[tuple[str, int]]:
    return [(reply.topics[at], queue_id) for at, queue_id in reply.queues]


def ask(broker: Any, request: AwaitArrivals) -> ArrivalsReply:
    reply = broker.client.call(broker.address, request, timeout_ms=10_000)[0]
    assert isinstance(reply, ArrivalsReply)
    return reply


def test_what_is_there_is_told_at_once_and_what_comes_to_the_request_that_waits(broker: Any, record: Any) -> None:
    broker.create("trades")
    broker.create("quotes")
    broker.send("trades", record("trades"))
    topics = ("trades", "quotes", "none")
    reply = ask(broker, AwaitArrivals("w", 1, topics, ((0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 0, 0), (1, 99, 0)), 5000))
    assert reply.is_known
    assert told(reply) == [("trades", 0), ("none", 0), ("quotes", 99)], "a pull there is answered, or refused"
    answers: list[ArrivalsReply] = []
    waiting = threading.Thread(target=lambda: answers.append(ask(broker, AwaitArrivals("w", 2, wait_ms=8000))))
    waiting.start()
    time.sleep(0.1)
    assert broker.ask(commands.GetBrokerStatistics())["pulls"]["watched_queues"] == 2
    broker.send("quotes", record("quotes"))
    waiting.join(5)
    assert [told(answer) for answer in answers] == [[("quotes", 0)]]
    assert ask(broker, AwaitArrivals("w", 3, ("trades",), ((0, 0, 1),), 10)).queues == ()
    assert broker.ask(commands.GetBrokerStatistics())["pulls"]["watched_queues"] == 2


def test_the_next_request_answers_the_one_before_and_a_missing_one_is_noticed(broker: Any) -> None:
    broker.create("trades")
    answers: list[ArrivalsReply] = []
    first = AwaitArrivals("w", 1, ("trades",), ((0, 0, 0),), 8000)
    waiting = threading.Thread(target=lambda: answers.append(ask(broker, first)))
    waiting.start()
    time.sleep(0.1)
    assert not ask(broker, AwaitArrivals("w", 3, wait_ms=10)).is_known
    waiting.join(5)
    assert [(answer.is_known, answer.queues) for answer in answers] == [(True, ())]
    assert not ask(broker, AwaitArrivals("never-begun", 2)).is_known


@pytest.mark.parametrize(
    "request_",
    [
        AwaitArrivals("", 1),
        AwaitArrivals("w" * 65, 1),
        AwaitArrivals("w", 0),
        AwaitArrivals("w", 1, ("t",), ((1, 0, 0),)),
        AwaitArrivals("w", 1, ("t",), ((-1, 0, 0),)),
        AwaitArrivals("w", 1, ("t",), ((0, 0, 0),) * 4097),
    ],
)
def test_wrong_requests_are_refused(broker: Any, request_: AwaitArrivals) -> None:
    with pytest.raises(InvalidParameter):
        ask(broker, request_)


def test_numbers_that_are_no_queues_and_no_offsets_are_something_to_pull(broker: Any) -> None:
    broker.create("trades")
    queues = ((0, -1, 0), (0, 1 << 40, 0), (0, 0, -5), (0, 0, 1 << 62))
    assert len(ask(broker, AwaitArrivals("w", 1, ("trades",), queues)).queues) == 3
