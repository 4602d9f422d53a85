"""A store that RocketMQ has for a while: what a pop group had in hand comes once, there or back here."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from handover_kit import CONFIG
from pop_scene import Scene
from store_kit import StillClock, make_store, read_queue

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.record.kernel import StoredMessage
from zenitmq.record.new_record import NewRecord

RETRY = "%RETRY%g_t"
SIZES = {"segment_bytes": CONFIG.segment_bytes}


def fill(directory: Path, clock: StillClock) -> None:
    """Ten messages; six were popped: 0, 2 and 5 are done, 3 was given back, 1 and 4 are leased."""
    with Scene(directory, clock, **SIZES) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(10)))
        scene.turn()
        popped = scene.pop(6, start="first")
        scene.turn()
        ((_, _, handle, _),) = popped.reply.parts
        scene.ack((handle, 0b100101))
        scene.turn()
        scene.release((handle, 0b001000))
        scene.turn()


def bodies(messages: list[StoredMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def copies(directory: Path, begin: int = 0) -> list[StoredMessage]:
    with make_store(directory, **SIZES) as store:
        return [message for message in read_queue(store, RETRY, 0) if message.queue_offset >= begin]


def offsets(directory: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads((directory / "config" / "consumerOffset.json").read_text())[
        "offsetTable"
    ]
    return found


def rocketmq(directory: Path, clock: StillClock, table: dict[str, dict[str, int]], *records: NewRecord) -> None:
    """It had the store, wrote these records, and these are the group's offsets now."""
    with make_store(directory, clock, **SIZES) as store:
        for record in records:
            store.stage_record(record)
        store.commit()
    (directory / "config" / "consumerOffset.json").write_text(
        json.dumps({"offsetTable": {**offsets(directory), **table}})
    )
    with open(directory / "checkpoint", "r+b") as file:
        file.write(struct.pack(">5Q", *[clock.time_ms] * 3, 7, 7))


def popped_here(directory: Path, clock: StillClock) -> list[bytes]:
    """All that the group gets from now on."""
    clock.time_ms += 3_600_000
    with Scene(directory, clock, **SIZES) as scene:
        found = []
        for _ in range(4):
            scene.pass_ms(100)
            asked = scene.pop(32)
            scene.turn()
            found += asked.bodies
            for _, count, handle, _ in asked.reply.parts if asked.reply is not None else ():
                scene.ack((handle, (1 << count) - 1))
            scene.turn()
        return found


def test_rocketmq_gets_what_is_not_done_in_the_retry_topic_and_begins_behind_what_was_handed_out(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    fill(tmp_path, clock)
    document = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert document["popped"] == 3
    found = copies(tmp_path)
    assert bodies(found) == [1, 3, 4]
    assert [message.reconsume_times for message in found] == [1, 0, 1]
    assert all("1ST_POP_TIME" in message.properties for message in found)
    assert (offsets(tmp_path)["t@g"], offsets(tmp_path)[f"{RETRY}@g"]) == ({"0": 6}, {"0": 0})
    again = hand_over(str(tmp_path), CONFIG, clock=clock)
    assert (again["popped"], again["log_end"]) == (3, document["log_end"])


def test_back_here_what_rocketmq_consumed_is_done_and_the_rest_comes_once(tmp_path: Path) -> None:
    """It consumed 1 and 3 of the copies, but 3 failed there and came again; and two messages of the queue."""
    clock = StillClock()
    fill(tmp_path, clock)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    _, third, _ = copies(tmp_path)
    revived = NewRecord(RETRY, 0, third.body, properties=dict(third.properties))
    rocketmq(tmp_path, clock, {"t@g": {"0": 8}, f"{RETRY}@g": {"0": 2}}, revived)
    assert sorted(popped_here(tmp_path, clock)) == [b"3", b"4", b"8", b"9"]
    assert popped_here(tmp_path, clock) == []


def test_back_here_at_once_nothing_has_changed(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    assert sorted(popped_here(tmp_path, clock)) == [b"%d" % number for number in (1, 3, 4, 6, 7, 8, 9)]


def test_handed_over_once_more_only_what_is_left_comes_and_what_rocketmq_revived_stays(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    own = NewRecord(RETRY, 0, b"77", properties={"UNIQ_KEY": "A"})
    rocketmq(tmp_path, clock, {"t@g": {"0": 8}, f"{RETRY}@g": {"0": 1}}, own)
    assert sorted(popped_here(tmp_path, clock)) == [b"3", b"4", b"8", b"9"]
    for _ in range(2):
        assert hand_over(str(tmp_path), CONFIG, clock=clock)["popped"] == 0
        (begin,) = offsets(tmp_path)[f"{RETRY}@g"].values()
        assert bodies(copies(tmp_path, begin)) == [77]
        assert offsets(tmp_path)["t@g"] == {"0": 10}


def test_a_run_that_was_killed_behind_the_copies_doubles_none(tmp_path: Path) -> None:
    clock = StillClock()
    fill(tmp_path, clock)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    first = copies(tmp_path)[0]
    with make_store(tmp_path, clock, **SIZES) as store:  # copies of a run that did not write the offset
        store.stage_record(NewRecord(RETRY, 0, first.body, properties=dict(first.properties)))
        store.commit()
    hand_over(str(tmp_path), CONFIG, clock=clock)
    (begin,) = offsets(tmp_path)[f"{RETRY}@g"].values()
    assert bodies(copies(tmp_path, begin)) == [1, 3, 4]


def test_an_ordered_group_begins_at_the_first_that_is_not_done(tmp_path: Path) -> None:
    clock = StillClock()
    with Scene(tmp_path, clock, **SIZES) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(4)))
        scene.turn()
        scene.pop(2, start="first", is_ordered=True)
        scene.turn()
    assert hand_over(str(tmp_path), CONFIG, clock=clock)["popped"] == 0
    assert offsets(tmp_path)["t@g"] == {"0": 0}
    assert copies(tmp_path) == []
    rocketmq(tmp_path, clock, {"t@g": {"0": 3}})
    with Scene(tmp_path, clock, **SIZES) as scene:
        asked = scene.pop(2, is_ordered=True)
        scene.turn()
        assert asked.bodies == [b"3"]
