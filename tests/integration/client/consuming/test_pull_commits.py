"""What a pull consumer commits, and when: nothing that is still at hand, and never back behind what it was told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice

import pytest
from integration.client.fake_broker import FakeBroker

from zenitmq import FIRST, InvalidParameter, MessageQueue, Producer, PullConsumer, aio

TOPIC = "trades"
QUEUE = MessageQueue(TOPIC, "a", 0)


@pytest.fixture
def broker(new_broker: Callable, namesrv: str) -> FakeBroker:
    broker = new_broker("a", trades=1)
    with Producer("p", namesrv=namesrv) as producer:
        producer.send_bodies(TOPIC, [b"%d" % index for index in range(10)])
    return broker


@pytest.fixture
def consumer(namesrv: str, broker) -> Iterator[PullConsumer]:
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as made:
        made.subscribe(TOPIC)
        yield made


def take(consumer: PullConsumer, count: int) -> None:
    for _ in range(100):
        if len(batch := consumer.poll(count, timeout=0.1)):
            assert len(batch) == count
            return
    raise AssertionError("nothing came")


def timer_fires(consumer: PullConsumer) -> int | None:
    """What the group has committed once the auto-commit timer has run."""
    consumer._commits.send_settled()
    return consumer.committed(QUEUE)  # behind it, at the same broker


ASKS: dict[str, Callable[[PullConsumer], object]] = {
    "assignment": lambda consumer: consumer.assignment(),
    "position": lambda consumer: consumer.position(QUEUE),
    "seek": lambda consumer: consumer.seek(QUEUE, 3),
}


@pytest.mark.parametrize("asked", ASKS)
def test_asking_for_queues_while_messages_are_at_hand_commits_none_of_them(
    consumer: PullConsumer, broker, asked: str
) -> None:
    take(consumer, 4)
    take(consumer, 3)  # so the four are dealt with
    consumer.unsubscribe(TOPIC)  # its queues go at the next look
    with (
        nullcontext() if asked == "assignment" else pytest.raises(InvalidParameter)
    ):  # it is not this consumer's any more
        ASKS[asked](consumer)
    assert broker.committed["g", TOPIC, 0] == 4


def test_the_same_of_messages_that_are_handed_on_one_by_one(consumer: PullConsumer, broker) -> None:
    handed = iter(consumer)
    assert [message.body for message in islice(handed, 3)] == [b"0", b"1", b"2"]
    consumer.unsubscribe(TOPIC)
    assert consumer.assignment() == []
    assert broker.committed["g", TOPIC, 0] == 2  # the third is at hand


def test_the_same_on_an_event_loop(namesrv: str, broker) -> None:
    async def story() -> None:
        async with aio.PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(TOPIC)
            while not len(await consumer.poll(4, timeout=0.1)):
                pass
            consumer.unsubscribe(TOPIC)
            assert await consumer.assignment() == []
            assert broker.committed["g", TOPIC, 0] == 0

    asyncio.run(story())


def test_a_commit_is_not_undone_by_the_timer(consumer: PullConsumer) -> None:
    take(consumer, 4)
    consumer.commit()
    assert timer_fires(consumer) == 4
    handed = iter(consumer)
    assert [message.body for message in islice(handed, 3)] == [b"4", b"5", b"6"]
    consumer.commit()
    assert timer_fires(consumer) == 7  # the message at hand included
    next(handed)
    assert timer_fires(consumer) == 7


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_commit_is_not_undone_by_an_exception(namesrv: str, broker, one_by_one: bool) -> None:
    def work() -> None:
        with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(TOPIC)
            read(consumer)

    def read(consumer: PullConsumer) -> None:
        if one_by_one:
            for message in consumer:
                if message.body == b"3":
                    consumer.commit()
                    raise ZeroDivisionError
        take(consumer, 4)
        consumer.commit()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert broker.committed["g", TOPIC, 0] == 4


def test_a_commit_while_others_are_handed_out_covers_what_was_handed_out_before_it(consumer: PullConsumer) -> None:
    take(consumer, 4)
    consumer.commit()
    take(consumer, 3)
    assert timer_fires(consumer) == 4
    consumer.seek(QUEUE, 1)
    consumer.commit()
    assert timer_fires(consumer) == 1  # who seeks back is done with nothing behind it
