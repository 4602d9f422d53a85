"""What a simple consumer tells of the messages that it pops, and the journey that is made of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from zenitmq import Admin, LeaseExpired, Message, Producer, SimpleConsumer, aio

TOPIC = "trades"


def told(admin: Admin, message_id: str) -> list[tuple[str, int | None, str | None]]:
    """(event, attempts before, result) of what consumers told, and dead letters."""
    return [
        (event["event"], event.get("attempt"), event.get("result"))
        for event in admin.trace(message_id)["events"]
        if event["event"] in ("delivered", "consumed", "dead_lettered")
    ]


def test_the_journey_of_a_popped_message(admin: Admin, producer: Producer, namesrv: str) -> None:
    ids = [producer.send(Message(TOPIC, body)).message_id for body in (b"good", b"again", b"bad", b"late")]
    good, again, bad, late = ids
    with SimpleConsumer("g", namesrv=namesrv, trace=True) as consumer:
        consumer.subscribe(TOPIC)
        found = {}
        while len(found) < len(ids):
            found |= {message.message_id: message for message in consumer.receive(wait=10)}
        consumer.ack(found[good])
        consumer.ack(found[good])  # once more tells nothing
        consumer.change_invisible(found[again], 30)
        consumer.change_invisible(found[again], 0)
        consumer.dead_letter(found[bad], reason="no number")
        consumer.change_invisible(found[late], 1)
        threading.Event().wait(1.2)
        with pytest.raises(LeaseExpired):
            consumer.ack(found[late], wait=True)
        retried = []
        while len(retried) < 2:
            retried += consumer.receive(wait=10)
        consumer.ack_batch(retried, wait=True)
    assert consumer.trace_statistics() is not None
    assert told(admin, good) == [("delivered", 0, None), ("consumed", 0, "success")]
    once_more = [("delivered", 1, None), ("consumed", 1, "success")]
    assert sorted(told(admin, again), key=str) == sorted(
        [("delivered", 0, None), ("consumed", 0, "failed"), *once_more], key=str
    )
    assert sorted(told(admin, late), key=str) == sorted(
        [("delivered", 0, None), ("consumed", 0, "time_out"), *once_more], key=str
    )
    assert {event for event, _, _ in told(admin, bad)} == {"delivered", "consumed", "dead_lettered"}
    assert ("consumed", 0, "failed") in told(admin, bad)


def test_its_asyncio_twin_tells_the_same(admin: Admin, producer: Producer, namesrv: str) -> None:
    sent = producer.send(Message(TOPIC, b"good")).message_id

    async def consume() -> None:
        async with aio.SimpleConsumer("g", namesrv=namesrv, trace=True) as consumer:
            consumer.subscribe(TOPIC)
            (message,) = await consumer.receive(1, wait=10)
            await consumer.ack(message)

    asyncio.run(consume())
    assert told(admin, sent) == [("delivered", 0, None), ("consumed", 0, "success")]
