"""Pop on a disk without room, with damaged or expired messages, clocks that are set, and many who wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pop_scene import Asked, Scene
from store_kit import StillClock, read_queue, rot

from zenitmq.broker.pop.recent_pops import RECENT_MAX, RecentPops
from zenitmq.model.errors import StoreNotWriteable
from zenitmq.model.redelivery import dead_letter_topic
from zenitmq.remoting.commands import CancelPop

HOUR_MS = 3_600_000


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, StillClock()) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(4)))
        scene.turn()
        yield scene


def popped(scene: Scene, count: int = 32, **fields: Any) -> Asked:
    asked = scene.pop(count, **fields)
    scene.turn()
    assert asked.error is None
    return asked


def handle(asked: Asked) -> str:
    return str(asked.reply.parts[0][2])


class FullDisk:
    """Nothing can be staged inside; what fails outside is an error of the test."""

    def __init__(self, scene: Scene) -> None:
        self._store = scene.store
        self._stage = scene.store.stage_record

    def __enter__(self) -> None:
        def stage_record(*_: object, **__: object) -> None:
            raise StoreNotWriteable("no room")

        self._store.stage_record = stage_record  # type: ignore[method-assign, assignment]

    def __exit__(self, *_: object) -> None:
        self._store.stage_record = self._stage  # type: ignore[method-assign]


@pytest.mark.parametrize("act", ["pop", "ack", "release", "change", "visible at once", "forward"])
def test_on_a_full_disk_each_request_fails_and_changes_nothing(scene: Scene, act: str) -> None:
    asked = popped(scene, 2)
    text = handle(asked)
    with FullDisk(scene):
        late = {
            "pop": lambda: scene.pop(2),
            "ack": lambda: scene.ack((text, 0b11)),
            "release": lambda: scene.release((text, 0b11)),
            "change": lambda: scene.change(text, 0, 5000),
            "visible at once": lambda: scene.change(text, 0, 0),
            "forward": lambda: scene.forward(text, 0),
        }[act]()
        scene.turn()
        assert isinstance(late.error, StoreNotWriteable)
    acked = scene.ack((text, 0b11))
    scene.turn()
    assert acked.reply.rows == ((0, ""),)
    assert popped(scene).bodies == [b"2", b"3"]


def test_on_a_full_disk_the_first_pop_of_a_group_fails_and_the_next_one_begins_where_it_should(scene: Scene) -> None:
    with FullDisk(scene):
        late = scene.pop(2)
        scene.turn()
        assert isinstance(late.error, StoreNotWriteable)
    assert popped(scene, 2).bodies == [b"0", b"1"]


def test_leases_that_end_on_a_full_disk_end_once_there_is_room(scene: Scene) -> None:
    scene.registry.living.add("c")
    popped(scene, 2, invisible_ms=1000)
    renewed = popped(scene, 2, invisible_ms=1000, renews=True, client_id="c")
    with FullDisk(scene):
        scene.pass_ms(3000)
    scene.pass_ms(200)
    assert scene.leases.renewed == 1
    assert popped(scene).bodies == [b"0", b"1"]
    scene.registry.living.clear()
    scene.pass_ms(2000)
    assert popped(scene).bodies == renewed.bodies


def test_a_dead_letter_that_finds_no_room_is_written_later(scene: Scene) -> None:
    scene.allow(0)
    scene.turn()
    scene.change(handle(popped(scene, 1)), 0, 0)
    scene.turn()
    scene.pop(1)
    scene.turn(works=False)
    with FullDisk(scene):
        scene.turn()
    assert not scene.leases.buried
    assert popped(scene).bodies == [b"2", b"3"]
    scene.pop(1)
    scene.turn()
    assert scene.leases.buried == 1
    assert [one.body for one in read_queue(scene.store, dead_letter_topic("g"), 0)] == [b"0"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_wall_clock_that_is_set_ends_no_lease_and_keeps_none(
    scene: Scene, jump_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    popped(scene, 2, invisible_ms=1000)
    monkeypatch.setattr(scene.clock, "now_ms", lambda: scene.clock.time_ms + jump_ms)
    scene.pass_ms(900)
    assert popped(scene, 2, invisible_ms=60_000).bodies == [b"2", b"3"]
    scene.pass_ms(200)
    again = popped(scene)
    assert again.bodies == [b"0", b"1"]
    acked = scene.ack((handle(again), 0b11))
    scene.turn()
    assert acked.reply.rows == ((0, ""),)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_names_differ_though_the_clock_is_set_back(scene: Scene, jump_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for step_ms in (0, jump_ms, 0):
        monkeypatch.setattr(scene.clock, "now_ms", lambda step_ms=step_ms: scene.clock.time_ms + step_ms)
        asked = popped(scene, 1)
        texts.append(handle(asked))
        scene.release((handle(asked), 1))
        scene.turn()
    assert len(set(texts)) == 3


def test_a_damaged_message_that_was_handed_out_holds_up_no_other(tmp_path: Path) -> None:
    with Scene(tmp_path, StillClock(), segment_bytes=4096) as scene:
        scene.create()
        scene.turn()
        for number in range(4):
            scene.send(b"%d" % number)
            scene.turn()
        first = popped(scene)
        at = scene.store.position_of("t", 0, 1)  # type: ignore[arg-type]
        assert at is not None
        scene.change(handle(first), 1, 0)
        scene.change(handle(first), 3, 0)
        scene.turn()
        rot(scene.store, at)
        seen: list[bytes] = []
        for _ in range(4):
            asked = scene.pop(wait_ms=200)
            scene.pass_ms(300)
            seen += asked.bodies
        assert b"3" in seen
        assert b"1" not in seen


def test_a_search_that_finds_nothing_holds_up_nobody(scene: Scene) -> None:
    for start in range(0, 3000, 50):
        scene.send(*(b"%d" % number for number in range(start, start + 50)), tags="a")
        scene.turn()
    vain = [scene.pop(group=f"s{number}", sql="TAGS = 'b'", wait_ms=60_000) for number in range(20)]
    other = scene.pop(group="h", tag_codes=())
    scene.turn()
    assert other.bodies
    scene.pass_ms(2000)
    assert not any(one.is_answered for one in vain)
    scene.send(b"found", tags="b")
    scene.turn()
    scene.pass_ms(500)
    assert [one.bodies for one in vain] == [[b"found"]] * 20


def test_many_groups_that_wait_are_served_in_turn(scene: Scene) -> None:
    """A look at all of them takes long: the loop does other things in between."""
    groups = [f"w{number}" for number in range(300)]
    for group in groups:
        popped(scene, group=group)
    waiting = [scene.pop(group=group, wait_ms=60_000) for group in groups for _ in range(2)]
    scene.turn()
    scene.send(b"next")
    for _ in range(100):
        scene.turn()
    assert [one.bodies for one in waiting[::2]] == [[b"next"]] * 300
    assert not any(one.is_answered for one in waiting[1::2])


def test_a_waiting_pop_is_cancelled_by_its_name_alone(scene: Scene) -> None:
    popped(scene)
    waiting = [scene.pop(wait_ms=60_000, client_id="c", pop_id=number) for number in (0, 1, 2)]
    for name in (("g", "c", 0), ("g", "d", 1), ("h", "c", 1), ("g", "c", 2), ("g", "c", 2)):
        scene.ask(CancelPop(*name))
    assert [one.is_answered for one in waiting] == [False, False, True]
    scene.send(b"next")
    scene.turn()
    assert waiting[0].bodies == [b"next"]
    scene.pass_ms(60_000)
    assert waiting[1].bodies == []
    assert waiting[1].is_answered
    assert scene.pops.document()["waiting"] == 0


def test_what_went_out_for_a_pop_that_is_cancelled_goes_to_others(scene: Scene) -> None:
    """Its answer reached nobody, so that was no attempt; what was acknowledged stays so."""
    lost = popped(scene, 3, client_id="c", pop_id=1)
    scene.ack((handle(lost), 0b010))
    scene.turn()
    for name in (("g", "d", 1), ("h", "c", 1), ("g", "c", 2), ("g", "c", 1), ("g", "c", 1)):
        scene.ask(CancelPop(*name))
    scene.turn()
    again = popped(scene, client_id="d", pop_id=2)
    assert again.bodies == [b"0", b"2"]
    assert not any(attempts for part in again.reply.parts for attempts in part[3])


def test_a_pop_that_comes_behind_its_cancelling_takes_nothing(scene: Scene) -> None:
    """They may come by two connections."""
    popped(scene, 1)
    scene.ask(CancelPop("g", "c", 7))
    late = popped(scene, client_id="c", pop_id=7)
    assert late.is_answered
    assert late.bodies == []
    assert popped(scene, client_id="c", pop_id=8).bodies == [b"1", b"2", b"3"]


def test_only_so_many_pops_are_remembered() -> None:
    recent = RecentPops()
    for number in range(RECENT_MAX + 1):
        recent.on_answered(("g", "c", number), "t", [(0, (number, 1))])
    assert recent.take(("g", "c", 0)) is None
    assert recent.take(("g", "c", 2)) == ("t", [(0, (2, 1))])
    assert recent.is_cancelled(("g", "c", 0))
    assert not recent.is_cancelled(("g", "c", 0))
