"""Traces over a real broker: what producers and consumers tell, and the journey that is made of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from zenitmq import (
    FIRST,
    Admin,
    ConsumeResult,
    InvalidName,
    InvalidParameter,
    Message,
    MessageIllegal,
    MessageNotFound,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    SendFailed,
    StoredMessage,
)
from zenitmq.cli.main import application
from zenitmq.client.tracing.trace_backlog import TraceStatistics
from zenitmq.client.tracing.trace_format import Published, decode_trace
from zenitmq.model.names import TRACE_TOPIC
from zenitmq.remoting.commands import SendMessages

if TYPE_CHECKING:
    from integration.client.real_broker import RealBroker

TOPIC = "trades"
WAIT_S = 10


@pytest.fixture
def admin(namesrv: str, real_broker: RealBroker) -> Iterator[Admin]:
    with Admin(namesrv) as made:
        made.create_topic(TOPIC, queues=2)
        yield made


@pytest.fixture
def producer(namesrv: str, admin: Admin) -> Iterator[Producer]:
    with Producer("orders", namesrv=namesrv, trace=True) as made:
        yield made


def consume(namesrv: str, count: int, group: str = "billing", **settings: Any) -> list[str]:
    """Polls until so many came; their ids."""
    seen: list[str] = []
    with PullConsumer(group, namesrv=namesrv, start_from=FIRST, trace=True, **settings) as consumer:
        consumer.subscribe(TOPIC)
        while len(seen) < count:
            seen += [message.message_id for message in consumer.poll(timeout=WAIT_S)]
    return seen


def events(journey: dict[str, Any]) -> list[str]:
    return [event["event"] for event in journey["events"]]


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(WAIT_S * 50):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("not in time")


def close(producer: Producer, admin: Admin) -> None:
    """Closes it when its traces are stored and can be found: the first ones create their topic, of which the broker tells the
    name servers beside answering."""

    def is_told() -> bool:
        statistics = producer.trace_statistics()
        return statistics is not None and not statistics.waiting and TRACE_TOPIC in admin.topics()

    wait_for(is_told)
    producer.close()


def test_the_journey_of_a_message(namesrv: str, producer: Producer, admin: Admin) -> None:
    receipt = producer.send(Message(TOPIC, b"buy 5", tags="buy", keys=["o-17", "o-18"]))
    close(producer, admin)
    assert consume(namesrv, 1) == [receipt.message_id]
    journey = admin.trace(receipt.message_id)
    assert (journey["message_id"], journey["topic"]) == (receipt.message_id, TOPIC)
    assert events(journey) == ["produced", "stored", "delivered", "consumed"]
    produced, stored, delivered, consumed = journey["events"]
    assert (produced["group"], produced["client"], produced["ok"]) == ("orders", "127.0.0.1", True)
    assert (produced["tags"], produced["keys"], produced["body_bytes"]) == ("buy", ["o-17", "o-18"], 5)
    assert produced["offset_message_id"] == stored["offset_message_id"] == receipt.offset_message_id
    assert stored["queue_offset"] == receipt.queue_offset
    assert (delivered["group"], delivered["attempt"]) == ("billing", 0)
    assert (consumed["group"], consumed["result"], consumed["ok"]) == ("billing", "success", True)
    assert delivered["request_id"] == consumed["request_id"]
    assert produced["at_ms"] <= delivered["at_ms"] <= consumed["at_ms"]
    assert admin.trace(receipt.offset_message_id) == journey
    assert admin.trace(receipt.message_id, topic=TOPIC) == journey


def test_the_trace_topic_is_made_when_it_is_first_needed(producer: Producer, admin: Admin) -> None:
    assert TRACE_TOPIC not in admin.topics()
    producer.send(Message(TOPIC, b"x"))
    wait_for(lambda: TRACE_TOPIC in admin.topics())
    producer.send(Message(TOPIC, b"y"))
    wait_for(lambda: producer.trace_statistics() == TraceStatistics(waiting=0, stored=2, dropped=0))


def test_every_way_to_send_is_told(producer: Producer, admin: Admin) -> None:
    ids = [producer.send(Message(TOPIC, b"one")).message_id]
    ids += [receipt.message_id for receipt in producer.send_batch([Message(TOPIC, b"two"), Message(TOPIC, b"three")])]
    ids.append(producer.send_async(Message(TOPIC, b"four")).result(WAIT_S).message_id)
    batch = producer.send_bodies(TOPIC, [b"five", b"six"], tags="t", keys=["k5", "k6"])
    producer.post(TOPIC, b"seven", keys="k7")
    producer.flush()
    producer.send_oneway(Message(TOPIC, b"eight", keys=["k8"]))
    wait_for(lambda: admin.query_by_key(TOPIC, "k8"))
    for key in ("k5", "k6", "k7", "k8"):
        ids += [message.message_id for message in admin.query_by_key(TOPIC, key)]
    close(producer, admin)
    assert len(set(ids)) == 8
    assert batch.count == 2
    for message_id in ids:
        journey = admin.trace(message_id)
        assert events(journey) == ["produced", "stored"]
        told, stored = (event["offset_message_id"] for event in journey["events"])
        assert told in (stored, None)  # nobody answers a one-way send
        assert (told is None) == (message_id == ids[-1])


def test_a_send_that_failed_is_told_too(namesrv: str, new_broker: Callable[..., Any]) -> None:
    broker = new_broker("a", **{TOPIC: 1, TRACE_TOPIC: 1})
    broker.rule = lambda request: (
        MessageIllegal("no") if isinstance(request, SendMessages) and request.topic == TOPIC else None
    )
    with Producer("orders", namesrv=namesrv, trace=True, on_error=lambda _: None) as producer:
        with pytest.raises(MessageIllegal):
            producer.send(Message(TOPIC, b"waited for", keys=["a"]))
        with pytest.raises(MessageIllegal):
            producer.send_async(Message(TOPIC, b"with a future", keys=["b"])).result(WAIT_S)
        producer.post(TOPIC, b"posted", keys="c")
        with pytest.raises(SendFailed):
            producer.flush()
    told = [record for message in broker.messages(TRACE_TOPIC) for record in decode_trace(message.body)]
    assert {record.keys for record in told if isinstance(record, Published) and not record.is_ok} == {"a", "b", "c"}
    assert {record.offset_message_id for record in told if isinstance(record, Published)} == {""}


def test_every_message_of_large_batches_is_told_of(namesrv: str, producer: Producer, admin: Admin) -> None:
    """More than one trace message holds, and more than are made at a time."""
    bodies = [b"%d" % number for number in range(750)]
    producer.send_bodies(TOPIC, bodies)
    for body in bodies:
        producer.post(TOPIC, body)
    producer.flush()
    assert len(set(consume(namesrv, 1500))) == 1500
    wait_for(lambda: producer.trace_statistics() == TraceStatistics(waiting=0, stored=1500, dropped=0))
    told: dict[str, int] = {}
    for queue in admin.queues(TRACE_TOPIC):
        for message in read_queue(namesrv, queue):
            for record in decode_trace(message.body):
                told[record.message_id] = told.get(record.message_id, 0) + 1
    assert len(told) == 1500
    assert set(told.values()) == {3}  # published, delivered, consumed


def read_queue(namesrv: str, queue: MessageQueue) -> list[StoredMessage]:
    """All of a queue, read without a group."""
    with (
        PullConsumer("reader", namesrv=namesrv, start_from=FIRST, auto_commit=False) as reader,
        Admin(namesrv) as admin,
    ):
        reader.assign([queue])
        wanted, found = admin.max_offset(queue), []
        while len(found) < wanted:
            found += list(reader.poll(timeout=WAIT_S))
    return found


def test_an_iteration_tells_of_what_it_handed_on(namesrv: str, producer: Producer, admin: Admin) -> None:
    receipts = producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(3)])
    close(producer, admin)
    with PullConsumer("one-by-one", namesrv=namesrv, start_from=FIRST, trace=True) as consumer:
        consumer.subscribe(TOPIC)
        for message in consumer:
            if message.body == b"1":
                break
    assert events(admin.trace(receipts[1].message_id)) == ["produced", "stored", "delivered", "consumed"]
    assert events(admin.trace(receipts[2].message_id)) == ["produced", "stored", "delivered"]


def test_an_exception_in_a_consumer_is_told(namesrv: str, producer: Producer, admin: Admin) -> None:
    receipt = producer.send(Message(TOPIC, b"x"))
    close(producer, admin)

    def fail() -> None:
        with PullConsumer("g", namesrv=namesrv, start_from=FIRST, trace=True) as consumer:
            consumer.subscribe(TOPIC)
            assert len(consumer.poll(timeout=WAIT_S)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (consumed,) = [event for event in admin.trace(receipt.message_id)["events"] if event["event"] == "consumed"]
    assert (consumed["ok"], consumed["result"]) == (False, "exception")


def test_traces_may_go_to_a_topic_of_ones_own(namesrv: str, admin: Admin) -> None:
    admin.create_topic("my-traces", queues=2)
    with Producer("orders", namesrv=namesrv, trace="my-traces") as producer:
        receipt = producer.send(Message(TOPIC, b"x"))
    assert events(admin.trace(receipt.message_id, trace_topic="my-traces")) == ["produced", "stored"]
    assert events(admin.trace(receipt.message_id)) == ["stored"]


def test_traces_that_no_broker_takes_are_dropped_and_counted(namesrv: str, admin: Admin) -> None:
    """Nothing of it reaches the one who sends."""
    with Producer("orders", namesrv=namesrv, trace="no-such-topic") as producer:
        for _ in range(10):
            producer.send(Message(TOPIC, b"x"))
        assert producer.trace_statistics() == TraceStatistics(waiting=10, stored=0, dropped=0)


def test_who_does_not_trace_has_no_statistics(namesrv: str, admin: Admin) -> None:
    with Producer("p", namesrv=namesrv) as producer, PullConsumer("g", namesrv=namesrv) as consumer:
        assert producer.trace_statistics() is None
        assert consumer.trace_statistics() is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [("rmq_sys_wheel_timer", InvalidParameter), ("a b", InvalidName), (7, InvalidParameter), (None, InvalidParameter)],
)
def test_bad_arguments_are_refused(namesrv: str, wrong: Any, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        Producer(namesrv=namesrv, trace=wrong)
    with pytest.raises(problem):
        PullConsumer("g", namesrv=namesrv, trace=wrong)


def test_nothing_is_known_of_a_message_that_never_was(admin: Admin) -> None:
    with pytest.raises(MessageNotFound):
        admin.trace("0" * 32)


def test_the_command_prints_the_journey(namesrv: str, producer: Producer, admin: Admin) -> None:
    receipt = producer.send(Message(TOPIC, b"buy 5"))
    close(producer, admin)
    consume(namesrv, 1)
    run = CliRunner().invoke(application(), ["message", "trace", receipt.message_id, "--namesrv", namesrv])
    assert run.exit_code == 0, run.output
    for word in ("produced", "stored", "delivered", "consumed", "orders at 127.0.0.1", "success after", "attempt 1"):
        assert word in run.output
    run = CliRunner().invoke(
        application(), ["message", "trace", receipt.offset_message_id, "--json", "--namesrv", namesrv]
    )
    assert json.loads(run.output) == admin.trace(receipt.message_id)


SOON = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [50]}}'


def test_a_message_that_a_handler_fails_shows_its_retries_and_its_end(
    namesrv: str, producer: Producer, admin: Admin
) -> None:
    admin.create_group("billing", attributes={"groupRetryPolicy": SOON, "retryMaxTimes": "1"})
    given_up = threading.Event()

    def handle(messages: list[StoredMessage]) -> ConsumeResult | None:
        if messages[0].reconsume_times:
            given_up.set()
            return ConsumeResult.RETRY
        raise ValueError("a test")

    consumer = PushConsumer("billing", namesrv=namesrv, start_from=FIRST, trace=True)
    consumer.subscribe(TOPIC)
    consumer.on_message(handle)
    with consumer:
        receipt = producer.send(Message(TOPIC, b"x"))
        close(producer, admin)
        assert given_up.wait(WAIT_S)
        wait_for(lambda: "dead_lettered" in events(admin.trace(receipt.message_id)))
    assert consumer.trace_statistics() == TraceStatistics(waiting=0, stored=4, dropped=0)
    journey = admin.trace(receipt.message_id)
    (letter,) = admin.query_by_id("%DLQ%billing", receipt.message_id)
    assert admin.trace(letter.offset_message_id) == admin.trace(receipt.offset_message_id) == journey
    assert events(admin.trace(letter.offset_message_id, trace_topic="none")) == ["stored"]
    told = [(event["event"], event.get("attempt"), event.get("result")) for event in journey["events"]]
    assert told[:2] == [("produced", None, None), ("stored", 0, None)]
    assert sorted(told[2:], key=str) == sorted(
        [
            ("delivered", 0, None),
            ("consumed", 0, "exception"),
            ("retried", 1, None),
            ("delivered", 1, None),
            ("consumed", 1, "failed"),
            ("dead_lettered", 2, None),
        ],
        key=str,
    )


def test_a_message_that_was_sent_again_shows_each_time_it_was_stored(
    namesrv: str, producer: Producer, admin: Admin
) -> None:
    admin.create_group("billing", attributes={"retryMaxTimes": "0"})
    consumer = PushConsumer("billing", namesrv=namesrv, start_from=FIRST)
    consumer.subscribe(TOPIC)
    consumer.on_message(lambda _: ConsumeResult.DEAD_LETTER)
    with consumer:
        receipt = producer.send(Message(TOPIC, b"x"))
        wait_for(lambda: admin.dead_letters("billing"))
    assert admin.redrive_dead_letters("billing")["redriven"] == 1
    wait_for(lambda: len(admin.query_by_id(TOPIC, receipt.message_id)) == 2)
    (letter,) = admin.query_by_id("%DLQ%billing", receipt.message_id)
    close(producer, admin)
    journey = admin.trace(receipt.message_id)
    assert events(journey) == ["produced", "stored", "stored"]
    assert journey["events"][1]["offset_message_id"] == receipt.offset_message_id
    assert admin.trace(receipt.offset_message_id) == admin.trace(letter.offset_message_id) == journey


def test_a_request_may_be_answered_by_a_handler(namesrv: str, producer: Producer, admin: Admin) -> None:
    with Producer("prices", namesrv=namesrv) as replier:
        consumer = PushConsumer("prices", namesrv=namesrv, start_from=FIRST)
        consumer.subscribe(TOPIC)

        @consumer.on_message
        def handle(messages: list[StoredMessage]) -> None:
            for message in messages:
                if not message.reconsume_times and message.body == b"second":
                    raise ValueError("not yet")
                replier.reply(message, b"re: " + message.body)

        admin.create_group("prices", attributes={"groupRetryPolicy": SOON})
        with consumer:
            assert producer.request(Message(TOPIC, b"first"), timeout=WAIT_S).body == b"re: first"
            assert producer.request(Message(TOPIC, b"second"), timeout=WAIT_S).body == b"re: second"


def test_a_message_that_is_taken_back_is_told_of(producer: Producer, admin: Admin) -> None:
    receipt = producer.send(Message(TOPIC, b"later", delay=timedelta(hours=1)))
    producer.recall(receipt)
    with pytest.raises(MessageNotFound):
        producer.recall(receipt)
    close(producer, admin)
    journey = admin.trace(receipt.message_id)
    assert [event["ok"] for event in journey["events"] if event["event"] == "recalled"] == [True, False]
    (produced,) = [event for event in journey["events"] if event["event"] == "produced"]
    assert (produced["message_type"], produced["topic"]) == ("delay", TOPIC)
