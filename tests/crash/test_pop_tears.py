"""Power lost at any byte of the life of leases: pops, acknowledgements, expiries, changes, dead letters, commits of the offset.

Whatever the log has kept: what was acknowledged there never comes again, nothing is lost, and nothing that is leased there goes
out before its time. With a snapshot of any moment, or none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pop_scene import Asked, Scene
from store_kit import StillClock, kill, read_queue, tear_places

from zenitmq.model.redelivery import dead_letter_topic

COUNT = 12
STEPS = 14
SENT, DONE, GIVEN_BACK, LEASED, LEASED_LONG = "sent", "done", "given back", "leased", "leased for long"

Fact = tuple[int, str, frozenset[bytes]]
"""(end of its record in the log, what it says, of which messages)."""

LONG_MS = 600_000
SHORT_MS = 1000


class Life:
    """A scene, and what became of its messages."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.facts: list[Fact] = []

    def note(self, what: str, *bodies: bytes) -> None:
        """It was staged; the turn ends."""
        self.scene.turn()
        self.facts.append((int(self.scene.store.written), what, frozenset(bodies)))

    def pop(self, count: int, invisible_ms: int) -> Asked:
        asked = self.scene.pop(count, invisible_ms=invisible_ms)
        self.scene.turn()
        self.note(LEASED_LONG if invisible_ms == LONG_MS else LEASED, *asked.bodies)
        return asked


def handle(asked: Asked) -> str:
    return str(asked.reply.parts[0][2])


def lived(directory: Path, clock: StillClock, left: Path, persist_at: int) -> tuple[list[Fact], int, int]:
    """Every kind of life that a lease can have; and where the log ended, and the snapshot. `persist_at`: after which step it
    is written; -1 = never."""
    with Scene(directory, clock) as scene:
        life = Life(scene)
        steps = iter(range(100))

        def step() -> None:
            if next(steps) == persist_at:
                scene.clock.time_ms += 1
                scene.state.persist()

        scene.create()
        scene.allow(1)
        scene.turn()
        step()
        for number in range(COUNT):
            scene.send(b"%d" % number)
            life.note(SENT, b"%d" % number)
        step()
        first = life.pop(5, SHORT_MS)
        step()
        scene.ack((handle(first), 0b00001))
        life.note(DONE, first.bodies[0])
        step()
        longer = scene.change(handle(first), 1, LONG_MS)
        life.note(LEASED_LONG, first.bodies[1])
        step()
        scene.release((handle(first), 0b00100))
        life.note(GIVEN_BACK, first.bodies[2])
        step()
        scene.forward(handle(first), 3)
        life.note(DONE, first.bodies[3])
        step()
        scene.pass_ms(SHORT_MS + 100)  # the fifth expires, and the offset is committed
        life.note(GIVEN_BACK, first.bodies[4])
        step()
        second = life.pop(4, SHORT_MS)
        assert second.bodies == [first.bodies[2], first.bodies[4]]
        step()
        third = life.pop(2, SHORT_MS)
        scene.ack((handle(second), 0b01), (handle(third), 0b11))
        life.note(DONE, second.bodies[0], *third.bodies)
        step()
        scene.change(handle(second), 1, 0)
        life.note(GIVEN_BACK, second.bodies[1])
        step()
        scene.pop(1)  # it was handed out too often by now
        scene.turn()
        life.note(DONE, second.bodies[1])
        assert scene.leases.buried == 2
        step()
        scene.ack((longer.reply.handle, 1))
        life.note(DONE, first.bodies[1])
        step()
        last = life.pop(3, LONG_MS)
        scene.ack((handle(last), 0b010))
        life.note(DONE, last.bodies[1])
        step()
        scene.pass_ms(1100)
        step()
        kill(directory, left)
        end, reflected = int(scene.store.written), int(scene.state.reflected())
    (left / "abort").write_text("7\nanother boot\n")
    return life.facts, end, reflected


def drained(scene: Scene) -> list[bytes]:
    """All that goes out now; it is acknowledged."""
    seen: list[bytes] = []
    while True:
        asked = scene.pop(32)
        scene.turn()
        if not asked.bodies:
            return seen
        seen += asked.bodies
        for _, count, text, _ in asked.reply.parts:
            scene.ack((text, (1 << count) - 1))
        scene.turn()


def assert_goes_on(directory: Path, clock: StillClock, facts: list[Fact], place: int) -> None:
    """`facts`: of the whole life; what is before `place` is in the log, and the next one may be in part."""
    kept = [fact for fact in facts if fact[0] <= place]
    unsure = next((bodies for end, _, bodies in facts if end > place), frozenset())
    state: dict[bytes, str] = {}
    for _, what, bodies in kept:
        state.update(dict.fromkeys(bodies, what))
    sent = {body for _, what, bodies in kept if what == SENT for body in bodies}
    done = {body for body, what in state.items() if what == DONE}
    leased = {body for body, what in state.items() if what == LEASED_LONG}
    with Scene(directory, clock) as scene:
        if "t" not in scene.state.topic_table.configs:
            return
        early = drained(scene)
        scene.pass_ms(SHORT_MS + 200)
        early += drained(scene)
        clock.time_ms += LONG_MS
        scene.pass_ms(200)
        seen = early + drained(scene)
        assert len(seen) == len(set(seen))
        assert not done & set(seen)
        assert not (leased - unsure) & set(early)
        letters = {one.body for one in read_queue(scene.store, dead_letter_topic("g"), 0)}
        assert sent - done - unsure <= set(seen) | letters
        scene.pass_ms(1100)
        assert scene.state.offset_table.offset("g", "t", 0) == scene.store.max_offset("t", 0)
    with Scene(directory, clock) as scene:
        clock.time_ms += LONG_MS
        scene.pass_ms(200)
        assert drained(scene) == []


@pytest.mark.parametrize("persist_at", range(-1, STEPS, 5))
def test_power_lost_at_any_byte_of_the_life_of_leases(tmp_path: Path, persist_at: int) -> None:
    clock = StillClock()
    facts, end, reflected = lived(tmp_path / "s", clock, tmp_path / "left", persist_at)
    assert persist_at < 0 or reflected
    log = Path("commitlog") / f"{0:020d}"
    whole = (tmp_path / "left" / log).read_bytes()
    for place in tear_places(whole, 0, end):
        if place < reflected:
            continue  # a snapshot covers only what is on the disk
        torn = Path(shutil.copytree(tmp_path / "left", tmp_path / "torn"))
        (torn / log).write_bytes(whole[:place] + bytes(len(whole) - place))
        assert_goes_on(torn, StillClock(clock.time_ms), facts, place)
        shutil.rmtree(torn)
