"""A group that is deleted takes with it what waits for its next try: one of its name that is made later begins without."""

from __future__ import annotations

import threading
import time

from integration.client.conftest import TOPIC

from zenitmq import FIRST, LAST, Admin, Message, Producer, PushConsumer, StoredMessage
from zenitmq.model.names import DEAD_LETTER_PREFIX, retry_topic

RETRY_S = 1.0
SOON = f'{{"type": "CUSTOMIZED", "customizedRetryPolicy": {{"next": [{RETRY_S * 1000:.0f}]}}}}'
SETTINGS = {"retryMaxTimes": "16", "groupRetryPolicy": SOON}


def test_a_group_made_again_gets_nothing_that_failed_in_the_one_before(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    failed = threading.Semaphore(0)

    def fail(messages: list[StoredMessage]) -> None:
        failed.release()
        raise ValueError("again later")

    admin.create_group("g", SETTINGS)
    consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
    consumer.subscribe(TOPIC)
    consumer.on_message(fail)
    with consumer:
        for number in range(3):
            producer.send(Message(TOPIC, b"failed %d" % number))
        for _ in range(4):  # one of them has been in the retry topic
            assert failed.acquire(timeout=20)
    assert retry_topic("g") in [topic["name"] for topic in admin.topic_configs()]
    admin.delete_group("g")
    assert retry_topic("g") not in [topic["name"] for topic in admin.topic_configs()]

    admin.create_group("g", SETTINGS)
    seen: list[bytes] = []
    come = threading.Event()

    def handle(messages: list[StoredMessage]) -> None:
        seen.extend(message.body for message in messages)
        come.set()

    again = PushConsumer("g", namesrv=namesrv, start_from=LAST)
    again.subscribe(TOPIC)
    again.on_message(handle)
    with again:
        time.sleep(2 * RETRY_S)  # what waited would have come by now
        producer.send(Message(TOPIC, b"new"))
        assert come.wait(20)
    assert seen == [b"new"]


def test_its_dead_letters_stay(namesrv: str, admin: Admin, producer: Producer) -> None:
    admin.create_group("g", {"retryMaxTimes": "0"})
    failed = threading.Event()

    def fail(messages: list[StoredMessage]) -> None:
        failed.set()
        raise ValueError("never")

    consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
    consumer.subscribe(TOPIC)
    consumer.on_message(fail)
    with consumer:
        producer.send(Message(TOPIC, b"given up"))
        assert failed.wait(20)
    admin.delete_group("g")
    assert f"{DEAD_LETTER_PREFIX}g" in [topic["name"] for topic in admin.topic_configs()]
    assert [letter.message.body for letter in admin.dead_letters("g")] == [b"given up"]
