"""Half messages: decided once, found again, asked about, parked, carried, and the same after each start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_kit import StillClock, read_queue
from transaction_kit import BROKER, RULES, Scene

from zenitmq.broker.transaction.half_rules import NEVER_MS
from zenitmq.model.errors import (
    BrokerBusy,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    TopicNotFound,
    TransactionDecided,
    TransactionNotFound,
)
from zenitmq.model.handles.transaction import Resolution, TransactionId, TransactionState
from zenitmq.model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from zenitmq.store.message_store import Placed

COMMITTED, ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def test_nobody_sees_a_half_message_until_it_is_committed(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send(own="o")
        assert scene.bodies() == []
        outcome = scene.end(which)
        assert (outcome.state, outcome.queue_id, outcome.queue_offset) == (COMMITTED, 2, 0)
        (message,) = read_queue(scene.store, "t", 2)
        assert message.body == b"pay"
        assert message.message_id == "A1"
        assert message.properties == {"UNIQ_KEY": "A1", "own": "o", "PGROUP": "g"}
        assert message.physical_offset == outcome.physical_offset
        assert scene.waiting == 0


def test_a_rollback_shows_nobody_anything(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        assert scene.end(which, Resolution.ROLLBACK).state is ROLLED_BACK
        assert (scene.bodies(), scene.waiting) == ([], 0)
        assert [op.body for op in read_queue(scene.store, HALF_OP_TOPIC, 0)] == [b"0,"]


@pytest.mark.parametrize("first", [Resolution.COMMIT, Resolution.ROLLBACK])
@pytest.mark.parametrize("is_started_anew", [False, True])
def test_a_repeated_end_does_nothing_and_says_what_became_of_it(
    tmp_path: Path, clock: StillClock, first: Resolution, *, is_started_anew: bool
) -> None:
    other = Resolution.ROLLBACK if first is Resolution.COMMIT else Resolution.COMMIT
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        told = scene.end(which, first)
        written = scene.store.written
        if not is_started_anew:
            assert scene.end(which, first) == told
            with pytest.raises(TransactionDecided, match=told.state.value):
                scene.end(which, other)
            assert scene.store.written == written
    with Scene(tmp_path, clock) as scene:
        again = scene.end(which, first)
        assert (again.state, again.queue_id, again.physical_offset) == (told.state, told.queue_id, told.physical_offset)
        with pytest.raises(TransactionDecided, match=told.state.value):
            scene.end(which, other)
        assert scene.store.written == written


def test_within_one_turn_it_is_decided_once(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        one = scene.transactions.decide(which, Resolution.COMMIT, "g", hint=-1)
        two = scene.transactions.decide(which, Resolution.COMMIT, "g", hint=which.half_offset)
        assert one == two
        scene.store.commit()
        assert scene.bodies() == [b"pay"]


def test_each_end_acts_on_its_own_transaction_only(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        one, two = scene.send(message_id="A1"), scene.send(message_id="A2")
        for wrong, error in (
            (TransactionId(BROKER, "t", one.half_offset, "A2"), TransactionNotFound),
            (TransactionId(BROKER, "u", one.half_offset, "A1"), TransactionNotFound),
            (TransactionId(BROKER, "t", one.half_offset + 1, "A1"), TransactionNotFound),
            (TransactionId(BROKER, "t", 1 << 40, "A1"), TransactionNotFound),
            (TransactionId("broker-b", "t", one.half_offset, "A1"), InvalidParameter),
        ):
            with pytest.raises(error):
                scene.end(wrong)
        with pytest.raises(TransactionNotFound):
            scene.end(TransactionId(BROKER, "t", 1 << 40, "A9"), hint=two.half_offset)
        with pytest.raises(InvalidParameter, match="group"):
            scene.end(one, group="other")
        assert scene.waiting == 2
        scene.end(two)
        assert scene.waiting == 1


def test_who_is_silent_is_asked_then_asked_again_then_it_is_parked(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.pass_ms(RULES.timeout_ms - 1)
        assert scene.asked == []
        scene.pass_ms(1)
        (asked,) = scene.asked
        assert asked[:2] == ("g", which), "it keeps its name though it is written again"
        assert asked[2] > which.half_offset
        assert asked[3] == b"pay"
        for count in range(2, RULES.checks_max + 1):
            scene.pass_ms(RULES.interval_ms - 1)
            scene.pass_ms(1)
            assert len(scene.asked) == count
        scene.pass_ms(RULES.interval_ms)
        assert len(scene.asked) == RULES.checks_max
        assert scene.transactions.document()["parked"] == 1
        ((due_ms, _),) = scene.transactions.listed(0, 9)
        assert due_ms == NEVER_MS
        with pytest.raises(TransactionDecided, match="parked"):
            scene.end(which)
        assert scene.bodies() == []
        assert scene.end(which, group=None).state is COMMITTED, "an operator may"
        assert (scene.bodies(), scene.waiting) == ([b"pay"], 0)
        assert scene.end(which).state is COMMITTED


@pytest.mark.parametrize("is_hinted", [False, True])
def test_an_answer_counts_wherever_its_half_message_is_by_now(
    tmp_path: Path, clock: StillClock, *, is_hinted: bool
) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.pass_ms(RULES.timeout_ms)
        scene.pass_ms(RULES.interval_ms)
        hint = scene.asked[-1][2] if is_hinted else -1
        assert scene.end(which, hint=hint).state is COMMITTED
        assert scene.end(which, hint=scene.asked[0][2]).state is COMMITTED, "an answer to the question before"
        assert (scene.bodies(), scene.waiting) == ([b"pay"], 0)


def test_a_message_says_itself_how_long_it_is_left_alone(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        scene.send(CHECK_IMMUNITY_TIME_IN_SECONDS="20")
        scene.pass_ms(19_999)
        assert scene.asked == []
        scene.pass_ms(1)
        assert len(scene.asked) == 1


def test_a_start_finds_what_is_not_decided_and_how_often_it_was_asked_about(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        one, two = scene.send(message_id="A1"), scene.send(message_id="A2")
        scene.pass_ms(RULES.timeout_ms)
        scene.end(two)
    with Scene(tmp_path, clock) as scene:
        assert scene.waiting == 1
        for _ in range(RULES.checks_max):
            scene.pass_ms(RULES.interval_ms)
        assert len(scene.asked) == RULES.checks_max - 1
        with pytest.raises(TransactionDecided, match="parked"):
            scene.end(one)


def test_who_has_just_begun_to_lead_waits_until_producers_have_come_back(tmp_path: Path, clock: StillClock) -> None:
    """It asked at once, which nobody heard, and again after half a minute."""
    with Scene(tmp_path, clock) as scene:
        scene.send()
    clock.time_ms += RULES.timeout_ms
    with Scene(tmp_path, clock, settle_ms=2000) as scene:
        for ms in (0, 1999):
            scene.pass_ms(ms)
            assert scene.asked == []
        scene.pass_ms(1)
        assert len(scene.asked) == 1
        scene.transactions.on_deposed()
        for ms in (RULES.interval_ms, 1999):
            scene.pass_ms(ms)
            assert len(scene.asked) == 1
        scene.pass_ms(1)
        assert len(scene.asked) == 2


def test_who_does_not_lead_asks_nobody(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        scene.send()
        scene.leads = False
        scene.pass_ms(RULES.timeout_ms)
        assert scene.asked == []
        scene.leads = True
        scene.turn()
        assert len(scene.asked) == 1


def test_what_a_topic_that_is_gone_would_get_is_rolled_back(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        del scene.queues["t"]
        with pytest.raises(TopicNotFound):
            scene.end(which)
        scene.pass_ms(RULES.timeout_ms)
        assert (scene.asked, scene.waiting) == ([], 0)
        scene.queues["t"], scene.made_at["t"] = 1, scene.store.written
        assert scene.end(which, Resolution.ROLLBACK).state is ROLLED_BACK


def test_a_topic_made_anew_does_not_get_the_messages_of_the_old_one(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.made_at["t"] = scene.store.written
        with pytest.raises(TopicNotFound):
            scene.end(which)


def test_a_topic_with_fewer_queues_takes_it_in_another(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send(queue_id=3)
        scene.queues["t"] = 2
        assert scene.end(which).queue_id == 1


def test_retention_waits_until_it_is_written_again_at_the_end(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        kept, parked, over = (scene.send(message_id=name) for name in ("A1", "A2", "A3"))
        scene.end(over)
        limit = scene.store.written
        scene.index.persist()
        assert not scene.transactions.clear_below(limit)
        scene.turn()
        scene.index.persist()
        scene.turn()
        assert scene.transactions.clear_below(limit)
        assert all(offset >= limit for _, offset in scene.transactions.listed(0, 9))
        scene.pass_ms(RULES.timeout_ms)
        assert sorted(which.message_id for _, which, _, _ in scene.asked) == ["A1", "A2"]
        assert scene.end(kept).state is COMMITTED
        assert scene.end(parked, Resolution.ROLLBACK).state is ROLLED_BACK
        assert scene.waiting == 0


def test_commits_are_noted_for_rocketmq(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        for number in range(3):
            scene.end(scene.send(message_id=f"A{number}"))
        scene.turn()
        scene.pass_ms(3000)
        assert [op.body for op in read_queue(scene.store, HALF_OP_TOPIC, 0)] == [b"0,1,2,"]
        scene.pass_ms(3000)
        assert len(read_queue(scene.store, HALF_OP_TOPIC, 0)) == 1
    with Scene(tmp_path, clock) as scene:
        assert not scene.halves.foreign_ends
        assert len(read_queue(scene.store, HALF_TOPIC, 0)) == 3
        assert read_queue(scene.store, UNDECIDED_TOPIC, 0) == []


def test_what_is_written_again_is_noted_for_rocketmq(tmp_path: Path, clock: StillClock) -> None:
    """It would ask about each of its records, and commit each."""
    with Scene(tmp_path, clock) as scene:
        which, other, over = (scene.send(message_id=f"A{number}") for number in range(3))
        scene.pass_ms(RULES.timeout_ms)
        scene.end(over)
        scene.index.persist()
        scene.transactions.clear_below(scene.store.written)
        scene.turn()
        for _ in range(RULES.checks_max):
            scene.pass_ms(RULES.interval_ms)
        scene.end(which, group=None)
        scene.end(other, Resolution.ROLLBACK, group=None)
        scene.send(message_id="A9")
        scene.pass_ms(RULES.timeout_ms - 1)
        ops = b"".join(op.body for op in read_queue(scene.store, HALF_OP_TOPIC, 0))
        told = sorted(int(number) for number in ops.split(b",") if number)
        halves = [half.queue_offset for half in read_queue(scene.store, HALF_TOPIC, 0)]
        assert told == halves[:-1], "the one that waits is the last"


def test_who_was_deposed_does_not_believe_what_it_staged(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        told = scene.end(which)
        scene.transactions.on_deposed()
        assert scene.transactions.decide(which, Resolution.COMMIT, "g", hint=-1) is None, "the log is asked"
        assert scene.end(which).physical_offset == told.physical_offset


def test_what_is_not_confirmed_yet_is_neither_decided_nor_forgotten(tmp_path: Path, clock: StillClock) -> None:
    """Found by the bank: an answer that came before the record it was about was confirmed made the master forget it."""
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.store.confirm(scene.store.written)
        scene.pass_ms(RULES.timeout_ms)
        hint = scene.asked[0][2]
        assert hint >= scene.store.confirm_offset
        with pytest.raises(BrokerBusy, match="not confirmed yet"):
            scene.end(which, hint=hint)
        assert scene.waiting == 1
        scene.store.confirm(scene.store.written)
        assert scene.end(which, hint=hint).state is COMMITTED


def test_what_is_stored_can_be_asked_about_however_large_its_properties_are(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock, segment_bytes=1 << 18) as scene:
        size = 32_767
        while True:
            try:
                which = scene.send(large="x" * size)
                break
            except MessageTooLarge:
                size -= 1
        for count in range(1, RULES.checks_max + 1):
            scene.pass_ms(RULES.interval_ms)
            assert len(scene.asked) == count
        scene.pass_ms(RULES.interval_ms)
        assert scene.transactions.document()["parked"] == 1
        assert scene.end(which, group=None).state is COMMITTED


def test_commits_without_a_pause_are_noted_together_too(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        scene.turn()
        for number in range(40):
            scene.end(scene.send(message_id=f"A{number}"))
            scene.pass_ms(100)
        notes = [op.body for op in read_queue(scene.store, HALF_OP_TOPIC, 0)]
        assert len(notes) == 1
        assert len(notes[0].split(b",")) >= 30


def test_one_that_cannot_be_written_again_does_not_hold_up_the_others(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record just under a limit outgrows it by what is noted in it."""
    with Scene(tmp_path, clock) as scene:
        scene.send(b"first", message_id="A1")
        clock.time_ms += 1
        scene.send(b"other", message_id="A2")
        stage_own = scene.store.stage_own

        def refuses_first(records: bytes, **where: Any) -> Placed:
            if b"first" in records:
                raise MessageIllegal("larger than a record may be")
            return stage_own(records, **where)

        monkeypatch.setattr(scene.store, "stage_own", refuses_first)
        scene.pass_ms(RULES.timeout_ms)
        scene.turn()
        assert [body for *_, body in scene.asked] == [b"other"]
