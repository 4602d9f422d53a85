"""A topic is deleted and made again under its name while consumers of it are connected: they begin with its first message."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from integration.client.real_broker import RealBroker

from zenitmq import FIRST, LAST, Admin, Message, MessageModel, Producer, PullConsumer, PushConsumer
from zenitmq.model.errors import ZenitError

OLD, NEW = 100, 300
WAIT_S = 20


def fill(namesrv: str, topic: str, kind: str, count: int) -> None:
    with Producer("p", namesrv=namesrv) as producer:
        for number in range(count):
            producer.send(Message(topic, f"{kind}{number}".encode()))


def make_anew(namesrv: str, topic: str) -> None:
    with Admin(namesrv) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=1)
    fill(namesrv, topic, "new", NEW)


def wait(is_so: Callable[[], bool], poll: Callable[[], object] = lambda: None) -> None:
    for _ in range(WAIT_S * 20):
        if is_so():
            return
        poll()
        threading.Event().wait(0.05)
    raise AssertionError("it did not come to that")


def of_new(got: list[bytes]) -> list[bytes]:
    return [body for body in got if body.startswith(b"new")]


@pytest.mark.parametrize("is_assigned", [False, True])
def test_a_pull_consumer_begins_anew(namesrv: str, real_broker: RealBroker, is_assigned: bool) -> None:
    got: list[bytes] = []

    def poll() -> None:
        try:
            got.extend(message.body for message in consumer.poll(timeout=0.2))
        except ZenitError:
            threading.Event().wait(0.05)

    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=1)
        queue = admin.queues("t")[0]
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit_interval=0.2) as consumer:
        if is_assigned:
            consumer.assign([queue])
        else:
            consumer.subscribe("t")
        fill(namesrv, "t", "old", OLD)
        wait(lambda: len(got) == OLD, poll)
        make_anew(namesrv, "t")
        wait(lambda: len(of_new(got)) >= NEW, poll)
        assert of_new(got) == [b"new%d" % number for number in range(NEW)]
        consumer.poll(timeout=0.1)
        consumer.commit()
        assert consumer.committed(queue) == NEW


@pytest.mark.parametrize("model", [MessageModel.CLUSTERING, MessageModel.BROADCASTING])
@pytest.mark.parametrize("start_from", [FIRST, LAST])
def test_a_push_consumer_begins_anew(
    namesrv: str,
    real_broker: RealBroker,
    model: MessageModel,
    start_from: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    got: list[bytes] = []
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=1)
    directory = str(tmp_path_factory.mktemp("offsets"))
    more = {"offsets_dir": directory} if model is MessageModel.BROADCASTING else {}
    consumer = PushConsumer("g", namesrv=namesrv, start_from=start_from, commit_interval=0.2, model=model, **more)
    consumer.subscribe("t")
    consumer.on_message(lambda messages: got.extend(message.body for message in messages))
    with consumer:
        fill(namesrv, "t", "old", OLD)
        wait(lambda: len(got) == OLD)
        make_anew(namesrv, "t")
        wait(lambda: len(set(of_new(got))) >= NEW)
        assert sorted(of_new(got)) == sorted(b"new%d" % number for number in range(NEW))
