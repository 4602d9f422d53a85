"""Changes of a lease that are asked again: what a lost answer leaves unknown is said so."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq import SimpleConsumer
from zenitmq.client.consuming.simple.lease import Lease, LeasedPart
from zenitmq.model.errors import ConnectionLost, LeaseExpired, NotMaster, RequestTimeout, TopicNotFound, ZenitError
from zenitmq.record.kernel import StoredMessage, decode_batch, encode_record
from zenitmq.remoting.commands import ChangedReply, Done

NOBODY = "127.0.0.1:9"
LATE = LeaseExpired("trades", 0, 0)


def popped() -> StoredMessage:
    record = encode_record(topic=b"trades", body=b"x")
    return decode_batch(bytes(record), "broker-a")[0].leased(
        0, Lease(LeasedPart("g", "broker-a", "trades", "h.s", 0), 3)
    )


def answering(consumer: SimpleConsumer, *answers: ZenitError | Any) -> list[Any]:
    """The broker's answers, one after the other. Returns what was asked."""
    asked: list[Any] = []
    left = iter(answers)

    async def call(_: str, request: Any, *, timeout_ms: int) -> tuple[Any, bytes]:
        asked.append(request)
        answer = next(left)
        if isinstance(answer, ZenitError):
            raise answer
        return answer, b""

    async def route(topic: str, _waits: Any, *, timeout_ms: int) -> None:
        """It is known."""

    consumer._waits.call = call
    consumer._connection.routes.route = route
    consumer._connection.routes.address_of = lambda *_: NOBODY
    consumer._connection.routes.refresh_soon = lambda _: None
    return asked


def test_the_next_master_is_asked_and_the_handle_is_the_new_one() -> None:
    with SimpleConsumer("g", namesrv=NOBODY) as consumer:
        message = popped()
        asked = answering(consumer, NotMaster("broker-a", 2), ConnectionLost(NOBODY), ChangedReply("new.s", 5))
        assert consumer.change_invisible(message, 5) == "new.s.0"
        assert [(request.handle, request.index) for request in asked] == [("h.s", 3)] * 3
        assert consumer.handle_of(message) == "new.s.0"


@pytest.mark.parametrize("lost", [RequestTimeout("it", 5), ConnectionLost(NOBODY)], ids=["late", "gone"])
def test_a_lease_that_is_over_after_a_lost_answer_is_no_verdict(lost: ZenitError) -> None:
    with SimpleConsumer("g", namesrv=NOBODY) as consumer:
        message = popped()
        answering(consumer, lost, LATE)
        with pytest.raises(type(lost)):
            consumer.dead_letter(message)
        answering(consumer, NotMaster("broker-a", 2), LATE)
        with pytest.raises(LeaseExpired):
            consumer.change_invisible(message, 0)
        asked = answering(consumer, lost, Done())
        consumer.dead_letter(message, reason="late")
        assert [request.reason for request in asked] == ["late", "late"]


def test_a_name_server_that_does_not_answer_leaves_nothing_in_doubt() -> None:
    with SimpleConsumer("g", namesrv=NOBODY) as consumer:
        answering(consumer, LATE)
        lost: list[ZenitError] = [RequestTimeout("a route", 5), ConnectionLost(NOBODY)]

        async def route(topic: str, _waits: Any, *, timeout_ms: int) -> None:
            if lost:
                raise lost.pop()

        consumer._connection.routes.route = route
        with pytest.raises(LeaseExpired):
            consumer.change_invisible(popped(), 5)


def test_a_topic_that_is_gone_is_told_at_once() -> None:
    with SimpleConsumer("g", namesrv=NOBODY) as consumer:
        asked = answering(consumer)

        async def route(topic: str, _waits: Any, *, timeout_ms: int) -> None:
            asked.append(topic)
            raise TopicNotFound(topic)

        consumer._connection.routes.route = route
        with pytest.raises(TopicNotFound):
            consumer.change_invisible(popped(), 5)
        assert asked == ["trades"] * 2


def test_what_cannot_pass_is_raised_and_what_does_not_pass_in_time() -> None:
    with SimpleConsumer("g", namesrv=NOBODY) as consumer:
        answering(consumer, *[NotMaster("broker-a", 2)] * 100)
        with pytest.raises(NotMaster):
            consumer.change_invisible(popped(), 5, timeout=0.1)
