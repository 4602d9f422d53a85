"""Ordered consuming against a real broker: one handler a queue at a time, in order, under a lock that moves and ends."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.client.consuming.push_kit import Seen, lag, wait_until
from integration.client.real_broker import RealBroker

from zenitmq import FIRST, Admin, ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import LockQueues, UnlockQueues

TOPIC = "trades"
KEYS = [f"user-{index}" for index in range(8)]


@pytest.fixture
def lease_ms() -> int:
    """How long a lock lasts without a renewal."""
    return 1_500


@pytest.fixture
def real_broker(namesrv: str, tmp_path: Path, lease_ms: int) -> Iterator[RealBroker]:
    """A broker with short leases."""
    broker = RealBroker(namesrv, tmp_path, queue_lock_lease_ms=lease_ms)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def admin(namesrv: str, real_broker: RealBroker) -> Iterator[Admin]:
    with Admin(namesrv) as made:
        made.create_topic(TOPIC, queues=4)
        yield made


@pytest.fixture
def producer(namesrv: str, admin: Admin) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


class Watch:
    """Sees that no two handlers have one queue at a time, and in which order its messages begin."""

    def __init__(self) -> None:
        self.order: dict[int, list[int]] = defaultdict(list)
        self.overlaps = 0
        self._at_work: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, message: StoredMessage) -> None:
        with self._lock:
            self.overlaps += message.queue_id in self._at_work
            self._at_work.add(message.queue_id)
            self.order[message.queue_id].append(message.queue_offset)
        threading.Event().wait(0.001)
        with self._lock:
            self._at_work.discard(message.queue_id)

    def check(self) -> None:
        """Where an offset is handled again, it goes on from there: nothing is ever skipped."""
        assert not self.overlaps
        for offsets in self.order.values():
            highest = -1
            for offset in offsets:
                assert offset <= highest + 1, offsets
                highest = max(highest, offset)


def ordered(namesrv: str, handler: object, **settings: object) -> PushConsumer:
    consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST, ordered=True, **settings)  # type: ignore[arg-type]
    consumer.subscribe(TOPIC)
    consumer.on_message(handler)  # type: ignore[arg-type]
    return consumer


def send(producer: Producer, count: int, begin: int = 0) -> set[bytes]:
    bodies = [b"%04d" % index for index in range(begin, begin + count)]
    for index, body in enumerate(bodies):
        producer.send(Message(TOPIC, body), sharding_key=KEYS[index % len(KEYS)])
    return set(bodies)


def test_each_queue_is_handled_in_order_by_one_at_a_time(namesrv: str, admin: Admin, producer: Producer) -> None:
    sent = send(producer, 200)
    watch = Watch()
    seen = Seen(watch)  # type: ignore[arg-type]
    with ordered(namesrv, seen):
        seen.wait(200)
    watch.check()
    assert sorted(seen.bodies) == sorted(sent)
    assert lag(admin, "g", TOPIC) == 0
    assert all(row["owner"] is None for row in admin.describe_group("g")["queues"])


def test_a_message_that_fails_holds_its_queue_and_comes_again(namesrv: str, admin: Admin, producer: Producer) -> None:
    for body in (b"1", b"2", b"3"):
        producer.send(Message(TOPIC, body), sharding_key="one")

    def then(message: StoredMessage) -> ConsumeResult | None:
        return ConsumeResult.RETRY if message.body == b"2" and message.reconsume_times < 3 else None

    seen = Seen(then)
    with ordered(namesrv, seen, suspend=0.05):
        seen.wait(3)
    assert seen.bodies == [b"1", b"2", b"2", b"2", b"2", b"3"]
    assert [message.reconsume_times for message in seen.messages[1:5]] == [0, 1, 2, 3]


def test_after_the_last_attempt_the_queue_goes_on(namesrv: str, admin: Admin, producer: Producer) -> None:
    for body in (b"1", b"2", b"3"):
        producer.send(Message(TOPIC, body), sharding_key="one")

    def then(message: StoredMessage) -> None:
        if message.body == b"2":
            raise ValueError("never")

    seen = Seen(then)
    with ordered(namesrv, seen, suspend=0.05, max_attempts=3):
        seen.wait(3)
        wait_until(lambda: admin.dead_letters("g", 1))
        (letter,) = admin.dead_letters("g", 10)
        assert letter.attempts == 3
    assert seen.bodies == [b"1", b"2", b"2", b"2", b"3"]
    assert (letter.message.body, letter.origin_topic, letter.reason) == (b"2", TOPIC, "ValueError: never")


def test_queues_move_between_members_and_stay_in_order(namesrv: str, admin: Admin, producer: Producer) -> None:
    watch = Watch()
    seen = Seen(watch)  # type: ignore[arg-type]
    first = ordered(namesrv, seen)
    sent: set[bytes] = set()
    with first:
        for round_number in range(3):
            with ordered(namesrv, seen) as second:
                sent |= send(producer, 100, begin=200 * round_number)
                wait_until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
                sent |= send(producer, 100, begin=200 * round_number + 100)
            wait_until(lambda: len(first.assignment()) == 4)
        seen.wait(600)
    watch.check()
    assert set(seen.bodies) == sent
    assert lag(admin, "g", TOPIC) == 0


@pytest.mark.parametrize("lease_ms", [30_000])
def test_a_queue_waits_for_the_handler_of_its_last_owner(namesrv: str, admin: Admin, producer: Producer) -> None:
    """The handlers take longer than a move waits: their queues stay locked until they have ended."""
    release = threading.Event()
    sent = send(producer, 16)

    def then(message: StoredMessage) -> None:
        release.wait(30)

    slow, other = Seen(then), Seen()
    with ordered(namesrv, slow):
        started = sum(admin.max_offset(queue) > 0 for queue in admin.queues(TOPIC))
        wait_until(lambda: len(slow.bodies) == started)
        with ordered(namesrv, other) as second:
            threading.Event().wait(2.0)
            assert len(second.assignment()) <= 4 - started
            assert len(slow.bodies) == started
            release.set()
            wait_until(lambda: len(second.assignment()) == 2)
            wait_until(lambda: {*slow.bodies, *other.bodies} == sent)
    assert len(slow.bodies) + len(other.bodies) == len(sent)  # what one had done, the other did not do again


def until(release: threading.Event) -> Callable[[StoredMessage], None]:
    """What a handler does that ends when it is released."""

    def then(_: StoredMessage) -> None:
        release.wait(30)

    return then


@pytest.mark.parametrize("lease_ms", [800])
def test_a_queue_is_not_handed_over_while_its_handler_outlives_the_lease(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    """Its lock is renewed for as long as the handler is at work, though the queue is another member's by now."""
    release = threading.Event()
    sent = send(producer, 16)
    slow, other = Seen(until(release)), Seen()
    with ordered(namesrv, slow):
        started = sum(admin.max_offset(queue) > 0 for queue in admin.queues(TOPIC))
        wait_until(lambda: len(slow.bodies) == started)
        with ordered(namesrv, other) as second:
            threading.Event().wait(3.5)
            assert len(second.assignment()) <= 4 - started
            assert not other.bodies
            release.set()
            wait_until(lambda: {*slow.bodies, *other.bodies} == sent)


def test_after_a_reset_nobody_handles_a_queue_beside_the_handler_that_had_it(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    """Neither this member nor, once it is closed, another: the handler is waited for though what it does counts for nothing."""
    release = threading.Event()
    producer.send(Message(TOPIC, b"slow"), sharding_key="one")
    slow, other = Seen(until(release)), Seen()
    first = ordered(namesrv, slow)
    with first:
        slow.wait(1)
        admin.reset_offset("g", TOPIC, "earliest")
        threading.Event().wait(0.3)
        assert len(slow.bodies) == 1
        closing = threading.Thread(target=first.close, args=(20.0,))
        closing.start()
        with ordered(namesrv, other):
            threading.Event().wait(0.3)
            assert closing.is_alive()
            assert not other.bodies
            release.set()
            closing.join(20)
            assert other.wait(1) == [b"slow"]


def test_who_was_silent_for_a_lease_is_fenced(
    namesrv: str, admin: Admin, producer: Producer, real_broker: RealBroker
) -> None:
    """The broker is gone for longer than a lease: the consumer handles nothing on a lock that has ended."""
    send(producer, 8)
    watch = Watch()
    seen = Seen(watch)  # type: ignore[arg-type]
    with ordered(namesrv, seen, timeout=0.5) as consumer:
        seen.wait(8)
        real_broker.stop()
        wait_until(lambda: not consumer.assignment())
        real_broker.start()
        with Producer("p2", namesrv=namesrv, timeout=10.0) as again:
            sent = send(again, 8, begin=8)
        assert set(seen.wait(16)) >= sent
    watch.check()


def test_who_is_closed_while_its_handler_goes_on_keeps_its_queue_until_the_lease_ends(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    release = threading.Event()
    producer.send(Message(TOPIC, b"slow"), sharding_key="one")

    def then(message: StoredMessage) -> None:
        release.wait(30)

    slow, other = Seen(then), Seen()
    first = ordered(namesrv, slow)
    with first:
        slow.wait(1)
        first.close(timeout=0.1)
    with ordered(namesrv, other):
        threading.Event().wait(0.5)
        assert not other.bodies
        other.wait(1)
    release.set()


@pytest.mark.parametrize("lease_ms", [30_000])
def test_a_commit_that_is_refused_costs_the_queue(
    namesrv: str, admin: Admin, producer: Producer, real_broker: RealBroker
) -> None:
    """Another has the locks, as after a pause that this consumer did not notice: it learns that when it commits."""
    queues = tuple((queue.topic, queue.queue_id) for queue in admin.queues(TOPIC))
    seen = Seen()
    with ordered(namesrv, seen, commit_interval=0.1) as consumer:
        wait_until(lambda: len(consumer.assignment()) == 4)
        (member,) = admin.describe_group("g")["members"]
        with RemotingClient() as thief:
            thief.call(real_broker.address, UnlockQueues("g", member, queues), timeout_ms=5000)
            thief.call(real_broker.address, LockQueues("g", "thief", queues), timeout_ms=5000)
        receipt = producer.send(Message(TOPIC, b"x"))
        seen.wait(1)
        wait_until(lambda: receipt.queue not in consumer.assignment())
    assert lag(admin, "g", TOPIC) == 1
