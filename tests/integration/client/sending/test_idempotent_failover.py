"""Brokers are killed under an idempotent producer: each message is there once, each key's in order."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from integration.client.sending.stored_messages import stored

from zenitmq import Message, OutcomeUnknown, Producer, ZenitError
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)

TOPIC = "once"
KEYS = 4


def produce(producer: Producer, stop: threading.Event, sent: list[tuple[bytes, Any]]) -> None:
    """Futures of keys, and messages without one; what is not taken at all (a broker is away for long) is not counted."""
    number = 0
    while not stop.is_set():
        for key in (*(f"k{key}" for key in range(KEYS)), None):
            body = f"{key}-{number:06d}".encode()
            message = Message(TOPIC, body if key else body + bytes(200))
            try:
                sent.append((body, producer.send_async(message, sharding_key=key)))
            except ZenitError:
                stop.wait(0.1)
        number += 1
        stop.wait(0.001)


def wait_for_more(sent: list[tuple[bytes, Any]], count: int) -> None:
    """Until so many more messages are acknowledged."""
    begin = len(sent)
    for _ in range(1200):
        if len(sent) >= begin + count and all(future.done() for _, future in sent[begin : begin + count]):
            return
        threading.Event().wait(0.05)
    raise AssertionError("the producer came to a stand")


@pytest.mark.parametrize("replicas", [3, 1])
def test_a_killed_master_neither_loses_nor_doubles(replicas: int) -> None:
    """With three replicas another takes over; with one the same comes back and knows its log."""
    sent: list[tuple[bytes, Any]] = []
    stop = threading.Event()
    with LocalCluster(replicas=replicas) as cluster:
        cluster.create_topic(TOPIC, queues=4)
        with Producer(namesrv=cluster.namesrv, idempotent=True, batch_bytes=4096) as producer:
            thread = threading.Thread(target=produce, args=(producer, stop, sent))
            thread.start()
            try:
                wait_for_more(sent, 300)
                cluster.kill(cluster.master)
                if replicas == 1:
                    cluster.restart()
                wait_for_more(sent, 300)
            finally:
                stop.set()
                thread.join()
            producer.flush()
            outcomes = {body: future.exception(60) for body, future in sent}
        messages = stored(cluster.namesrv, TOPIC)
    bodies = [message.body.rstrip(b"\0") for message in messages]
    assert set(Counter(bodies).values()) == {1}
    assert {body for body, error in outcomes.items() if error is None} <= set(bodies)
    assert all(error is None or isinstance(error, OutcomeUnknown) for error in outcomes.values())
    for key in range(KEYS):
        mine = [body for body in bodies if body.startswith(b"k%d-" % key)]
        assert mine == sorted(mine)
    assert sum(error is None for error in outcomes.values()) >= 600
