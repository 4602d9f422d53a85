"""The whole way of a message that fails: again and again at the group's times, dead, looked at, sent again, handled."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from zenitmq import Admin, ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from zenitmq.model.clock import now_ms
from zenitmq.model.errors import MessageTooLarge

TOPIC = "trades"
LADDER_MS = (100, 200, 400)
SETTINGS = {
    "retryMaxTimes": "3",
    "groupRetryPolicy": '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 1, 100, 200, 400]}}',
}


class Log:
    """What a handler saw: (when, topic, body, how often before), and what it answers."""

    def __init__(self, answer: Callable[[StoredMessage], ConsumeResult | None]) -> None:
        self.seen: list[tuple[int, str, bytes, int]] = []
        self._answer = answer
        self._changed = threading.Condition()

    def handle(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        (message,) = messages
        with self._changed:
            self.seen.append((now_ms(), message.topic, message.body, message.reconsume_times))
            self._changed.notify_all()
        return self._answer(message)

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, 60), self.seen


def dead_letters(admin: Admin, count: int) -> list[str]:
    """The reasons, once there are so many."""
    for _ in range(600):
        letters = admin.dead_letters("g", 100)
        if len(letters) >= count:
            return [letter.reason for letter in letters]
        threading.Event().wait(0.1)
    raise AssertionError(f"fewer than {count} dead letters")


def consumer_of(log: Log, namesrv: str) -> PushConsumer:
    consumer = PushConsumer("g", namesrv=namesrv)
    consumer.subscribe(TOPIC)
    consumer.on_message(log.handle)
    return consumer


def test_a_message_that_always_fails_comes_back_until_it_is_given_up(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    works = threading.Event()

    def answer(message: StoredMessage) -> None:
        if not works.is_set():
            raise ValueError(f"no account for {message.body.decode()}")

    admin.create_group("g", SETTINGS)
    log = Log(answer)
    with consumer_of(log, namesrv):
        receipt = producer.send(Message(TOPIC, b"poison", keys=["o-17"], properties={"region": "eu"}))
        log.wait(4)
        assert dead_letters(admin, 1) == ["ValueError: no account for poison"]
        assert [(topic, body, times) for _, topic, body, times in log.seen] == [
            (TOPIC, b"poison", times) for times in range(4)
        ]
        moments = [moment for moment, *_ in log.seen]
        waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
        assert all(wait >= planned for wait, planned in zip(waits, LADDER_MS, strict=True)), waits
        works.set()
        assert admin.redrive_dead_letters("g")["redriven"] == 1
        log.wait(5)
        assert log.seen[4][1:] == (TOPIC, b"poison", 0)
    assert admin.describe_group("g")["lag"] == 0
    (letter,) = admin.dead_letters("g")
    assert (letter.origin_message_id, letter.message.message_id) == (receipt.offset_message_id, receipt.message_id)
    assert letter.message.properties["region"] == "eu"


def test_one_that_fails_does_not_hold_up_the_others(admin: Admin, producer: Producer, namesrv: str) -> None:
    def answer(message: StoredMessage) -> None:
        if int(message.body) % 10 == 0 and message.reconsume_times < 2:
            raise ValueError("not yet")

    admin.create_group("g", SETTINGS)
    log = Log(answer)
    with consumer_of(log, namesrv):
        for number in range(100):
            producer.send(Message(TOPIC, b"%d" % number))
        log.wait(100 + 10 * 2)
    counts = {body: sum(1 for _, _, seen, _ in log.seen if seen == body) for _, _, body, _ in log.seen}
    assert counts == {b"%d" % number: 3 if number % 10 == 0 else 1 for number in range(100)}
    assert admin.dead_letter_groups() == []


def test_a_handler_may_give_a_message_up_at_once(admin: Admin, producer: Producer, namesrv: str) -> None:
    log = Log(lambda _message: ConsumeResult.DEAD_LETTER)
    with consumer_of(log, namesrv):
        producer.send(Message(TOPIC, b"junk"))
        assert len(dead_letters(admin, 1)) == 1
    assert [times for *_, times in log.seen] == [0]


def test_a_running_push_consumer_goes_on_where_its_group_is_moved(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    bodies = [b"%d" % number for number in range(5)]
    log = Log(lambda _message: None)
    with consumer_of(log, namesrv):
        for body in bodies:
            producer.send(Message(TOPIC, body))
        log.wait(5)
        admin.reset_offset("g", TOPIC, "earliest")
        log.wait(10)
    assert sorted(body for _, _, body, _ in log.seen) == sorted(bodies * 2)
    assert admin.describe_group("g")["lag"] == 0


@pytest.mark.parametrize("delay", [None, timedelta(milliseconds=50)])
def test_the_largest_properties_that_can_be_sent_have_room_for_the_whole_way(
    admin: Admin, producer: Producer, namesrv: str, delay: timedelta | None
) -> None:
    def largest(size: int) -> Message:
        return Message(TOPIC, b"full", properties={"p": "v" * size}, delay=delay)

    def answer(_message: StoredMessage) -> None:
        raise ValueError("no " * 1000)

    admin.create_group("g", SETTINGS)
    log = Log(answer)
    with consumer_of(log, namesrv):
        for size in range(32_767, 31_600, -1):
            with contextlib.suppress(MessageTooLarge):
                producer.send(largest(size))
                break
        assert len(dead_letters(admin, 1)) == 1
        assert [times for *_, times in log.seen] == [0, 1, 2, 3]
    (letter,) = admin.dead_letters("g")
    assert letter.message.properties["p"] == "v" * size
    assert letter.reason.startswith("ValueError: no no")
    assert admin.describe_group("g")["lag"] == 0
