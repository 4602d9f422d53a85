"""Topics that are made, used and deleted, some of them under names that were used before; the clients stay the same."""

from __future__ import annotations

import itertools
import time

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer
from zenitmq.model.errors import ZenitError

from .records import body_of
from .topics import PASSING_GROUP, PASSING_PREFIX
from .worker import Worker, now_ms

NAMES, MESSAGES, EACH_S = 6, 20, 20.0
READ_S = 60.0


def make_and_delete(worker: Worker) -> None:
    """One after the other: a topic is made, 20 messages go through it, it is deleted."""
    namesrv = worker.job.namesrv
    with Admin(namesrv) as admin, Producer("soak-passing", namesrv=namesrv) as producer:
        for turn in itertools.count():
            topic = f"{PASSING_PREFIX}{turn % NAMES}"
            try:
                admin.create_topic(topic, queues=2, timeout=20)
                _send(worker, producer, topic, f"passing-{turn}")
                _read(worker, topic)
                admin.delete_topic(topic, timeout=20)
            except ZenitError as error:
                worker.refused("a passing topic", error)
                _read(worker, topic)
            if worker.stopping.wait(EACH_S * worker.job.scale):
                return


def _send(worker: Worker, producer: Producer, topic: str, stream: str) -> None:
    for number in range(MESSAGES):
        begun_ms = now_ms()
        try:
            producer.send(Message(topic, body_of(stream, number, 100)))
        except ZenitError as error:
            worker.sent(topic, stream, number, begun_ms, error)
        else:
            worker.sent(topic, stream, number, begun_ms)


def _read(worker: Worker, topic: str) -> None:
    """Reads until nothing has come for a while."""
    worker.moved(PASSING_GROUP, topic, "start")
    got, deadline_s = 0, time.monotonic() + READ_S
    with PullConsumer(PASSING_GROUP, namesrv=worker.job.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        while got < MESSAGES and time.monotonic() < deadline_s:
            try:
                batch = consumer.poll(64, timeout=1.0)
            except ZenitError as error:
                worker.refused("poll of a passing topic", error)
                time.sleep(0.5)
                continue
            for message in batch:
                worker.handled(PASSING_GROUP, topic, message)
                got += 1
    worker.moved(PASSING_GROUP, topic, "close")
