"""Requests and replies over a real broker: who is answered, who is told that nobody waits, what happens when things break."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from zenitmq import (
    FIRST,
    Admin,
    ClientClosed,
    InvalidParameter,
    Message,
    MessageQueue,
    NotARequest,
    Producer,
    PullConsumer,
    RequesterGone,
    RequestTimeout,
    StoredMessage,
    TooManyRequests,
    TopicNotFound,
)
from zenitmq.client.sending import request_reply
from zenitmq.model.properties import CORRELATION_ID, MESSAGE_TYPE, REPLY_TO_CLIENT, TIME_TO_LIVE

if TYPE_CHECKING:
    from integration.client.real_broker import RealBroker

TOPIC = "questions"
REPLIES = "zenit_REPLY_TOPIC"
WAIT_S = 10

Answer = Callable[[Producer, StoredMessage], object]


@pytest.fixture(autouse=True)
def topic(namesrv: str, real_broker: RealBroker) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic(TOPIC, queues=2)


@pytest.fixture
def producer(namesrv: str) -> Iterator[Producer]:
    with Producer("asking", namesrv=namesrv, timeout=WAIT_S) as made:
        yield made


def echo(replier: Producer, request: StoredMessage) -> None:
    replier.reply(request, b"re: " + request.body, tags="answer", properties={"by": "echo"})


@contextmanager
def responder(namesrv: str, answer: Answer = echo) -> Iterator[list[StoredMessage]]:
    """Within, a consumer hands each request to `answer`; yields the requests it saw."""
    seen: list[StoredMessage] = []
    with (
        Producer("answering", namesrv=namesrv) as replier,
        PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer,
    ):
        consumer.subscribe(TOPIC)
        consumer.poll(timeout=0)  # the group's queues are known

        def run() -> None:
            try:
                for message in consumer:
                    seen.append(message)
                    answer(replier, message)
            except ClientClosed:
                return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield seen
        finally:
            consumer.close()
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_a_request_is_answered(namesrv: str, producer: Producer) -> None:
    with responder(namesrv) as seen:
        reply = producer.request(Message(TOPIC, b"what time is it", properties={"zone": "utc"}), timeout=WAIT_S)
    assert (reply.body, reply.tags, reply.properties["by"]) == (b"re: what time is it", "answer", "echo")
    (asked,) = seen
    assert asked.properties["zone"] == "utc"
    assert asked.properties[TIME_TO_LIVE] == str(WAIT_S * 1000)
    assert reply.properties[CORRELATION_ID] == asked.properties[CORRELATION_ID]
    assert reply.properties[MESSAGE_TYPE] == "reply"
    assert producer.request_statistics() == request_reply.RequestStatistics(pending=0, answered=1, unanswered=0, late=0)


def test_replies_are_kept_in_the_log(namesrv: str, producer: Producer) -> None:
    receipts = []
    with responder(namesrv, lambda replier, request: receipts.append(replier.reply(request, b"yes"))):
        reply = producer.request(Message(TOPIC, b"q"), timeout=WAIT_S)
    (receipt,) = receipts
    assert (reply.message_id, reply.offset_message_id) == (receipt.message_id, receipt.offset_message_id)
    assert receipt.queue == MessageQueue(REPLIES, "broker-a", 0)
    with PullConsumer("audit", namesrv=namesrv, start_from=FIRST) as audit, Admin(namesrv) as admin:
        wait_for(lambda: REPLIES in admin.topics())
        audit.assign([receipt.queue])
        assert [message.body for message in audit.poll(timeout=WAIT_S)] == [b"yes"]


def test_two_requesters_of_one_process_get_their_own_replies(namesrv: str, producer: Producer) -> None:
    with responder(namesrv), Producer("asking", namesrv=namesrv, timeout=WAIT_S) as other:
        answers: dict[tuple[int, int], bytes] = {}

        def ask(who: int, asking: Producer) -> None:
            for number in range(20):
                answers[who, number] = asking.request(Message(TOPIC, b"%d-%d" % (who, number))).body

        threads = [threading.Thread(target=ask, args=each) for each in ((0, producer), (0 + 1, other), (2, other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert answers == {(who, number): b"re: %d-%d" % (who, number) for who in range(3) for number in range(20)}
    assert (producer.request_statistics().answered, other.request_statistics().answered) == (20, 40)


def test_requests_need_not_be_waited_for(namesrv: str, producer: Producer) -> None:
    told: list[bytes] = []
    with responder(namesrv):
        futures = [producer.request_async(Message(TOPIC, b"%d" % number)) for number in range(50)]
        futures[0].add_done_callback(lambda done: told.append(done.result().body))
        assert [future.result(WAIT_S).body for future in futures] == [b"re: %d" % number for number in range(50)]
    wait_for(lambda: told == [b"re: 0"])


def test_a_request_without_a_reply_ends_in_time(namesrv: str, producer: Producer) -> None:
    with pytest.raises(RequestTimeout) as ended:
        producer.request(Message(TOPIC, b"anybody"), timeout=0.3)
    assert ended.value.timeout_ms == 300
    future = producer.request_async(Message(TOPIC, b"anybody"), timeout=0.3)
    with pytest.raises(RequestTimeout):
        future.result(WAIT_S)
    statistics = producer.request_statistics()
    assert (statistics.pending, statistics.unanswered) == (0, 2)


def test_a_late_reply_and_a_second_one_are_dropped_and_counted(namesrv: str, producer: Producer) -> None:
    go = threading.Event()

    def answer(replier: Producer, request: StoredMessage) -> None:
        if request.body == b"late":
            assert go.wait(WAIT_S)
        replier.reply(request, b"first")
        replier.reply(request, b"second")

    with responder(namesrv, answer):
        with pytest.raises(RequestTimeout):
            producer.request(Message(TOPIC, b"late"), timeout=0.2)
        go.set()
        wait_for(lambda: producer.request_statistics().late == 2)
        assert producer.request(Message(TOPIC, b"now"), timeout=WAIT_S).body == b"first"
        wait_for(lambda: producer.request_statistics().late == 3)


def test_a_cancelled_request_gives_its_place_back(producer: Producer) -> None:
    future = producer.request_async(Message(TOPIC, b"never mind"), timeout=WAIT_S)
    assert producer.request_statistics().pending == 1
    assert future.cancel()
    assert producer.request_statistics().pending == 0


def test_the_responder_is_told_that_nobody_waits_any_more(namesrv: str, producer: Producer) -> None:
    asking = Producer("gone", namesrv=namesrv)
    waiting = asking.request_async(Message(TOPIC, b"q"), timeout=WAIT_S)
    wait_for(lambda: stored(namesrv))
    asking.close()
    with pytest.raises(ClientClosed):
        waiting.result(WAIT_S)
    (request,) = stored(namesrv)
    with pytest.raises(RequesterGone) as gone:
        producer.reply(request, b"too late", timeout=2.0)
    assert gone.value.client_id == request.properties[REPLY_TO_CLIENT]
    assert "kept in the log" in str(gone.value)


def test_a_requester_that_comes_back_in_time_is_answered(
    namesrv: str, producer: Producer, real_broker: RealBroker
) -> None:
    """A broker that was restarted knows nobody; the reply waits for the requester's next heartbeat."""
    future = producer.request_async(Message(TOPIC, b"q"), timeout=30)
    wait_for(lambda: stored(namesrv))
    (request,) = stored(namesrv)
    real_broker.stop()
    real_broker.start()
    with Producer("answering", namesrv=namesrv, timeout=WAIT_S) as replier:
        replier.reply(request, b"still here")
    assert future.result(WAIT_S).body == b"still here"


def test_a_broker_that_stops_leaves_a_time_out_and_no_hang(
    namesrv: str, producer: Producer, real_broker: RealBroker
) -> None:
    future = producer.request_async(Message(TOPIC, b"q"), timeout=1.0)
    wait_for(lambda: stored(namesrv))
    real_broker.stop()
    with pytest.raises(RequestTimeout):
        future.result(WAIT_S)
    real_broker.start()
    with responder(namesrv):
        assert producer.request(Message(TOPIC, b"again"), timeout=WAIT_S).body == b"re: again"


def test_what_was_no_request_cannot_be_replied_to(namesrv: str, producer: Producer) -> None:
    receipt = producer.send(Message(TOPIC, b"plain"))
    (message,) = stored(namesrv)
    with pytest.raises(NotARequest) as refused:
        producer.reply(message, b"?")
    assert (refused.value.message_id, refused.value.missing) == (receipt.message_id, CORRELATION_ID)


def test_so_many_requests_may_wait(producer: Producer, monkeypatch: pytest.MonkeyPatch, namesrv: str) -> None:
    monkeypatch.setattr(request_reply, "PENDING_MAX", 2)
    with Producer("small", namesrv=namesrv) as asking:
        futures: list[Future[StoredMessage]] = [asking.request_async(Message(TOPIC, b"q")) for _ in range(2)]
        with pytest.raises(TooManyRequests):
            asking.request(Message(TOPIC, b"q"))
        for future in futures:
            future.cancel()


def test_bad_requests_are_refused(producer: Producer) -> None:
    with pytest.raises(InvalidParameter):
        producer.request(Message("rmq_sys_wheel_timer", b""))
    with pytest.raises(TopicNotFound):
        producer.request(Message("nowhere", b""), timeout=2.0)
    with pytest.raises(InvalidParameter):
        producer.request(Message(TOPIC, b""), timeout=0)
    assert producer.request_statistics().pending == 0
    producer.close()
    with pytest.raises(ClientClosed):
        producer.request(Message(TOPIC, b""))


def stored(namesrv: str) -> list[StoredMessage]:
    """What lies in the topic now, read without a group."""
    with (
        PullConsumer("reader", namesrv=namesrv, start_from=FIRST, auto_commit=False) as reader,
        Admin(namesrv) as admin,
    ):
        queues = admin.queues(TOPIC)
        reader.assign(queues)
        wanted = sum(admin.max_offset(queue) for queue in queues)
        found: list[StoredMessage] = []
        while len(found) < wanted:
            found += list(reader.poll(timeout=WAIT_S))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(WAIT_S * 50):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("not in time")
