"""A store that RocketMQ has for a while: what a pop group had in hand comes once, there or back here."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from handover_kit import CONFIG
from pop_scene import Scene
from store_kit import StillClock, make_store, read_queue

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.record.kernel import StoredMessage
from zenitmq.record.new_record import NewRecord

RETRY, REVIVE = "%RETRY%g_t", "rmq_sys_REVIVE_LOG_zenit"
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


def check_point(first: int, pop_ms: int, *distances: int, topic: str = "t") -> NewRecord:
    """As RocketMQ remembers what it leases."""
    said = {"bm": 0, "c": "g", "d": distances, "n": len(distances), "pt": pop_ms, "q": 0, "so": first, "t": topic}
    return revive_record("ck", said)


def revive_record(tag: str, said: dict[str, object], topic: str = TIMER_TOPIC) -> NewRecord:
    properties = {"REAL_TOPIC": REVIVE, "REAL_QID": "0", "TAGS": tag, "TIMER_OUT_MS": "1"}
    return NewRecord(topic, 0, json.dumps(said).encode(), properties=properties)


def test_what_rocketmq_had_leased_is_available_here(tmp_path: Path) -> None:
    """Of the queue 6 and 7, of which 6 is acknowledged; of the copies 1, and 3, which is acknowledged; 8, which it has seen to
    itself; two records say nothing."""
    clock = StillClock()
    fill(tmp_path, clock)
    hand_over(str(tmp_path), CONFIG, clock=clock)
    of_queue, of_copies = (
        {"c": "g", "q": 0, "so": 6, "pt": 5, "t": "t"},
        {"c": "g", "q": 0, "so": 0, "pt": 6, "t": RETRY},
    )
    rocketmq(
        tmp_path,
        clock,
        {"t@g": {"0": 9}, f"{RETRY}@g": {"0": 2}, f"{REVIVE}@CID_RMQ_SYS_REVIVE_GROUP": {"0": 1}},
        check_point(6, 5, 0, 1),
        revive_record("ack", {**of_queue, "ao": 6}),
        check_point(0, 6, 0, 1, topic=RETRY),
        revive_record("bAck", {**of_copies, "aol": [1]}),
        check_point(8, 7, 0),
        NewRecord(REVIVE, 0, check_point(8, 7, 0).body, properties={"TAGS": "ck"}),
        revive_record("ck", {"c": "g"}),
        NewRecord(TIMER_TOPIC, 0, b"no JSON", properties={"REAL_TOPIC": REVIVE, "TAGS": "ck"}),
    )
    assert sorted(popped_here(tmp_path, clock)) == [b"1", b"4", b"7", b"9"]
    assert popped_here(tmp_path, clock) == []


def test_a_store_of_rocketmqs_has_its_leases_here(tmp_path: Path) -> None:
    clock = StillClock()
    with Scene(tmp_path, clock, **SIZES) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(4)))
        scene.turn()
    rocketmq(tmp_path, clock, {"t@g": {"0": 3}}, check_point(0, 5, 0, 2))
    (tmp_path / "config" / "popLeases.json").unlink()
    assert sorted(popped_here(tmp_path, clock)) == [b"0", b"2", b"3"]


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
