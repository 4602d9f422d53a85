"""A store that is handed over to RocketMQ: of half messages it sees those that wait, and no other."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from handover_kit import CONFIG, Life
from store_kit import StillClock, make_store, read_queue
from transaction_kit import RULES, Scene

from zenitmq.broker.group import hand_over as module
from zenitmq.broker.group.hand_over import hand_over
from zenitmq.broker.transaction.half_records import numbers_in
from zenitmq.model.handles.transaction import Resolution
from zenitmq.model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from zenitmq.record.kernel import StoredMessage
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import SEQUENCED


def make_topic(directory: Path, clock: StillClock) -> None:
    with Life(directory, clock) as life:
        life.begin()


def unnamed(scene: Scene) -> list[str]:
    """Message ids of the half messages that RocketMQ would ask about: those that no op record names."""
    named = {number for op in read_queue(scene.store, HALF_OP_TOPIC, 0) for number in numbers_in(op.body.decode())}
    return [half.message_id for half in read_queue(scene.store, HALF_TOPIC, 0) if half.queue_offset not in named]


@pytest.mark.parametrize("at_once", [1, 2, 250])
def test_what_was_decided_or_written_again_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "NAMED_AT_ONCE", at_once)
    clock = StillClock()
    make_topic(tmp_path, clock)
    with Scene(tmp_path, clock) as scene:
        _, committed, rolled_back, asked = (scene.send(message_id=f"A{number}") for number in range(4))
        scene.end(rolled_back, Resolution.ROLLBACK)
        scene.pass_ms(RULES.timeout_ms)
        scene.end(committed)
        scene.end(asked)
        assert unnamed(scene) == ["A0", "A1", "A3", "A0", "A1", "A3"], "the broker stops before it has told RocketMQ"
    hand_over(str(tmp_path), CONFIG, clock=clock)
    with Scene(tmp_path, clock) as scene:
        assert unnamed(scene) == ["A0"]
        (entry,) = scene.transactions.listed(0, 9)
        found = scene.transactions.found_at(entry)
        assert found is not None
        assert found[0].message_id == "A0"
        end = scene.store.written
    hand_over(str(tmp_path), CONFIG, clock=clock)
    with Scene(tmp_path, clock) as scene:
        assert scene.store.written == end


def copied(half: StoredMessage, topic: str = HALF_TOPIC) -> NewRecord:
    """A half message as RocketMQ writes it once more: all its properties, and that it ends nothing."""
    properties = {**half.properties, "TRANSACTION_CHECK_TIMES": "1"}
    return NewRecord(topic, 0, half.body, properties=properties, born_timestamp_ms=half.born_at_ms)


@pytest.mark.parametrize("is_told", [True, False])
def test_back_here_each_is_asked_about_once_whatever_rocketmq_did_with_it(tmp_path: Path, *, is_told: bool) -> None:
    """It asked about A1 twice, parked A2, committed A3; A4 it has not looked at; the topic of A0 was made anew.
    `is_told`: it has written down how far it came, else it was killed before."""
    clock = StillClock()
    with Scene(tmp_path, clock) as scene:
        scene.send(message_id="A0")
    make_topic(tmp_path, clock)
    with Scene(tmp_path, clock) as scene:
        for number in range(1, 5):
            scene.send(message_id=f"A{number}", PSEQ=f"p {number}")
    hand_over(str(tmp_path), CONFIG, clock=clock)
    with make_store(tmp_path, clock, segment_bytes=CONFIG.segment_bytes) as store:
        handed = {half.message_id: half for half in read_queue(store, HALF_TOPIC, 0) if half.queue_offset > 4}
        assert sorted(handed) == ["A1", "A2", "A3", "A4"], "A0 is rolled back"
        for half in handed.values():
            assert not half.sys_flag & SEQUENCED
            assert "PSEQ" not in half.properties
        for record in (copied(handed["A1"]), copied(handed["A1"]), copied(handed["A2"], UNDECIDED_TOPIC)):
            store.stage_record(record)
        decided = b"%d," % handed["A3"].queue_offset
        store.stage_record(NewRecord(HALF_OP_TOPIC, 0, decided, properties={"TAGS": "d"}))
        store.commit()
    with open(tmp_path / "checkpoint", "r+b") as file:  # as RocketMQ leaves it
        file.write(struct.pack(">5Q", *[clock.time_ms] * 3, 7, 7))
    if is_told:
        at = handed["A4"].queue_offset
        (tmp_path / "config" / "consumerOffset.json").write_text(
            json.dumps({"offsetTable": {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {"0": at}}})
        )
    with Scene(tmp_path, clock) as scene:
        for ms in (RULES.timeout_ms, RULES.interval_ms - RULES.timeout_ms, 0):
            scene.pass_ms(ms)
        assert sorted(which.message_id for _, which, _, _ in scene.asked) == ["A1", "A4"]
        found = [scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 9)]
        assert sorted((one[0].message_id, one[0].topic) for one in found if one is not None) == [
            ("A1", HALF_TOPIC),
            ("A2", UNDECIDED_TOPIC),
            ("A4", HALF_TOPIC),
        ]
