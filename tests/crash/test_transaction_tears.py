"""Power lost at any byte of a transaction's life: between the half message and its decision, while it is asked about, parked,
carried on. Whatever the log has kept, each transaction is decided once, and says afterwards how."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from store_kit import StillClock, kill, tear_places
from transaction_kit import RULES, Scene

from zenitmq.model.errors import TransactionDecided, TransactionNotFound
from zenitmq.model.handles.transaction import Resolution, TransactionId, TransactionState

Story = dict[bytes, TransactionId]

ROLLED_BACK = b"rolled back"


def lived(directory: Path, clock: StillClock, left: Path, *, is_ahead: bool) -> tuple[Story, int]:
    """Every kind of life that a transaction can have; returns their names by body, and where the log ended. `is_ahead`: the
    index knows all of it, else nothing."""
    with Scene(directory, clock) as scene:
        scene.index.on_opened(lambda: scene.store.written if is_ahead else 0)
        story: Story = {}

        def begin(body: bytes) -> TransactionId:
            which = story[body] = scene.send(body, message_id=f"A{len(story)}")
            return which

        scene.end(begin(b"committed"))
        scene.end(begin(ROLLED_BACK), Resolution.ROLLBACK)
        asked, decided_when_parked, _ = (begin(body) for body in (b"asked", b"decided when parked", b"parked"))
        scene.pass_ms(RULES.timeout_ms)
        scene.end(asked, hint=next(hint for _, which, hint, _ in scene.asked if which == asked))
        for _ in range(RULES.checks_max):
            scene.pass_ms(RULES.interval_ms)
        assert scene.transactions.document()["parked"] == 2
        scene.end(decided_when_parked, group=None)
        begin(b"pending")
        scene.pass_ms(RULES.timeout_ms)
        if is_ahead:
            scene.index.persist()
            scene.transactions.clear_below(scene.store.written)
            scene.turn()  # all that waits is carried to the end of the log
            scene.index.persist()
        kill(directory, left)
        end = int(scene.store.written)
    (left / "halves" / "LOCK").unlink()
    (left / "abort").write_text("7\nanother boot\n")
    return story, end


def assert_each_is_decided_once(directory: Path, clock: StillClock, story: Story, log: bytes, place: int) -> None:
    """Goes on in this store, twice: everything is committed that can be."""
    kept = [body for body, which in story.items() if record_end(log, which.half_offset) <= place]
    for _ in range(2):
        with Scene(directory, clock) as scene:
            scene.turn()
            states = {}
            for body, which in story.items():
                with suppress(TransactionNotFound):
                    try:
                        states[body] = scene.end(which, group=None).state
                    except TransactionDecided as error:
                        states[body] = TransactionState(error.state)
            assert list(states) == kept
            lost = [body for body, state in states.items() if state is not TransactionState.COMMITTED]
            assert lost in ([], [ROLLED_BACK])
            assert sorted(scene.bodies()) == sorted(set(kept) - set(lost))
            assert scene.waiting == 0


def record_end(log: bytes, at: int) -> int:
    return at + int.from_bytes(log[at : at + 4], "big")


@pytest.mark.parametrize("is_ahead", [False, True], ids=["behind", "ahead"])
def test_power_lost_at_any_byte_of_a_transactions_life(tmp_path: Path, *, is_ahead: bool) -> None:
    clock = StillClock()
    story, end = lived(tmp_path / "s", clock, tmp_path / "left", is_ahead=is_ahead)
    log = Path("commitlog") / f"{0:020d}"
    whole = (tmp_path / "left" / log).read_bytes()
    for place in tear_places(whole, 0, end):
        torn = Path(shutil.copytree(tmp_path / "left", tmp_path / "torn"))
        (torn / log).write_bytes(whole[:place] + bytes(len(whole) - place))
        assert_each_is_decided_once(torn, StillClock(clock.time_ms), story, whole, place)
        shutil.rmtree(torn)
