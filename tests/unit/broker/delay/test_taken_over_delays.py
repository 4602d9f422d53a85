"""A store of ours that a broker of RocketMQ had for a while: what it delivered or took back is not delivered again."""

import struct
from pathlib import Path

import pytest
from delay_kit import Scene
from store_kit import StillClock, make_store, message, put

from zenitmq.broker.delay.timing import RECALL_BODY, recall_properties
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import encode_record
from zenitmq.record.new_record import NewRecord

DELAY_MS = 60_000


def unique(number: int) -> str:
    return f"{number:032X}"


def stage_waiting(scene: Scene, number: int) -> int:
    placed = scene.delays.stage_delayed(
        NewRecord(topic="t", queue_id=0, body=b"%d" % number, properties={"UNIQ_KEY": unique(number)}),
        deliver_at_ms=scene.clock.time_ms + DELAY_MS,
    )
    scene.store.commit()
    return placed.physical_offset


def had_by_rocketmq(directory: Path, clock: StillClock, delivered: list[int], recalled: list[int]) -> None:
    """What its broker leaves: copies and recalls that name no wait, and its own times in the checkpoint."""
    with make_store(directory, clock, segment_bytes=1 << 16) as store:
        for number in delivered:
            put(store, "t", 0, message("t", b"%d" % number, unique=unique(number)))
        for number in recalled:
            properties = encode_properties(recall_properties("t", unique(number), clock.time_ms))
            store.stage_own(
                encode_record(topic=TIMER_TOPIC.encode(), body=RECALL_BODY, properties=properties),
                topic=TIMER_TOPIC,
                queue_id=0,
                count=1,
            )
            store.commit()
    with open(directory / "checkpoint", "r+b") as file:
        file.write(struct.pack(">5Q", clock.time_ms, clock.time_ms, clock.time_ms, 7, 7))


def deliver_all(scene: Scene) -> list[bytes]:
    scene.clock.time_ms += DELAY_MS
    for _ in range(5):
        scene.turn()
    return scene.bodies()


@pytest.mark.parametrize("starts", [1, 3])
def test_what_rocketmq_delivered_or_took_back_is_over(tmp_path, starts: int) -> None:
    clock = StillClock()
    scene = Scene(tmp_path, clock)
    for number in range(6):
        stage_waiting(scene, number)
    scene.close()
    had_by_rocketmq(tmp_path, clock, delivered=[1, 4], recalled=[2])
    for _ in range(starts - 1):  # later starts know it too, though we wrote the checkpoint last
        scene = Scene(tmp_path, clock)
        assert scene.store.foreign_end > 0
        scene.close()
    scene = Scene(tmp_path, clock)
    foreign_end = scene.store.foreign_end
    stage_waiting(scene, 6)
    assert deliver_all(scene) == [b"1", b"4", b"0", b"3", b"5", b"6"]
    assert scene.delays.discarded == 3
    assert scene.store.written > foreign_end
    scene.close()
    scene = Scene(tmp_path, clock)
    assert deliver_all(scene) == [b"1", b"4", b"0", b"3", b"5", b"6"]
    scene.close()


def test_of_a_store_that_was_always_ours_no_copies_are_looked_for(tmp_path, monkeypatch) -> None:
    """It would cost a search of the key index for each message."""
    clock = StillClock()
    scene = Scene(tmp_path, clock)
    for number in range(3):
        stage_waiting(scene, number)
    scene.close()
    scene = Scene(tmp_path, clock)
    assert scene.store.foreign_end == 0
    monkeypatch.setattr(scene.store, "query", None)
    assert deliver_all(scene) == [b"0", b"1", b"2"]
    scene.close()
