"""A requester stays reachable when the master that stored its request dies: the reply comes through the next one."""

from __future__ import annotations

import threading

import pytest

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer, ZenitError
from zenitmq.testing import LocalCluster

TOPIC = "questions"
WAIT_S = 60.0


@pytest.mark.timeout(240)
def test_a_request_is_answered_through_the_next_master(three_replicas: LocalCluster) -> None:
    three_replicas.create_topic(TOPIC, queues=2)
    with Producer("asking", namesrv=three_replicas.namesrv) as producer, Admin(three_replicas.namesrv) as admin:
        before = producer.request_async(Message(TOPIC, b"before"), timeout=WAIT_S)
        while not sum(admin.max_offset(queue) for queue in admin.queues(TOPIC)):
            threading.Event().wait(0.05)
        first = three_replicas.master
        three_replicas.kill(first)
        with Producer("answering", namesrv=three_replicas.namesrv, timeout=20.0) as replier:
            answer_all(three_replicas.namesrv, replier, 1)
            assert before.result(WAIT_S).body == b"re: before"
            after = producer.request_async(Message(TOPIC, b"after"), timeout=WAIT_S)
            answer_all(three_replicas.namesrv, replier, 1)
            assert after.result(WAIT_S).body == b"re: after"
        assert three_replicas.master != first
    assert producer.request_statistics().answered == 2


def answer_all(namesrv: str, replier: Producer, count: int) -> None:
    """Answers so many requests; while the group has no master it looks again."""
    answered = 0
    with PullConsumer("answering", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        while answered < count:
            try:
                batch = consumer.poll(timeout=1.0)
            except ZenitError:
                threading.Event().wait(0.2)
                continue
            for message in batch:
                replier.reply(message, b"re: " + message.body)
                answered += 1
