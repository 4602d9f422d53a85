"""Acknowledgements of popped messages: single, in batches, late, repeated, of other processes, and refused."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator

import pytest
from integration.client.consuming.push_kit import wait_until

from zenitmq import (
    Admin,
    HandleRefused,
    InvalidParameter,
    LeaseExpired,
    Message,
    NoRoute,
    Producer,
    PullConsumer,
    SimpleConsumer,
    StoredMessage,
    TopicNotFound,
    ZenitError,
)
from zenitmq.model.handles.receipt_handle import ReceiptHandle

TOPIC = "trades"


@pytest.fixture
def consumer(namesrv: str, admin: Admin) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("g", namesrv=namesrv) as made:
        made.subscribe(TOPIC)
        yield made


def received(consumer: SimpleConsumer, producer: Producer, count: int, invisible: float = 30.0) -> list[StoredMessage]:
    producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(count)])
    messages = consumer.receive(count, invisible=invisible)
    assert len(messages) == count
    return messages


def test_out_of_order_in_batches_and_once_more(consumer: SimpleConsumer, producer: Producer) -> None:
    messages = received(consumer, producer, 8, invisible=2)
    consumer.ack(messages[5], wait=True)
    consumer.ack(messages[1], wait=True)
    consumer.ack(messages[5], wait=True)
    consumer.ack_batch([messages[7], messages[0]], wait=True)
    consumer.ack_batch(messages[2:5])
    consumer.ack_batch([])
    consumer.ack_batch([], wait=True)
    (again,) = consumer.receive(wait=10)
    assert (again.body, again.reconsume_times) == (b"6", 1)
    consumer.ack(again, wait=True)
    assert consumer.receive(wait=0.5) == []


def test_what_is_not_acknowledged_comes_again_not_before_its_time(consumer: SimpleConsumer, producer: Producer) -> None:
    begin = time.monotonic()
    received(consumer, producer, 1, invisible=1.5)
    (again,) = consumer.receive(wait=10, invisible=1)
    assert 1.5 <= time.monotonic() - begin < 4
    assert again.reconsume_times == 1
    (again,) = consumer.receive(wait=10)
    assert again.reconsume_times == 2


def test_a_late_one_is_refused_and_does_not_count_for_the_next_lease(
    consumer: SimpleConsumer, producer: Producer
) -> None:
    (first,) = received(consumer, producer, 1, invisible=1)
    (second,) = consumer.receive(wait=10)
    with pytest.raises(LeaseExpired, match="auto_renew"):
        consumer.ack(first, wait=True)
    consumer.ack(second, wait=True)


def test_late_ones_in_the_background_are_told(namesrv: str, producer: Producer) -> None:
    refused: list[tuple[str, ZenitError]] = []
    with SimpleConsumer(
        "g", namesrv=namesrv, on_ack_error=lambda handle, why: refused.append((handle, why))
    ) as consumer:
        consumer.subscribe(TOPIC)
        messages = received(consumer, producer, 2, invisible=1)
        handles = [consumer.handle_of(message) for message in messages]
        consumer.ack(messages[0], wait=True)
        (again,) = consumer.receive(wait=10)
        consumer.ack_batch(messages)  # the first is acknowledged already: only the other one fails
        wait_until(lambda: len(refused) == 1)
        assert refused[0][0] == handles[1]
        assert isinstance(refused[0][1], LeaseExpired)
        consumer.ack(again, wait=True)
        assert consumer.statistics().refused == 1


def test_another_process_of_the_group_acknowledges_by_the_handle(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    first, second = received(consumer, producer, 2)
    process = multiprocessing.get_context("spawn").Process(target=_ack, args=(namesrv, consumer.handle_of(first)))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    consumer.ack(consumer.handle_of(second))
    wait_until(lambda: consumer.statistics().acknowledged == 1)


def _ack(namesrv: str, handle: str) -> None:
    with SimpleConsumer("g", namesrv=namesrv) as other:
        other.ack(handle, wait=True)


def test_a_handle_that_was_not_given_to_the_group_is_refused(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    (message,) = received(consumer, producer, 1)
    handle = consumer.handle_of(message)
    forged = ReceiptHandle("broker-a", "g", TOPIC, 0, 0, 1, 1, 30_000).sign(b"k" * 32) + ".0"
    for wrong, why in ((forged, "forged"), ("what is this", "malformed"), (handle[:-1] + "9", "malformed")):
        with pytest.raises(HandleRefused, match=why):
            consumer.ack(wrong, wait=True)
    with SimpleConsumer("h", namesrv=namesrv) as other, pytest.raises(HandleRefused, match="of another group"):
        other.ack(handle, wait=True)
    with SimpleConsumer("h", namesrv=namesrv) as other, pytest.raises(InvalidParameter, match="of h received"):
        other.ack(message)
    with PullConsumer("pulls", namesrv=namesrv) as pulling:
        pulling.assign([message.queue])
        pulling.seek(message.queue, 0)
        pulled = pulling.poll(timeout=5)[0]
    for call in (consumer.ack, consumer.handle_of, consumer.dead_letter, lambda m: consumer.change_invisible(m, 5)):
        with pytest.raises(InvalidParameter, match="or its handle"):
            call(pulled)
    consumer.ack(handle, wait=True)


def test_the_invisible_time_is_changed(consumer: SimpleConsumer, producer: Producer) -> None:
    held, given = received(consumer, producer, 2, invisible=1)
    before = consumer.handle_of(held)
    after = consumer.change_invisible(held, 20)
    assert after == consumer.handle_of(held) != before
    assert consumer.change_invisible(given, 0) == ""
    (again,) = consumer.receive(wait=5)
    assert (again.body, again.reconsume_times) == (given.body, 1)
    consumer.ack(again, wait=True)
    assert consumer.receive(wait=2) == []  # the other one's first time is over by now
    with pytest.raises(LeaseExpired):
        consumer.ack(before, wait=True)
    with pytest.raises(InvalidParameter, match=r"seconds.*0, or 1 to 43200"):
        consumer.change_invisible(held, 0.5)
    consumer.ack(held, wait=True)
    with pytest.raises(LeaseExpired, match="it was acknowledged"):
        consumer.change_invisible(held, 5)
    for one in (held, consumer.handle_of(held), 3):
        with pytest.raises(InvalidParameter, match="list"):
            consumer.ack_batch(one)


def test_a_message_is_put_aside(admin: Admin, consumer: SimpleConsumer, producer: Producer) -> None:
    message, other = received(consumer, producer, 2, invisible=1.5)
    consumer.dead_letter(message, reason="not a number")
    consumer.ack(other)
    with pytest.raises(InvalidParameter, match="1024"):
        consumer.dead_letter(message, reason="x" * 1025)
    with pytest.raises(InvalidParameter, match="UTF-8"):
        consumer.dead_letter(message, reason="\ud800")
    (letter,) = admin.dead_letters("g")
    assert (letter.message.body, letter.reason) == (message.body, "not a number")
    assert consumer.receive(wait=2.5) == []


def test_a_topic_that_is_deleted_is_told(namesrv: str, admin: Admin, producer: Producer) -> None:
    late: list[ZenitError] = []
    admin.create_topic("short", queues=1)
    with SimpleConsumer("g", namesrv=namesrv, on_ack_error=lambda _, error: late.append(error)) as consumer:
        consumer.subscribe("short")
        producer.send_batch([Message("short", b"%d" % number) for number in range(2)])
        held, other = consumer.receive(2, wait=10)
        admin.delete_topic("short")
        with pytest.raises((LeaseExpired, TopicNotFound)):  # as the client knows it, or not yet
            consumer.change_invisible(held, 5)
        consumer.ack(other)
    assert len(late) == 1
    assert isinstance(late[0], LeaseExpired | NoRoute | TopicNotFound)


def test_the_broker_renews_leases_as_long_as_their_owner_lives(namesrv: str, producer: Producer) -> None:
    renewing = SimpleConsumer("g", namesrv=namesrv, auto_renew=True, invisible=1)
    with renewing, SimpleConsumer("g", namesrv=namesrv) as other:
        renewing.subscribe(TOPIC)
        other.subscribe(TOPIC)
        (message,) = received(renewing, producer, 1, invisible=1)
        assert other.receive(wait=3) == []
        renewing.ack(message, wait=True)  # by the handle that it came with
        (held,) = received(renewing, producer, 1, invisible=1)
        renewing.close()
        (again,) = other.receive(wait=10)
        assert again.body == held.body
        other.ack(again, wait=True)
