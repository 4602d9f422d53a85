"""What a broadcasting member kept is of one cluster and its topics: in another cluster, or a store begun anew, nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from integration.client.conftest import TOPIC
from integration.client.real_broker import RealBroker

from zenitmq import BROADCASTING, FIRST, Admin, Message, Producer, PushConsumer, StoredMessage


def handled(namesrv: str, offsets_dir: Path, count: int) -> list[bytes]:
    """What a member is given, until it has as many."""
    seen: list[bytes] = []
    all_there = threading.Event()

    def handle(messages: list[StoredMessage]) -> None:
        seen.extend(message.body for message in messages)
        if len(seen) >= count:
            all_there.set()

    consumer = PushConsumer("g", namesrv=namesrv, model=BROADCASTING, start_from=FIRST, offsets_dir=str(offsets_dir))
    consumer.subscribe(TOPIC)
    consumer.on_message(handle)
    with consumer:
        assert all_there.wait(20), seen
    return seen


def live(namesrv: str, directory: Path, offsets_dir: Path, cluster_id: str, text: bytes) -> list[bytes]:
    """A cluster from its beginning to its end: what a member was given of three messages."""
    broker = RealBroker(namesrv, directory, cluster_id=cluster_id)
    try:
        with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
            admin.create_topic(TOPIC, queues=1)
            for number in range(3):
                producer.send(Message(TOPIC, b"%s %d" % (text, number)))
            return handled(namesrv, offsets_dir, 3)
    finally:
        broker.stop()


@pytest.mark.parametrize("second_id", ["second", "first"], ids=["another cluster", "a store begun anew"])
def test_offsets_of_what_was_there_before_skip_nothing(namesrv: str, tmp_path: Path, second_id: str) -> None:
    """The topic's record lies in the same place of both logs."""
    for directory, cluster_id in (("one", "first"), ("two", second_id)):
        given = live(namesrv, tmp_path / directory, tmp_path / "offsets", cluster_id, directory.encode())
        assert given == [b"%s %d" % (directory.encode(), number) for number in range(3)]
