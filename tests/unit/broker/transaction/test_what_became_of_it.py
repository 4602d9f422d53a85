"""What a transaction's end is answered: what became of that transaction, whatever else happened meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_kit import StillClock, read_queue, unpack_golden
from transaction_kit import BROKER, RULES, Scene

from zenitmq.broker.transaction import transactions
from zenitmq.model.errors import MessageIllegal, TransactionDecided, TransactionNotFound
from zenitmq.model.handles.transaction import Resolution, TransactionId, TransactionState
from zenitmq.model.names import HALF_TOPIC
from zenitmq.record.kernel import StoredMessage
from zenitmq.record.sys_flag import TRANSACTION_COMMIT
from zenitmq.store.message_store import Placed

COMMITTED, ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK
OPENED_MS = 1_795_250_000_000


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def test_one_that_is_asked_about_while_it_is_looked_for_was_not_rolled_back(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.pass_ms(RULES.timeout_ms)
        traces = scene.transactions.find(which)
        scene.pass_ms(RULES.interval_ms)
        assert scene.transactions.decide_found(which, Resolution.COMMIT, "g", traces).state is COMMITTED
        scene.store.commit()
        assert (scene.bodies(), scene.waiting) == ([b"pay"], 0)


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_one_that_cannot_be_written_again_is_decided_all_the_same(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch, resolution: Resolution
) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()

        def refuses(_: bytes, **where: Any) -> Placed:
            raise MessageIllegal("larger than a record may be")

        with monkeypatch.context() as patched:
            patched.setattr(scene.store, "stage_own", refuses)
            scene.pass_ms(RULES.timeout_ms)
        assert scene.asked == []
        state = COMMITTED if resolution is Resolution.COMMIT else ROLLED_BACK
        assert scene.end(which, resolution).state is state
        assert scene.bodies() == ([b"pay"] if state is COMMITTED else [])
    with Scene(tmp_path, clock) as scene:
        assert scene.waiting == 0
        assert scene.end(which, resolution).state is state


def test_a_decided_one_is_known_by_its_whole_name(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send()
        scene.end(which)
        with pytest.raises(TransactionNotFound):
            scene.end(TransactionId(BROKER, "u", which.half_offset, which.message_id))


def test_two_of_one_message_id_are_two(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock) as scene:
        one, two = scene.send(b"one"), scene.send(b"two")
        scene.end(one)
        scene.end(two, Resolution.ROLLBACK)
    with Scene(tmp_path, clock) as scene:
        assert scene.end(one).state is COMMITTED
        assert scene.end(two, Resolution.ROLLBACK).state is ROLLED_BACK


def names_of(scene: Scene, *, topic: str = "payments") -> dict[str, TransactionId]:
    """{message id: which} of RocketMQ's half messages, decided or not: the first record of each."""
    names: dict[str, TransactionId] = {}
    for message in halves(scene):
        names.setdefault(message.message_id, TransactionId(BROKER, topic, message.physical_offset, message.message_id))
    return names


def halves(scene: Scene) -> list[StoredMessage]:
    return read_queue(scene.store, HALF_TOPIC, 0)


def test_what_rocketmq_committed_is_committed(tmp_path: Path) -> None:
    with Scene(unpack_golden("file-clean", tmp_path), StillClock(OPENED_MS)) as scene:
        scene.queues["payments"] = 2
        names = names_of(scene)
        read = [message for queue_id in range(2) for message in read_queue(scene.store, "payments", queue_id)]
        committed = [m for m in read if m.sys_flag & TRANSACTION_COMMIT]
        assert committed
        for message in committed:
            outcome = scene.end(names[message.message_id])
            assert (outcome.state, outcome.physical_offset) == (COMMITTED, message.physical_offset)
            with pytest.raises(TransactionDecided, match="committed"):
                scene.end(names[message.message_id], Resolution.ROLLBACK)


def test_what_rocketmq_had_decided_is_ended_step_by_step_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FOREIGN_AT_ONCE", 1)
    with Scene(unpack_golden("file-clean", tmp_path), StillClock(OPENED_MS)) as scene:
        scene.queues["payments"] = 2
        kept, *ended = [scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 99)]
        assert kept is not None
        assert len(ended) == 2
        scene.halves.foreign_ends = {(one[0].queue_id, one[0].queue_offset) for one in ended if one is not None}
        assert [scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 99)][1:] == [None, None]
        last = ended[1][0]  # type: ignore[index]
        with pytest.raises(TransactionDecided, match="rolled back"):
            scene.end(TransactionId(BROKER, "payments", last.physical_offset, last.message_id))
        waits = []
        while scene.halves.foreign_ends:
            scene.turn()
            assert scene.asked == []
            waits.append(scene.waiting)
        assert waits == [2, 1, 1]
        scene.turn()
        assert [which.message_id for _, which, _, _ in scene.asked] == [kept[0].message_id]


def test_a_message_id_may_be_any_text(tmp_path: Path, clock: StillClock) -> None:
    """One with blanks, or of a sender that gave it none, could not be decided by anybody."""
    with Scene(tmp_path, clock) as scene:
        for message_id in ("an id with blanks", "\u00e9\u4e16" * 50, ""):
            which = scene.send(message_id=message_id)
            named = TransactionId.parse(which.encode())
            assert named == which
            assert scene.end(named).state is COMMITTED
