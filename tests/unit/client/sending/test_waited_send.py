"""A send that its caller waits for, over a network that answers as it is told and a clock that it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from zenitmq.client.connection.retry import RetryPolicy
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.client.sending import destinations, waited_send
from zenitmq.client.sending.attempts import PlainAttempts
from zenitmq.client.sending.destinations import Destinations
from zenitmq.client.sending.idempotent.queue_streams import QueueStreams
from zenitmq.client.sending.latency_fault import LatencyFault, latency_table
from zenitmq.client.sending.send_context import SendContext
from zenitmq.client.sending.waited_send import WaitedSends
from zenitmq.model.errors import BrokerBusy, ConnectionLost, MessageIllegal, NotMaster, OutcomeUnknown, ZenitError
from zenitmq.model.queue import MessageQueue
from zenitmq.model.route import BrokerData, QueueData, TopicRoute
from zenitmq.remoting.commands import Reply, SendReply

TOPIC = "trades"
STORED = SendReply(0, 7, 1000, 1, bytes(8))
Attempts = PlainAttempts | QueueStreams


class Network:
    """Answers each call with the next of `answers`. Whoever waits for a signal waits 700 ms; then `on_wait` is done."""

    def __init__(self, answers: Sequence[Reply | ZenitError], brokers: Sequence[str], attempts: Attempts) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.now_ms = 1_000
        self.on_wait: Any = lambda: None
        self.fault = LatencyFault(latency_table("rocketmq-5"))
        route = TopicRoute(
            TOPIC,
            tuple(QueueData(name, 1, 1, 6) for name in brokers),
            tuple(BrokerData("c", name, {0: f"{name}:1"}) for name in brokers),
        )
        connection = Mock()
        self.routes = connection.routes
        connection.routes.cached.return_value = route
        connection.routes.address_of.side_effect = lambda _, broker_name: f"{broker_name}:1"
        context = SendContext(
            connection=connection,
            waits=self,  # type: ignore[arg-type]
            group="g",
            destinations=Destinations(connection.routes, self.fault),
            fault=self.fault,
            retry=RetryPolicy(),
            attempts=attempts,
            compress_over=4096,
        )
        batch = Mock(count=1)
        batch.payload.return_value = memoryview(b"record")
        self.sends = WaitedSends(context, Mock(make=Mock(return_value=batch)))

    async def call(self, address: str, *_: object, timeout_ms: int) -> tuple[Reply, bytes]:
        self.asked.append(address)
        answer = self.answers.pop(0)
        if isinstance(answer, ZenitError):
            raise answer
        return answer, b""

    async def sleep(self, delay_ms: int) -> None:
        self.now_ms += delay_ms

    def new_signal(self) -> Network:
        return self

    def set(self) -> None:
        """It has come."""

    async def wait(self, timeout_ms: int) -> bool:
        self.now_ms += min(timeout_ms, 700)
        self.on_wait()
        return timeout_ms > 700

    def send(self, total_ms: int = 10_000) -> Any:
        return run_blocking(self.sends.send(TOPIC, Mock(), None, total_ms))


def network(
    monkeypatch: pytest.MonkeyPatch,
    *answers: Reply | ZenitError,
    brokers: Sequence[str] = ("a",),
    attempts: Attempts | None = None,
) -> Network:
    made = Network(answers, brokers, attempts or PlainAttempts())
    for module in (waited_send, destinations):
        monkeypatch.setattr(module, "monotonic_ms", lambda: made.now_ms)
    return made


@pytest.mark.parametrize("kind", [PlainAttempts, QueueStreams])
def test_what_was_refused_goes_to_another_broker(monkeypatch: pytest.MonkeyPatch, kind: type[Attempts]) -> None:
    there = network(monkeypatch, BrokerBusy(1), STORED, brokers=("a", "b"), attempts=kind())
    _, queue, answer = there.send()
    assert answer == STORED
    assert sorted(there.asked) == ["a:1", "b:1"]
    assert there.asked[-1] == f"{queue.broker_name}:1"


@pytest.mark.parametrize(("kind", "other"), [(PlainAttempts, True), (QueueStreams, False)])
def test_what_may_be_stored_goes_to_another_broker_only_where_twice_is_allowed(
    monkeypatch: pytest.MonkeyPatch, kind: type[Attempts], other: bool
) -> None:
    there = network(monkeypatch, ConnectionLost("x"), STORED, brokers=("a", "b"), attempts=kind())
    there.send()
    assert (there.asked[0] != there.asked[1]) is other


@pytest.mark.parametrize(("kind", "raised"), [(PlainAttempts, ConnectionLost), (QueueStreams, OutcomeUnknown)])
def test_a_send_that_is_given_up_says_whether_it_may_be_stored(
    monkeypatch: pytest.MonkeyPatch, kind: type[Attempts], raised: type[ZenitError]
) -> None:
    there = network(monkeypatch, *[ConnectionLost("x")] * 100, attempts=kind())
    with pytest.raises(raised):
        there.send(1_000)


@pytest.mark.parametrize("kind", [PlainAttempts, QueueStreams])
def test_a_mistake_is_told_at_once(monkeypatch: pytest.MonkeyPatch, kind: type[Attempts]) -> None:
    there = network(monkeypatch, MessageIllegal("no"), attempts=kind())
    with pytest.raises(MessageIllegal) as told:
        there.send()
    assert told.value.__cause__ is None
    assert there.now_ms == 1_000


def test_a_new_route_makes_pauses_short_again_and_gives_no_further_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    there = network(monkeypatch, *[NotMaster("a", 1)] * 100)
    there.sends._retry = RetryPolicy(tries_max=12)
    route = there.routes.cached(TOPIC)
    there.routes.cached.side_effect = lambda _: replace(route)  # another one at each look
    with pytest.raises(NotMaster):
        there.send()
    assert len(there.asked) == 12
    assert there.now_ms == 1_000  # none of its pauses was waited out


def test_a_wait_for_a_queue_is_no_late_answer_of_its_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = QueueStreams()
    other = streams.begin(1, lambda: [1])
    assert other.enter(MessageQueue(TOPIC, "a", 0))
    there = network(monkeypatch, STORED, attempts=streams)
    there.on_wait = other.leave
    there.send()
    assert there.now_ms == 1_700
    assert there.fault.is_quiet


def test_plain_batches_never_wait_for_a_queue() -> None:
    plain = PlainAttempts()
    first, second, signal = plain.begin(1, lambda: [1]), plain.begin(1, lambda: [1]), Mock()
    queue = MessageQueue(TOPIC, "a", 0)
    assert first.enter(queue)
    assert second.enter(queue)
    assert not plain.is_taken(queue)
    assert plain.next_change(signal) is signal
    plain.forget(signal)
