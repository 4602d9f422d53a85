"""Full disks, damaged half messages, clocks that are set: nothing is lost, nothing twice, and nobody else is held up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_kit import StillClock, rot
from transaction_kit import RULES, Scene

from zenitmq.broker.transaction.transactions import ASKED_PER_TURN
from zenitmq.model.errors import BrokerBusy, StoreNotWriteable, TransactionDecided
from zenitmq.model.handles.transaction import Resolution, TransactionState

COMMITTED, ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


class Disk:
    """Refuses what is staged while it is full, from the `good`-th record on."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.good = 1 << 30
        for name in ("stage_own", "stage_record"):
            monkeypatch.setattr(scene.store, name, self._guarded(getattr(scene.store, name)))

    def _guarded(self, stage: Any) -> Any:
        def refuse(*arguments: Any, **named: Any) -> Any:
            self.good -= 1
            if self.good < 0:
                raise StoreNotWriteable("disk full")
            return stage(*arguments, **named)

        return refuse


@pytest.mark.parametrize("good", range(5))
def test_a_disk_that_fills_while_producers_are_asked(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    """Three are due; the disk takes `good` records."""
    with Scene(tmp_path, clock) as scene:
        disk = Disk(scene, monkeypatch)
        scene.end(scene.send(message_id="A0"))
        scene.turn()
        sent = [scene.send(message_id=f"A{number}") for number in (1, 2, 3)]
        disk.good = good
        for _ in range(3):
            scene.pass_ms(RULES.timeout_ms)
        assert len(scene.asked) == min(3, good)
        for which in sent:
            with pytest.raises(StoreNotWriteable):
                scene.end(which)
        disk.good = 1 << 30
        scene.turn()
        asked = [which for _, which, _, _ in scene.asked]
        assert sorted(asked, key=lambda which: which.half_offset) == sent
        assert [scene.end(which).state for which in sent] == [COMMITTED] * 3
        assert len(scene.bodies()) == 4


def test_a_disk_that_is_full_parks_nothing_twice(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scene(tmp_path, clock) as scene:
        disk = Disk(scene, monkeypatch)
        which = scene.send()
        for _ in range(RULES.checks_max):
            scene.pass_ms(RULES.interval_ms)
        disk.good = 1  # the note for RocketMQ
        for _ in range(3):
            scene.pass_ms(RULES.interval_ms)
        assert scene.transactions.document()["parked"] == 0
        disk.good = 1 << 30
        for _ in range(3):
            scene.pass_ms(RULES.interval_ms)
        assert (scene.transactions.document()["parked"], scene.waiting) == (1, 1)
        assert scene.end(which, group=None).state is COMMITTED


def test_a_damaged_half_message_holds_up_no_other_and_is_decided_once_it_is_whole(
    tmp_path: Path, clock: StillClock
) -> None:
    with Scene(tmp_path, clock) as scene:
        which = scene.send(b"damaged", message_id="A1")
        other = scene.send(b"other", message_id="A2")
    with Scene(tmp_path, clock) as scene:
        mend = rot(scene.store, which.half_offset)
        scene.pass_ms(RULES.timeout_ms)
        assert [which for _, which, _, _ in scene.asked] == [other]
        with pytest.raises(BrokerBusy, match="damaged"):
            scene.end(which)
        assert scene.end(other).state is COMMITTED
        assert scene.transactions.document()["damaged"] == 1
        mend()
        scene.turn()
        scene.turn()
        assert [which for _, which, _, _ in scene.asked] == [other, which]
        assert scene.end(which).state is COMMITTED
        assert sorted(scene.bodies()) == [b"damaged", b"other"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_asks_once_too_early_or_an_hour_late(
    tmp_path: Path, clock: StillClock, jump_ms: int, *, is_restarted: bool
) -> None:
    scene = Scene(tmp_path, clock)
    which = scene.send()
    scene.turn()
    clock.time_ms += jump_ms
    if is_restarted:
        scene.__exit__()
        scene = Scene(tmp_path, clock)
    with scene:
        for _ in range(3):
            scene.pass_ms(50)
        assert len(scene.asked) == (1 if jump_ms > 0 else 0), "one jump counts as one question"
        if jump_ms > 0:
            clock.time_ms -= HOUR_MS
        for _ in range(HOUR_MS // RULES.interval_ms - 1):
            scene.pass_ms(RULES.interval_ms)
        assert len(scene.asked) == (1 if jump_ms > 0 else 0)
        scene.pass_ms(2 * RULES.interval_ms)
        assert len(scene.asked) == (2 if jump_ms > 0 else 1)
        assert scene.end(which).state is COMMITTED
        with pytest.raises(TransactionDecided):
            scene.end(which, Resolution.ROLLBACK)


def test_a_turn_of_the_loop_asks_about_a_few(tmp_path: Path, clock: StillClock) -> None:
    with Scene(tmp_path, clock, segment_bytes=1 << 20) as scene:
        for number in range(3 * ASKED_PER_TURN):
            scene.send(message_id=f"A{number}")
        clock.time_ms += RULES.timeout_ms
        for turn in range(1, 4):
            delay_ms, _ = scene.loop.later[0]
            assert turn == 1 or delay_ms == 0, "others have their turn, then it goes on"
            scene.turn()
            assert len(scene.asked) == turn * ASKED_PER_TURN
