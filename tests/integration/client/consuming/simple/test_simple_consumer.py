"""The simple consumer at a real broker: what it receives, and what becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from integration.client.consuming.push_kit import wait_until

from zenitmq import (
    LAST,
    Admin,
    ClientClosed,
    GroupConsumedOtherwise,
    InvalidParameter,
    Message,
    Producer,
    PullConsumer,
    SimpleConsumer,
    Sql,
    StoredMessage,
    TopicNotFound,
)
from zenitmq.model.errors import LocalProtocolError
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.kernel import encode_record
from zenitmq.record.sys_flag import COMPRESSED, COMPRESSION_ZSTD
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import SendMessages

if TYPE_CHECKING:
    from zenitmq.broker.service import Broker

TOPIC = "trades"


@pytest.fixture
def consumer(namesrv: str, admin: Admin) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("g", namesrv=namesrv) as made:
        made.subscribe(TOPIC)
        yield made


def fill(producer: Producer, count: int, tags: str | None = None) -> list[bytes]:
    bodies = [b"%05d" % number for number in range(count)]
    for body in bodies:
        producer.send(Message(TOPIC, body, tags=tags))
    return bodies


def bodies_of(messages: list[StoredMessage]) -> list[bytes]:
    return sorted(message.body for message in messages)


def seconds(begin: float) -> float:
    return time.monotonic() - begin


def test_an_empty_receive_waits_as_long_as_it_was_told(consumer: SimpleConsumer) -> None:
    begin = time.monotonic()
    assert consumer.receive(wait=0) == []
    assert seconds(begin) < 1
    assert consumer.receive(wait=0.5) == []
    assert 0.5 <= seconds(begin) < 3


def test_a_waiting_receive_gets_a_message_when_it_comes(consumer: SimpleConsumer, producer: Producer) -> None:
    threading.Timer(0.3, fill, (producer, 1)).start()
    begin = time.monotonic()
    assert bodies_of(consumer.receive(wait=20)) == [b"00000"]
    assert seconds(begin) < 5


def test_each_message_goes_to_one_consumer_though_there_are_more_of_them_than_queues(
    namesrv: str, producer: Producer
) -> None:
    expected = fill(producer, 300)
    seen: list[bytes] = []
    lock = threading.Lock()

    def work() -> None:
        with SimpleConsumer("g", namesrv=namesrv) as mine:
            mine.subscribe(TOPIC)
            while messages := mine.receive(7, wait=1):
                mine.ack_batch(messages)
                with lock:
                    seen.extend(message.body for message in messages)

    workers = [threading.Thread(target=work) for _ in range(9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(seen) == expected


def test_threads_share_a_consumer(consumer: SimpleConsumer, producer: Producer) -> None:
    expected = fill(producer, 200)
    seen: list[bytes] = []

    def work() -> None:
        while messages := consumer.receive(5, wait=1):
            for message in messages:
                seen.append(message.body)
                consumer.ack(message)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(seen) == expected
    wait_until(lambda: consumer.statistics().acknowledged == 200)
    assert consumer.statistics().received == 200


def test_a_slow_consumer_blocks_nobody(namesrv: str, consumer: SimpleConsumer, producer: Producer) -> None:
    expected = fill(producer, 64)
    held = consumer.receive(8)
    with SimpleConsumer("g", namesrv=namesrv) as other:
        other.subscribe(TOPIC)
        got: list[StoredMessage] = []
        while messages := other.receive(wait=0.5):
            got += messages
            other.ack_batch(messages)
    assert sorted(bodies_of(held) + bodies_of(got)) == expected


def test_many_messages_come_by_several_requests(consumer: SimpleConsumer, producer: Producer) -> None:
    expected = fill(producer, 500)
    first = consumer.receive(300)
    assert len(first) == 300
    rest = consumer.receive(1024)
    assert len(rest) == 200
    assert bodies_of(first + rest) == expected
    consumer.ack_batch(first + rest, wait=True)
    assert consumer.statistics().acknowledged == 500


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
def test_bodies_are_plain_whatever_they_were_sent_as(
    namesrv: str, broker: Broker, consumer: SimpleConsumer, producer: Producer, kind: str
) -> None:
    body = b"much the same " * 4000
    if kind == "lz4":
        producer.send(Message(TOPIC, body, tags="buy"))
    else:  # as a producer of RocketMQ's may send it
        packed = zstandard.ZstdCompressor().compress(body)
        flags = COMPRESSED | COMPRESSION_ZSTD
        record = encode_record(topic=TOPIC.encode(), body=packed, properties=b"TAGS\x01buy\x02", sys_flag=flags)
        with RemotingClient() as client:
            client.call(broker.address, SendMessages(TOPIC, 0, 1), bytes(record), timeout_ms=3000)
    (message,) = consumer.receive()
    assert (message.body, message.tags) == (body, "buy")
    assert (message.topic, message.queue.broker_name, message.reconsume_times) == (TOPIC, "broker-a", 0)


def test_tags_are_compared_though_their_hashes_are_the_same(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    assert java_hash("Aa") == java_hash("BB")
    consumer.subscribe(TOPIC, "Aa || sell")
    for tags in ("Aa", "BB", "sell", None):
        producer.send(Message(TOPIC, b"x", tags=tags))
    got: list[StoredMessage] = []
    while messages := consumer.receive(wait=0.5):
        got += messages
    assert sorted(str(message.tags) for message in got) == ["Aa", "sell"]
    wait_until(lambda: consumer.statistics().acknowledged == 1)  # the one that only has the hash


def test_a_condition_is_asked_at_the_broker(consumer: SimpleConsumer, producer: Producer) -> None:
    consumer.subscribe(TOPIC, Sql("amount > 10"))
    for amount in (5, 15, 25):
        producer.send(Message(TOPIC, b"%d" % amount, properties={"amount": str(amount)}))
    got: list[StoredMessage] = []
    while messages := consumer.receive(wait=0.5):
        got += messages
    assert bodies_of(got) == [b"15", b"25"]


def test_several_topics_at_once(namesrv: str, admin: Admin, producer: Producer) -> None:
    admin.create_topic("orders", queues=2)
    with SimpleConsumer("g2", namesrv=namesrv) as consumer:
        consumer.subscribe([TOPIC, "orders"])
        assert consumer.receive(wait=0.2) == []
        producer.send(Message("orders", b"o"))
        (message,) = consumer.receive(wait=10)
        assert message.topic == "orders"
        consumer.unsubscribe("orders")
        producer.send(Message("orders", b"o"))
        assert consumer.receive(wait=0.5) == []


def test_a_group_begins_where_it_is_told(namesrv: str, producer: Producer) -> None:
    fill(producer, 10)
    with SimpleConsumer("late", namesrv=namesrv, start_from=LAST) as consumer:
        consumer.subscribe(TOPIC)  # recorded now
        producer.send(Message(TOPIC, b"new"))
        assert bodies_of(consumer.receive(wait=5)) == [b"new"]


def test_a_group_has_members_of_one_kind(namesrv: str, consumer: SimpleConsumer, producer: Producer) -> None:
    fill(producer, 1)
    (message,) = consumer.receive()
    with PullConsumer("g", namesrv=namesrv) as other:
        other.subscribe(TOPIC)
        with pytest.raises(GroupConsumedOtherwise, match="SimpleConsumer"):
            other.poll(timeout=2)
    consumer.ack(message, wait=True)
    with PullConsumer("pulled", namesrv=namesrv) as other, SimpleConsumer("pulled", namesrv=namesrv) as mine:
        other.subscribe(TOPIC)
        assert other.assignment()
        mine.subscribe(TOPIC)
        with pytest.raises(GroupConsumedOtherwise, match="PullConsumer or PushConsumer"):
            mine.receive(wait=2)
        other.close()
        producer.send(Message(TOPIC, b"x"))
        assert mine.receive(wait=10)


def test_what_cannot_be_is_refused(namesrv: str, consumer: SimpleConsumer) -> None:
    for arguments in (
        {"max_messages": 0},
        {"max_messages": 1025},
        {"invisible": 0.5},
        {"invisible": 43_201},
        {"wait": 31},
    ):
        with pytest.raises(InvalidParameter):
            consumer.receive(**arguments)
    for many in (8 * 24 * 3600, float("inf")):
        with pytest.raises(InvalidParameter, match="at most 30"):
            consumer.receive(wait=many)
    with pytest.raises(InvalidParameter, match="on_ack_error"):
        SimpleConsumer("g", namesrv=namesrv, on_ack_error=3)
    with pytest.raises(InvalidParameter):
        SimpleConsumer("g", namesrv=namesrv, invisible=0)
    with pytest.raises(InvalidParameter):
        SimpleConsumer("g", namesrv=namesrv, start_from="first")
    with SimpleConsumer("other", namesrv=namesrv) as empty:
        with pytest.raises(LocalProtocolError, match="subscribe"):
            empty.receive(wait=0)
        empty.subscribe("nowhere")
        with pytest.raises(TopicNotFound):
            empty.receive(wait=1)


# ---- the end


def test_a_close_sends_what_was_acknowledged_and_leaves_the_rest_leased(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    fill(producer, 4)
    got = consumer.receive(4, invisible=2)
    got += consumer.receive(4 - len(got), invisible=2) if len(got) < 4 else []
    for message in got[:3]:
        consumer.ack(message)
    consumer.close()
    assert consumer.statistics().acknowledged == 3
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.receive(wait=0)
    with pytest.raises(ClientClosed):
        consumer.ack(got[3])
    with SimpleConsumer("g", namesrv=namesrv) as next_one:
        next_one.subscribe(TOPIC)
        assert next_one.receive(wait=0.2) == []
        (again,) = next_one.receive(wait=10)
    assert (again.body, again.reconsume_times) == (got[3].body, 1)


def test_a_close_ends_a_receive_that_waits(consumer: SimpleConsumer) -> None:
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(consumer.receive(wait=30))
        except ClientClosed as error:
            outcome.append(error)

    waiting = threading.Thread(target=work)
    waiting.start()
    threading.Event().wait(0.3)
    begin = time.monotonic()
    consumer.close()
    waiting.join(5)
    assert seconds(begin) < 2
    assert isinstance(outcome[0], ClientClosed)


def test_a_signal_in_a_receive_loses_nothing(namesrv: str, consumer: SimpleConsumer, producer: Producer) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.receive(wait=20)
    finally:
        signal.signal(signal.SIGUSR1, before)
    fill(producer, 1)
    (message,) = consumer.receive(wait=5)  # nobody waits at the broker any more, so it is not given to the one before
    assert message.reconsume_times == 0


def test_what_comes_for_a_receive_that_is_over_is_given_back(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    """The cancelling of a pop is lost: its messages come for nobody."""
    remoting = consumer._connection.remoting
    remoting_oneway, remoting.oneway = remoting.oneway, lambda *_: True

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.receive(wait=20)
    finally:
        signal.signal(signal.SIGUSR1, before)
        remoting.oneway = remoting_oneway
    fill(producer, 1)
    (message,) = consumer.receive(wait=10)
    assert message.reconsume_times == 0
    assert consumer.statistics().received == 1


def test_a_forked_child_has_none_of_it(consumer: SimpleConsumer, producer: Producer) -> None:
    fill(producer, 1)
    (message,) = consumer.receive()
    child = os.fork()
    if not child:
        code = 1
        try:
            consumer.ack(message)
        except ClientClosed:
            consumer.close()
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    consumer.ack(message, wait=True)


PROGRAM = """
import sys
from zenitmq import SimpleConsumer

consumer = SimpleConsumer("g", namesrv=sys.argv[1], invisible=1)
consumer.subscribe("trades")
for message in consumer.receive(wait=10):
    consumer.ack(message)
"""


def test_a_program_that_ends_sends_what_was_acknowledged(
    namesrv: str, consumer: SimpleConsumer, producer: Producer
) -> None:
    producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(5)])
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, namesrv], check=True, timeout=30)
    assert consumer.receive(wait=2.5) == []


def test_one_that_is_dropped_sends_what_was_acknowledged(namesrv: str, producer: Producer) -> None:
    fill(producer, 2)
    consumer = SimpleConsumer("g", namesrv=namesrv)
    consumer.subscribe(TOPIC)
    statistics = consumer.statistics
    work = consumer._work
    for message in consumer.receive():
        consumer.ack(message)
    del consumer, statistics
    wait_until(lambda: work.is_closed and work.acks.acknowledged >= 1)
