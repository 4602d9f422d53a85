"""The push consumer against a real broker: what is handled, sent back, committed; handlers that raise, block and die."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.client.consuming.push_kit import Seen, fill, lag, wait_until
from integration.client.real_broker import RealBroker

from zenitmq import (
    BROADCASTING,
    FIRST,
    LAST,
    Admin,
    ClientClosed,
    ConsumeResult,
    FlowLimits,
    InvalidParameter,
    Message,
    Producer,
    PushConsumer,
    StoredMessage,
    TopicNotFound,
)
from zenitmq.client.consuming.push.work import PULL_MESSAGES
from zenitmq.model.errors import LocalProtocolError, OffsetFileInUse

TOPIC = "trades"
LADDER = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100]}}'


@pytest.fixture
def admin(namesrv: str, real_broker: RealBroker) -> Iterator[Admin]:
    with Admin(namesrv) as made:
        made.create_topic(TOPIC, queues=4)
        made.create_group("g", attributes={"groupRetryPolicy": LADDER})
        yield made


@pytest.fixture
def producer(namesrv: str, admin: Admin) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


def consumer_of(namesrv: str, handler: object, **settings: object) -> PushConsumer:
    """A consumer of the topic from its first message on, not started yet."""
    consumer = PushConsumer("g", namesrv=namesrv, **{"start_from": FIRST, **settings})  # type: ignore[arg-type]
    consumer.subscribe(TOPIC)
    consumer.on_message(handler)  # type: ignore[arg-type]
    return consumer


def test_all_is_handled_once_and_committed_at_close(namesrv: str, admin: Admin, producer: Producer) -> None:
    sent = fill(producer, TOPIC, 500)
    seen = Seen()
    with consumer_of(namesrv, seen) as consumer:
        sent |= fill(producer, TOPIC, 500, begin=500)
        assert sorted(seen.wait(1000)) == sorted(sent)
        wait_until(lambda: sum(queue.topic == TOPIC for queue in consumer.assignment()) == 4)
        assert lag(admin, "g", TOPIC) > 0
    assert lag(admin, "g", TOPIC) == 0
    assert set(seen.calls) == {1}
    statistics = consumer.statistics()
    assert (statistics.handled, statistics.failed) == (1000, 0)
    with consumer_of(namesrv, seen):
        fill(producer, TOPIC, 1, begin=1000)
        assert len(seen.wait(1001)) == 1001


def test_offsets_are_committed_while_it_runs(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 50)
    seen = Seen()
    with consumer_of(namesrv, seen, commit_interval=0.05):
        seen.wait(50)
        wait_until(lambda: lag(admin, "g", TOPIC) == 0)


def test_batches_hold_messages_of_one_queue(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 200)
    queues: list[int] = []
    seen = Seen()

    def handler(messages: list[StoredMessage]) -> None:
        queues.append(len({message.queue for message in messages}))
        assert len(messages) <= 7
        seen(messages)

    with consumer_of(namesrv, handler, batch_size=7):
        assert len(seen.wait(200)) == 200
    assert set(queues) == {1}
    assert max(seen.calls) == 7


def test_what_fails_comes_back_under_its_own_topic(namesrv: str, admin: Admin, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"bad", tags="buy", keys=["k"]))
    producer.send(Message(TOPIC, b"good"))

    def then(message: StoredMessage) -> None:
        if message.body == b"bad" and message.reconsume_times < 2:
            raise ValueError("not yet")

    seen = Seen(then)
    with consumer_of(namesrv, seen):
        wait_until(lambda: seen.bodies.count(b"bad") == 3)
        again = [message for message in seen.messages if message.body == b"bad"]
        assert [message.reconsume_times for message in again] == [0, 1, 2]
        assert {(message.topic, message.tags, message.keys) for message in again} == {(TOPIC, "buy", ("k",))}
        assert again[1].queue.topic == "%RETRY%g"
        assert seen.bodies.count(b"good") == 1
    assert lag(admin, "g", TOPIC) == lag(admin, "g", "%RETRY%g") == 0


def test_the_last_try_ends_in_the_dead_letters(namesrv: str, admin: Admin, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"raises"))
    producer.send(Message(TOPIC, b"put aside"))
    producer.send(Message(TOPIC, b"later"))

    def then(message: StoredMessage) -> ConsumeResult | None:
        if message.body == b"raises":
            raise ValueError("never")
        return {b"put aside": ConsumeResult.DEAD_LETTER, b"later": ConsumeResult.RETRY}[message.body]

    seen = Seen(then)
    with consumer_of(namesrv, seen, max_attempts=2):
        wait_until(lambda: sum(row["letters"] for row in admin.dead_letter_groups("g")) == 3)
        letters = {letter.message.body: letter for letter in admin.dead_letters("g", 10)}
    assert letters[b"raises"].reason == "ValueError: never"
    assert {letter.origin_topic for letter in letters.values()} == {TOPIC}
    assert [seen.bodies.count(body) for body in (b"raises", b"put aside", b"later")] == [2, 1, 2]


def test_a_single_try_ends_in_the_dead_letters(namesrv: str, admin: Admin, producer: Producer) -> None:
    def then(message: StoredMessage) -> None:
        raise ValueError("never")

    producer.send(Message(TOPIC, b"once"))
    seen = Seen(then)
    with consumer_of(namesrv, seen, max_attempts=1):
        wait_until(lambda: admin.dead_letters("g"))
    assert (seen.bodies, admin.dead_letters("g")[0].attempts) == ([b"once"], 1)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_handler_that_returns_what_is_no_answer_pauses_its_consumer(
    namesrv: str, admin: Admin, producer: Producer, caplog: pytest.LogCaptureFixture, ordered: bool
) -> None:
    """It is told once, nothing goes to retry or is committed, and the mended program gets all of it."""
    sent = fill(producer, TOPIC, 50)
    calls = []

    def handle_wrongly(messages: list[StoredMessage]) -> bool:
        calls.append(messages[0].body)
        return True

    with consumer_of(namesrv, handle_wrongly, concurrency=1, ordered=ordered, commit_interval=0.05) as consumer:
        wait_until(lambda: consumer.mistake)
        threading.Event().wait(0.3)
        assert len(calls) == 1
        assert "handle_wrongly returned True" in str(consumer.mistake)
        assert consumer.statistics().sent_back == 0
    assert [record.levelname for record in caplog.records if "handle_wrongly" in record.getMessage()] == ["ERROR"]
    seen = Seen()
    with consumer_of(namesrv, seen, ordered=ordered):
        assert set(seen.wait(50)) == sent


def test_an_async_def_is_refused_by_the_consumer_with_threads(namesrv: str) -> None:
    async def handle(messages: list[StoredMessage]) -> None: ...

    consumer = PushConsumer("g", namesrv=namesrv)
    with pytest.raises(InvalidParameter, match=r"zenitmq\.aio\.PushConsumer"):
        consumer.on_message(handle)  # type: ignore[arg-type]


def test_a_handler_that_ends_its_thread_has_failed_and_the_pool_lives(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    sent = fill(producer, TOPIC, 20)

    def then(message: StoredMessage) -> None:
        if message.reconsume_times == 0:
            raise SystemExit(3)

    seen = Seen(then)
    with consumer_of(namesrv, seen, concurrency=2):
        wait_until(lambda: len(seen.bodies) == 40)
    assert sorted(seen.bodies) == sorted([*sent, *sent])


def test_a_handler_that_blocks_stops_neither_the_others_nor_close(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    release = threading.Event()
    producer.send(Message(TOPIC, b"blocks"))

    def then(message: StoredMessage) -> None:
        if message.body == b"blocks":
            release.wait(60)

    seen = Seen(then)
    consumer = consumer_of(namesrv, seen, concurrency=2)
    with consumer:
        seen.wait(1)
        fill(producer, TOPIC, 200)
        seen.wait(201)
        consumer.close(timeout=0.2)
    assert lag(admin, "g", TOPIC) > 0  # what blocked is not committed
    release.set()
    again = Seen()
    with consumer_of(namesrv, again):
        wait_until(lambda: b"blocks" in again.bodies)


def test_what_takes_too_long_is_sent_back_and_another_thread_takes_over(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    release = threading.Event()
    producer.send(Message(TOPIC, b"blocks"))

    def then(message: StoredMessage) -> None:
        if message.body == b"blocks" and not message.reconsume_times:
            release.wait(60)

    seen = Seen(then)
    with consumer_of(namesrv, seen, concurrency=1, consume_timeout=0.2) as consumer:
        seen.wait(1)
        fill(producer, TOPIC, 10)
        seen.wait(11)  # the only thread hangs: another was started
        wait_until(lambda: seen.bodies.count(b"blocks") == 2)
        assert consumer.statistics().late == 1
        release.set()
    assert lag(admin, "g", TOPIC) == 0


def test_a_queue_is_not_pulled_beyond_its_limits(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 2000)
    release = threading.Event()

    def then(message: StoredMessage) -> None:
        release.wait(60)

    seen = Seen(then)
    with consumer_of(namesrv, seen, concurrency=4, flow=FlowLimits(messages=10)):
        seen.wait(4)
        threading.Event().wait(0.3)
        pulled = admin.broker_statistics()["pulls"]["messages"]
        release.set()
        assert len(seen.wait(2000)) == 2000
    assert pulled <= 4 * PULL_MESSAGES


def test_members_share_the_queues_and_nothing_is_lost_when_one_leaves(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    seen = [Seen(), Seen()]
    first, second = consumer_of(namesrv, seen[0]), consumer_of(namesrv, seen[1])

    def own(consumer: PushConsumer) -> int:
        return sum(queue.topic == TOPIC for queue in consumer.assignment())

    with first:
        wait_until(lambda: own(first) == 4)
        with second:
            wait_until(lambda: own(first) == own(second) == 2)
            sent = {b"%04d" % index for index in range(400)}
            for body in sorted(sent):
                producer.send(Message(TOPIC, body))  # one by one: over all queues
            wait_until(lambda: len(seen[0].bodies) + len(seen[1].bodies) == 400)
            assert all(one.bodies for one in seen)
        wait_until(lambda: own(first) == 4)
        sent |= fill(producer, TOPIC, 400, begin=400)
        wait_until(lambda: len(seen[0].bodies) + len(seen[1].bodies) == 800)
    assert sorted(seen[0].bodies + seen[1].bodies) == sorted(sent)


def test_nothing_sent_after_the_start_is_skipped(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 10)
    seen = Seen()
    consumer = PushConsumer("g", namesrv=namesrv)
    consumer.on_message(seen)
    with consumer:
        consumer.subscribe(TOPIC)
        sent = fill(producer, TOPIC, 10, begin=10)
        assert set(seen.wait(10)) == sent


def test_topics_come_and_go(namesrv: str, admin: Admin, producer: Producer) -> None:
    admin.create_topic("more", queues=1)
    seen = Seen()
    with consumer_of(namesrv, seen) as consumer:
        consumer.subscribe("more", "buy")
        producer.send(Message("more", b"sell", tags="sell"))
        producer.send(Message("more", b"buy", tags="buy"))
        seen.wait(1)
        consumer.unsubscribe("more")
        wait_until(lambda: all(queue.topic != "more" for queue in consumer.assignment()))
    assert seen.bodies == [b"buy"]


def test_queues_that_a_topic_gets_later_are_consumed_from_their_first_message(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    seen = Seen()
    with consumer_of(namesrv, seen, start_from=LAST) as consumer:
        wait_until(lambda: sum(queue.topic == TOPIC for queue in consumer.assignment()) == 4)
        admin.create_topic(TOPIC, queues=6)
        sent = [b"%04d" % index for index in range(24)]
        for body in sent:
            producer.send(Message(TOPIC, body))
        assert sorted(seen.wait(24)) == sent
        wait_until(lambda: sum(queue.topic == TOPIC for queue in consumer.assignment()) == 6)


def test_an_operator_moves_the_group(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 20)
    seen = Seen()
    with consumer_of(namesrv, seen, commit_interval=0.1):
        seen.wait(20)
        admin.reset_offset("g", TOPIC, "earliest")
        wait_until(lambda: len(seen.bodies) == 40)
        wait_until(lambda: lag(admin, "g", TOPIC) == 0)


def test_each_member_of_a_broadcast_gets_everything_and_goes_on_where_it_stopped(
    namesrv: str, admin: Admin, producer: Producer, tmp_path: Path
) -> None:
    def member(seen: Seen, instance: str) -> PushConsumer:
        settings = {"model": BROADCASTING, "instance": instance, "offsets_dir": str(tmp_path / "offsets")}
        return consumer_of(namesrv, seen, start_from=FIRST, commit_interval=0.1, **settings)

    sent = fill(producer, TOPIC, 100)
    one, two = Seen(), Seen(lambda message: 1 / 0)  # type: ignore[arg-type,return-value]
    with member(one, "one"), member(two, "two"):
        assert sorted(one.wait(100)) == sorted(two.wait(100)) == sorted(sent)
        with pytest.raises(OffsetFileInUse):
            member(Seen(), "one").start()
    fill(producer, TOPIC, 10, begin=100)
    again = Seen()
    with member(again, "one"):
        again.wait(10)
    assert len(again.bodies) == 10
    assert len(two.bodies) == 100  # what failed is not tried again
    assert "%RETRY%g" not in admin.topics()


def test_what_is_wrong_is_told(namesrv: str, admin: Admin) -> None:
    for wrong in ({"concurrency": 0}, {"batch_size": 0}, {"consume_timeout": 0}, {"model": "BROADCASTING"}, {"flow": 7},
                  {"max_attempts": 0}, {"ordered": True, "model": BROADCASTING}, {"instance": "../x"}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            PushConsumer("g", namesrv=namesrv, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        FlowLimits(messages=0)
    consumer = PushConsumer("g", namesrv=namesrv)
    with pytest.raises(LocalProtocolError):
        consumer.start()
    with pytest.raises(InvalidParameter):
        consumer.on_message("no handler")  # type: ignore[arg-type]
    consumer.on_message(Seen())
    with pytest.raises(InvalidParameter):
        consumer.subscribe("%RETRY%g")
    consumer.subscribe("nope")
    with pytest.raises(TopicNotFound):
        consumer.start()
    consumer.unsubscribe("nope")
    with consumer:
        with pytest.raises(TopicNotFound):
            consumer.subscribe("nope")
        with pytest.raises(LocalProtocolError):
            consumer.on_message(Seen())
    consumer.close()
    for use in (consumer.start, lambda: consumer.subscribe(TOPIC)):
        with pytest.raises(ClientClosed):
            use()


def test_what_the_broker_holds_no_more_is_sent_back_whole(namesrv: str, new_broker: Callable) -> None:
    fake = new_broker("a", trades=1)
    with Producer("p", namesrv=namesrv) as producer:
        producer.send_bodies(TOPIC, [b"x"])
    consumer = consumer_of(namesrv, lambda messages: ConsumeResult.RETRY)
    with consumer:
        wait_until(lambda: consumer.statistics().sent_back == 1)
    assert fake.sent_back == [b"", fake.messages(TOPIC)[0].record]
    assert fake.committed["g", TOPIC, 0] == 1
