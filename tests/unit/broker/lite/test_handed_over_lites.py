"""A store that RocketMQ has for a while: how far groups are in lite topics, there and back here."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from handover_kit import CONFIG
from lite_scene import PARENT, LiteScene
from store_kit import StillClock, make_store

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.broker.lite.hand_over import rocketmq_document
from zenitmq.model.topics.light_queues import lite_queue

SIZES = {"segment_bytes": CONFIG.segment_bytes}
A, B, C = (lite_queue(PARENT, name) for name in "abc")


def fill(directory: Path, clock: StillClock, **more: str) -> None:
    """Of lite topic a 0, 2 and 3 are acknowledged, 1, 4 and 5 leased; b: all are acknowledged; c: nobody had it."""
    with LiteScene(directory, clock, **SIZES) as scene:
        scene.create_parent()
        scene.settle(**more)
        scene.turn()
        scene.say("a", *(b"a%d" % number for number in range(6)))
        scene.say("b", b"b0", b"b1")
        scene.say("c", b"c0")
        scene.turn()
        scene.subscribe("a")
        popped = scene.receive(6)
        scene.turn()
        scene.ack_lite(popped, "a", 0b001101)
        scene.subscribe("b")
        popped = scene.receive()
        scene.turn()
        scene.ack_lite(popped, "b")
        scene.turn()


def light_offsets(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "config" / "lmqConsumerOffset.json").read_text())
    return found


def rocketmq(directory: Path, clock: StillClock, **tables: dict[str, Any]) -> None:
    """It had the store, and these are the offsets now."""
    with make_store(directory, clock, **SIZES):
        pass
    document = light_offsets(directory)
    del document["zenit"]
    for name, rows in tables.items():
        document[name].update(rows)
    path = directory / "config" / "lmqConsumerOffset.json"
    path.write_text(json.dumps(document))
    later = os.path.getmtime(directory / "config" / "consumerOffset.json") + 1
    os.utime(path, (later, later))
    with open(directory / "checkpoint", "r+b") as file:
        file.write(struct.pack(">5Q", *[clock.time_ms] * 3, 7, 7))


def received_here(directory: Path, clock: StillClock) -> list[bytes]:
    """All that the group gets from now on, of each lite topic in its order."""
    clock.time_ms += 3_600_000
    found: list[bytes] = []
    with LiteScene(directory, clock, **SIZES) as scene:
        scene.subscribe("a", "b", "c")
        for _ in range(6):
            scene.pass_ms(100)
            asked = scene.receive()
            scene.turn()
            found += asked.bodies
            for name in {part[0] for part in asked.reply.parts} if asked.reply is not None else ():
                scene.ack_lite(asked, name)
            scene.turn()
    return sorted(found)


def test_a_group_goes_on_at_its_first_message_that_is_not_acknowledged(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock, bind_topic=PARENT)
    document = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert (document["lite_again"], document["lite_unbound"]) == (2, [])
    assert document["broker_conf"]["enableLmq"] == "true"
    offsets = light_offsets(tmp_path)["offsetTable"]
    assert {name: offsets[f"{name}@g"] for name in (A, B, C)} == {A: {"0": 1}, B: {"0": 2}, C: {"0": 0}}
    again = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert again["log_end"] == document["log_end"], "a repetition writes nothing"


def test_a_group_that_is_not_bound_is_named(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock)
    document = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert document["lite_unbound"] == ["g"]
    assert f"{C}@g" not in light_offsets(tmp_path)["offsetTable"], "nobody knows whether it wants it"


def test_nothing_happened_there_and_here_nothing_has_changed(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock, bind_topic=PARENT)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    assert received_here(tmp_path, clock) == [b"a1", b"a4", b"a5", b"c0"]


@pytest.mark.parametrize("is_older", [False, True])
def test_what_rocketmq_handed_out_is_not_handed_out_here(tmp_path: Path, is_older: bool) -> None:
    """Its file counts where it is the newer one."""
    clock = StillClock()
    fill(tmp_path, clock, bind_topic=PARENT)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    rocketmq(tmp_path, clock, offsetTable={f"{A}@g": {0: 5}, f"{C}@g": {0: 1}}, lmqOffsetTable={f"{A}@%LMQ%x": 3})
    if is_older:
        path = tmp_path / "config" / "lmqConsumerOffset.json"
        os.utime(path, (1, 1))
    expected = [b"a1", b"a4", b"a5", b"c0"] if is_older else [b"a5"]
    assert received_here(tmp_path, clock) == expected
    with LiteScene(tmp_path, clock, **SIZES) as scene:
        assert scene.state.offset_table.offset("%LMQ%x", A, 0) == (-1 if is_older else 3)
        assert is_older or not scene.state.pop_table.has_left(("g", C, 0), 0, 1), "it may be collected"
    assert received_here(tmp_path, clock) == []


def test_without_light_queues_there_is_no_such_file(tmp_path: Path) -> None:
    clock = StillClock()
    with LiteScene(tmp_path, clock, **SIZES) as scene:
        scene.create_parent()
        scene.turn()
    document = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert "enableLmq" not in document["broker_conf"]
    assert not (tmp_path / "config" / "lmqConsumerOffset.json").exists()


def test_groups_with_the_name_of_a_light_queue_are_in_a_table_of_their_own() -> None:
    document = {"offsetTable": {"t@g": {"0": 1, "1": 2}, "%LMQ%a@%LMQ%x": {"0": 7}}, "dataVersion": {}}
    assert rocketmq_document(document) == {
        "offsetTable": {"t@g": {"0": 1, "1": 2}},
        "lmqOffsetTable": {"%LMQ%a@%LMQ%x": 7},
        "dataVersion": {},
    }
