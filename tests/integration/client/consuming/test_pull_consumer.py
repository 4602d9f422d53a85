"""The pull consumer over real sockets: balance, positions, commits, filters, moved offsets."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

import pytest
from integration.client.consuming.push_kit import wait_until

from zenitmq import (
    FIRST,
    LAST,
    BrokerBusy,
    ClientClosed,
    DuplicateClient,
    InvalidParameter,
    MessageQueue,
    NoPermission,
    Producer,
    PullConsumer,
    TopicNotFound,
    ZenitError,
)
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import LocalProtocolError
from zenitmq.remoting.commands import Heartbeat, PullMessages, Request

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=4)


@pytest.fixture
def producer(namesrv: str, broker) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


def queue(index: int) -> MessageQueue:
    return MessageQueue(TOPIC, "a", index)


def fill(broker, producer: Producer, count: int, tags: str | None = None) -> None:
    """Puts `count` messages b"0", b"1" ... into queue 0, by sending until each lies there."""
    producer.send_bodies(TOPIC, [b"%d" % index for index in range(count)], tags)
    (key,) = [key for key, held in broker.queues.items() if held.records]
    broker.queues = {(TOPIC, 0): broker.queues[key]}
    fixed = [bytearray(record) for record in broker.queues[TOPIC, 0].records]
    for record in fixed:
        record[12:16] = bytes(4)  # the queue id
    broker.queues[TOPIC, 0].records[:] = map(bytes, fixed)


def read(consumer: PullConsumer, count: int, seconds: float = 5.0) -> list[bytes]:
    bodies: list[bytes] = []
    for _ in range(int(seconds / 0.1)):
        bodies += [message.body for message in consumer.poll(1000, timeout=0.1)]
        if len(bodies) >= count:
            break
    return bodies


def test_everything_is_read_once_in_order(namesrv: str, broker, producer: Producer) -> None:
    for index in range(5000):
        producer.post(TOPIC, b"%05d" % index)
    producer.flush(5)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        seen: dict[MessageQueue, list[int]] = {}
        count = 0
        while count < 5000:
            batch = consumer.poll(700, timeout=5)
            assert 0 < len(batch) <= 700
            assert len({message.queue for message in batch}) == 1
            seen.setdefault(batch[0].queue, []).extend(message.queue_offset for message in batch)
            count += len(batch)
        assert not consumer.poll(timeout=0.1)
    for offsets in seen.values():
        assert offsets == list(range(len(offsets)))
    assert sum(broker.committed.values()) == 5000  # committed at close
    assert broker.consumers["g"] == {}


def test_iteration_commits_what_was_handed_on(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 100)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue(0)])
        first = [message.body for message in islice(consumer, 10)]
        assert first == [b"%d" % index for index in range(10)]
        assert consumer.position(queue(0)) == 10
        for message in consumer:
            if message.body == b"19":
                consumer.commit()
                assert broker.committed["g", TOPIC, 0] == 20
                break
        assert [message.body for message in consumer.poll(3)] == [b"20", b"21", b"22"]
        assert [message.body for message in islice(consumer, 2)] == [b"23", b"24"]
    assert broker.committed["g", TOPIC, 0] == 25


def test_exception_leaves_the_message_at_hand_uncommitted(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)

    def handle(consumer: PullConsumer) -> None:
        with consumer:
            for message in consumer:
                if message.body == b"4":
                    raise RuntimeError("a handler's")

    consumer = PullConsumer("g", namesrv=namesrv, start_from=FIRST)
    consumer.assign([queue(0)])
    with pytest.raises(RuntimeError):
        handle(consumer)
    assert broker.committed["g", TOPIC, 0] == 4


def test_exception_between_polls_leaves_the_last_batch_uncommitted(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)
    consumer = PullConsumer("g", namesrv=namesrv, start_from=FIRST)
    consumer.assign([queue(0)])

    def handle() -> None:
        with consumer:
            assert len(consumer.poll(3, timeout=5)) == 3
            assert len(consumer.poll(3, timeout=5)) == 3
            raise RuntimeError("a handler's")

    with pytest.raises(RuntimeError):
        handle()
    assert broker.committed["g", TOPIC, 0] == 3


def test_auto_commit_while_polling(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit_interval=0.05) as consumer:
        consumer.assign([queue(0)])
        assert len(consumer.poll(6, timeout=5)) == 6
        assert len(consumer.poll(1, timeout=5)) == 1
        for _ in range(100):
            if broker.committed.get(("g", TOPIC, 0)) == 6:
                break
            threading.Event().wait(0.02)
        assert broker.committed["g", TOPIC, 0] == 6  # the seventh may still be at work


def test_without_auto_commit_nothing_is_committed(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=False) as consumer:
        consumer.assign([queue(0)])
        assert len(read(consumer, 10)) == 10
    assert broker.committed == {}


def test_group_goes_on_where_it_stopped(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)
    broker.committed["g", TOPIC, 0] = 7
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue(0)])
        assert read(consumer, 3) == [b"7", b"8", b"9"]
        assert consumer.committed(queue(0)) == 7
        assert consumer.committed(queue(1)) is None


def test_start_from_last_and_from_a_time(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 5)
    with PullConsumer("g1", namesrv=namesrv, start_from=LAST) as consumer:
        consumer.assign([queue(0)])
        assert consumer.position(queue(0)) == 5
        assert not consumer.poll(timeout=0.1)
    assert broker.committed["g1", TOPIC, 0] == 5  # so that a restart misses nothing in between
    with PullConsumer("g2", namesrv=namesrv, start_from=datetime(2020, 1, 1, tzinfo=UTC)) as consumer:
        consumer.assign([queue(0)])
        assert len(read(consumer, 5)) == 5
        consumer.seek_to_time(queue(0), datetime(2120, 1, 1, tzinfo=UTC))
        assert consumer.position(queue(0)) == 5


def test_seek_pause_resume(namesrv: str, broker, producer: Producer) -> None:
    fill(broker, producer, 10)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue(0)])
        consumer.seek(queue(0), 8)
        assert read(consumer, 2) == [b"8", b"9"]
        consumer.seek(queue(0), 3)
        consumer.pause([queue(0)])
        assert not consumer.poll(timeout=0.2)
        consumer.resume([queue(0)])
        assert read(consumer, 7) == [b"%d" % index for index in range(3, 10)]
        for use in (lambda: consumer.seek(queue(3), 0), lambda: consumer.position(queue(3))):
            with pytest.raises(InvalidParameter):
                use()


def test_offsets_outside_the_queue_are_moved_into_it(namesrv: str, broker, producer: Producer, caplog) -> None:
    fill(broker, producer, 10)
    broker.queues[TOPIC, 0].begin = 4  # the oldest four are gone
    del broker.queues[TOPIC, 0].records[:4]
    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.assign([queue(0)])
        consumer.seek(queue(0), 0)
        assert read(consumer, 6) == [b"%d" % index for index in range(4, 10)]
        consumer.seek(queue(0), 1000)
        assert not consumer.poll(timeout=0.2)
        assert consumer.position(queue(0)) == 10
    assert "OFFSET_TOO_SMALL" in caplog.text
    assert "OFFSET_OVERFLOW_BADLY" in caplog.text


def test_tags_are_matched_by_text(namesrv: str, broker, producer: Producer) -> None:
    """The fake broker filters nothing, as one whose hashes all collide."""
    fill(broker, producer, 1, tags="Aa")
    producer.send_bodies(TOPIC, [b"x", b"y", b"z"], ["BB", "Aa", "sell"])  # "Aa" and "BB" have one hash
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC, "Aa || buy")
        assert sorted(read(consumer, 2, seconds=1)) == [b"0", b"y"]
    pulls = [request for request in broker.requests if isinstance(request, PullMessages)]
    assert pulls[0].tag_codes == (2112, 97926)
    assert sum(broker.committed.values()) == 4  # what was filtered out is not read again


def test_members_share_the_queues(namesrv: str, broker) -> None:
    with PullConsumer("g", namesrv=namesrv) as first:
        first.subscribe(TOPIC)
        first.poll(timeout=0.1)
        assert first.assignment() == [queue(index) for index in range(4)]
        with PullConsumer("g", namesrv=namesrv) as second:
            second.subscribe(TOPIC)
            second.poll(timeout=0.1)
            for _ in range(50):
                first.poll(timeout=0.05)
                if len(first.assignment()) == 2:
                    break
            assert sorted(first.assignment() + second.assignment()) == [queue(index) for index in range(4)]
            assert len(second.assignment()) == 2
        for _ in range(50):
            first.poll(timeout=0.05)
            if len(first.assignment()) == 4:
                break
        assert len(first.assignment()) == 4


def test_a_consumer_whose_client_id_is_taken_says_so(namesrv: str, broker) -> None:
    """Another process goes by it: two of one id would both read its share."""
    broker.rule = lambda request: DuplicateClient("id", "elsewhere", 7) if isinstance(request, Heartbeat) else None
    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        with pytest.raises(DuplicateClient, match="process 7 on 'elsewhere'"):
            consumer.poll(timeout=1)
        assert consumer._work.queues() == []


def test_a_function_shares_out_the_queues(namesrv: str, broker) -> None:
    def even(_client_id: str, _members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return [queue for queue in queues if queue.queue_id % 2 == 0]

    with PullConsumer("g", namesrv=namesrv, allocation=even, room="fra1") as consumer:
        consumer.subscribe(TOPIC)
        assert consumer.assignment() == [queue(0), queue(2)]
        beats = [request for request in broker.requests if isinstance(request, Heartbeat) and request.consumers]
        assert {(beat.allocation, beat.language) for beat in beats} == {("custom", "PYTHON")}
        assert beats[0].client_id.endswith("@fra1")
        assert (beats[0].pid, beats[0].host) == (os.getpid(), socket.gethostname())
    with PullConsumer("h", namesrv=namesrv, allocation=lambda *_: [MessageQueue("other", "a", 0)]) as consumer:
        consumer.subscribe(TOPIC)
        with pytest.raises(InvalidParameter, match="queues of the topic only"):
            consumer.assignment()
    with pytest.raises(InvalidParameter):
        PullConsumer("h", namesrv=namesrv, room="no room")


def test_what_was_handed_out_is_committed_before_a_queue_is_given_up(namesrv: str, broker, producer: Producer) -> None:
    producer.send_bodies(TOPIC, [b"%d" % index for index in range(100)])
    (held,) = [key[1] for key, held in broker.queues.items() if held.records]
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit_interval=60) as first:
        first.subscribe(TOPIC)
        assert len(first.poll(40, timeout=5)) == 40
        first.unsubscribe(TOPIC)
        first.poll(timeout=0.1)
        assert first.assignment() == []
        assert broker.committed["g", TOPIC, held] == 40


def test_what_an_iteration_did_not_hand_on_stays_uncommitted_when_its_queue_is_given_up(
    namesrv: str, broker, producer: Producer
) -> None:
    fill(broker, producer, 10)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit_interval=60) as consumer:
        consumer.assign([queue(0)])
        handed = iter(consumer)
        assert next(handed).body == b"0"
        consumer.assign([queue(1)])
        assert consumer.assignment() == [queue(1)]
        assert broker.committed["g", TOPIC, 0] == 0
        broker.queues[TOPIC, 1] = broker.queues[TOPIC, 0]
        consumer.seek(queue(1), 5)
        assert next(handed).body == b"5"


def test_what_is_sent_between_subscribe_and_the_first_poll_is_not_skipped(
    namesrv: str, broker, producer: Producer
) -> None:
    producer.send_bodies(TOPIC, [b"old"])
    with PullConsumer("g", namesrv=namesrv, start_from=LAST) as consumer:
        consumer.subscribe(TOPIC)
        producer.send_bodies(TOPIC, [b"new"])
        assert read(consumer, 1) == [b"new"]
        broker.queues[TOPIC, 4] = next(held for held in broker.queues.values() if held.records)
        broker.topics[TOPIC] = 5
        broker.register()  # a queue that comes later begins at its first message
        assert read(consumer, 1)


def test_a_broker_that_comes_later_begins_where_the_group_did(namesrv: str, broker, new_broker) -> None:
    with PullConsumer("g", namesrv=namesrv, start_from=LAST) as consumer:
        consumer.subscribe(TOPIC)
        since_ms = broker.begun["g", TOPIC]
        later = new_broker("b", trades=1)
        deadline_ms = monotonic_ms() + 30_000
        while len(consumer.assignment()) < 5:
            assert monotonic_ms() < deadline_ms
            consumer.poll(timeout=0.05)
    assert later.begun["g", TOPIC] == since_ms


def test_new_queues_are_found(namesrv: str, broker, producer: Producer) -> None:
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        consumer.poll(timeout=0.1)
        broker.topics[TOPIC] = 6
        broker.register()
        for _ in range(50):  # the name server publishes the change
            consumer.poll(timeout=0.1)
            if len(consumer.assignment()) == 6:
                break
        assert len(consumer.assignment()) == 6


def test_consumer_waits_for_a_broker_that_is_away(namesrv: str, new_broker: Callable) -> None:
    new_broker("a", trades=1)
    second = new_broker("b", trades=1)
    with Producer("p", namesrv=namesrv) as producer, PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        consumer.poll(timeout=0.1)
        assert len(consumer.assignment()) == 2
        second.stop()
        producer.send_bodies(TOPIC, [b"x"], timeout=5)
        assert read(consumer, 1) == [b"x"]


def test_failing_pulls_are_told_once_and_so_is_their_end(
    namesrv: str, broker, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Semaphore(0)

    def refuse(request: Request) -> ZenitError | None:
        if not isinstance(request, PullMessages):
            return None
        failed.release()
        return BrokerBusy(1, "a test")

    def told() -> list[str]:
        return [record.levelname for record in caplog.records if record.getMessage().startswith("pulls ")]

    fill(broker, producer, 1)
    broker.rule = refuse
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer, caplog.at_level(logging.INFO, "zenitmq"):
        consumer.assign([queue(0)])
        assert len(consumer.poll(timeout=0.05)) == 0
        for _ in range(4):
            assert failed.acquire(timeout=5)
        broker.rule = lambda request: None
        assert len(consumer.poll(timeout=5.0)) == 1
        wait_until(lambda: "INFO" in told())  # the thread that brings the messages tells it after it handed them over
    assert told() == ["WARNING", "INFO"]


def test_prefetch_is_bounded(namesrv: str, broker, producer: Producer) -> None:
    producer.send_bodies(TOPIC, [bytes(1000)] * 1000)
    with PullConsumer(
        "g", namesrv=namesrv, start_from=FIRST, prefetch_bytes=256 * 1024, pull_bytes=64 * 1024
    ) as consumer:
        consumer.subscribe(TOPIC)
        assert len(consumer.poll(1, timeout=5)) == 1
        threading.Event().wait(0.2)
        pulls = [request for request in broker.requests if isinstance(request, PullMessages)]
        assert max(request.max_bytes for request in pulls) <= 64 * 1024
        assert len(pulls) <= 4 + 3  # a long poll at each empty queue; the full one stops at its share
        assert len(read(consumer, 999)) == 999


def test_errors_reach_the_one_who_polls(namesrv: str, broker) -> None:
    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe("nowhere")
        with pytest.raises(TopicNotFound):
            consumer.poll(timeout=0.1)
    broker.rule = lambda request: NoPermission(TOPIC, "reading") if isinstance(request, PullMessages) else None

    def poll(consumer: PullConsumer) -> None:
        for _ in range(20):
            consumer.poll(timeout=0.1)

    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        with pytest.raises(NoPermission):
            poll(consumer)


def test_wrong_use_is_refused(namesrv: str, broker) -> None:
    with pytest.raises(InvalidParameter):
        PullConsumer("g", namesrv=namesrv, allocation="by-mood")
    with pytest.raises(InvalidParameter):
        PullConsumer("g", namesrv=namesrv, start_from=datetime(2020, 1, 1))  # noqa: DTZ001
    consumer = PullConsumer("g", namesrv=namesrv)
    consumer.subscribe(TOPIC)
    with pytest.raises(LocalProtocolError):
        consumer.assign([queue(0)])
    with pytest.raises(InvalidParameter):
        consumer.poll(0)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll()


def test_close_ends_an_iteration_in_another_thread(namesrv: str, broker) -> None:
    consumer = PullConsumer("g", namesrv=namesrv)
    consumer.subscribe(TOPIC)
    ended = threading.Event()

    def iterate() -> None:
        for _ in consumer:
            pass
        ended.set()

    thread = threading.Thread(target=iterate)
    thread.start()
    for _ in range(100):
        if broker.consumers.get("g"):
            break
        threading.Event().wait(0.02)
    consumer.close()
    assert ended.wait(5)
    thread.join(5)


def test_last_client_of_a_process_is_gone_at_once_when_it_closes(namesrv: str, broker) -> None:
    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        consumer.poll(timeout=0.1)
        assert len(broker.consumers["g"]) == 1
    assert broker.consumers["g"] == {}
