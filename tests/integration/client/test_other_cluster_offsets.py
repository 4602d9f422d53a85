"""A broadcasting member's file is of one cluster: in another one at the same addresses it begins as if it had none."""

from __future__ import annotations

import threading
from pathlib import Path

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


def live(namesrv: str, directory: Path, offsets_dir: Path, cluster_id: str) -> tuple[int, list[bytes]]:
    """A cluster from its beginning to its end: (its topic's incarnation, what a member was given of three messages)."""
    broker = RealBroker(namesrv, directory, cluster_id=cluster_id)
    try:
        with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
            admin.create_topic(TOPIC, queues=1)
            for number in range(3):
                producer.send(Message(TOPIC, b"%s %d" % (cluster_id.encode(), number)))
            seen = handled(namesrv, offsets_dir, 3)
            return admin.queues(TOPIC)[0].incarnation, seen
    finally:
        broker.stop()


def test_another_clusters_offsets_skip_nothing(namesrv: str, tmp_path: Path) -> None:
    made_at, first = live(namesrv, tmp_path / "first", tmp_path / "offsets", "first")
    made_at_again, second = live(namesrv, tmp_path / "second", tmp_path / "offsets", "second")
    assert made_at == made_at_again, "the same was done in both: else this shows nothing"
    assert first == [b"first 0", b"first 1", b"first 2"]
    assert second == [b"second 0", b"second 1", b"second 2"]
