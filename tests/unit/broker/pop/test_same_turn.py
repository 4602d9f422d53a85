"""Requests, expiries and an operator's acts on the same messages, staged in one turn of the loop: nothing has been applied
when the next one is looked at. Each message goes out to one receiver at a time, and none is skipped or lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pop_scene import Asked, Scene
from store_kit import StillClock

from zenitmq.model.errors import LeaseExpired

SHORT_MS = 1000


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, StillClock()) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(4)))
        scene.turn()
        yield scene


def popped(scene: Scene, count: int = 32, **fields: object) -> Asked:
    asked = scene.pop(count, **fields)  # type: ignore[arg-type]
    scene.turn()
    assert asked.error is None
    return asked


def handle(asked: Asked) -> str:
    return str(asked.reply.parts[0][2])


def codes(asked: Asked) -> list[int]:
    return [code for code, _ in asked.reply.rows]


def test_two_pops_of_one_turn_get_different_messages(scene: Scene) -> None:
    first, second = scene.pop(3), scene.pop(3, wait_ms=1000)
    scene.turn()
    assert (first.bodies, second.bodies) == ([b"0", b"1", b"2"], [b"3"])


def test_what_is_acknowledged_in_the_turn_in_which_it_expires_is_done(scene: Scene) -> None:
    asked = popped(scene, invisible_ms=SHORT_MS)
    scene.clock.time_ms += SHORT_MS + 50
    acked = scene.ack((handle(asked), 0b0101))
    scene.leases.on_tick(scene.clock.time_ms)
    scene.turn()
    assert codes(acked) == [0]
    assert popped(scene).bodies == [b"1", b"3"]


def test_what_expires_in_the_turn_in_which_it_is_acknowledged_later_is_refused(scene: Scene) -> None:
    asked = popped(scene, invisible_ms=SHORT_MS)
    scene.clock.time_ms += SHORT_MS + 50
    scene.leases.on_tick(scene.clock.time_ms)
    acked = scene.ack((handle(asked), 0b1111))
    changed = scene.change(handle(asked), 0, 5000)
    scene.turn()
    assert codes(acked) == [LeaseExpired.code]
    assert isinstance(changed.error, LeaseExpired)
    assert popped(scene).bodies == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("act", ["release", "change", "visible at once", "forward"])
def test_what_is_acknowledged_first_in_a_turn_is_neither_changed_nor_buried(scene: Scene, act: str) -> None:
    asked = popped(scene, 1)
    acked = scene.ack((handle(asked), 1))
    if act == "release":
        late = scene.release((handle(asked), 1))
    elif act == "forward":
        late = scene.forward(handle(asked), 0)
    else:
        late = scene.change(handle(asked), 0, 0 if act == "visible at once" else 5000)
    scene.turn()
    assert codes(acked) == [0]
    if act == "release":
        assert codes(late) == [LeaseExpired.code]
    else:
        assert isinstance(late.error, LeaseExpired)
    assert scene.leases.buried == 0
    assert scene.state.pop_table.queue(("g", "t", 0)).leased == 0  # type: ignore[union-attr]
    assert popped(scene).bodies == [b"1", b"2", b"3"]


@pytest.mark.parametrize("act", ["release", "visible at once", "expiry"])
def test_a_pop_that_waits_since_the_turn_of_a_return_gets_what_was_returned(scene: Scene, act: str) -> None:
    asked = popped(scene, invisible_ms=SHORT_MS)
    if act == "release":
        scene.release((handle(asked), 1))
    elif act == "visible at once":
        scene.change(handle(asked), 0, 0)
    else:
        scene.clock.time_ms += SHORT_MS + 50
        scene.leases.on_tick(scene.clock.time_ms)
    waits = scene.pop(1, wait_ms=1000)
    scene.turn()
    assert waits.bodies == [b"0"]


def test_two_changes_of_one_turn_have_two_names(scene: Scene) -> None:
    asked = popped(scene)
    changed = [scene.change(handle(asked), index, 5000) for index in range(4)]
    scene.turn()
    handles = [one.reply.handle for one in changed]
    assert len(set(handles)) == 4
    acked = scene.ack(*((one, 1) for one in handles[:3]))
    scene.turn()
    assert codes(acked) == [0, 0, 0]
    scene.pass_ms(5200)
    assert popped(scene).bodies == [b"3"]


def test_a_pop_in_the_turn_in_which_its_group_is_moved_goes_by_where_it_was_moved_to(scene: Scene) -> None:
    asked = popped(scene, 3)
    scene.ack((handle(asked), 0b111))
    scene.turn()
    scene.reset(1)
    again = scene.pop(wait_ms=1000)
    scene.turn()
    assert again.bodies == [b"1", b"2", b"3"]


def test_a_pop_in_the_turn_in_which_its_topic_is_made_anew_takes_nothing_of_the_new_one(scene: Scene) -> None:
    popped(scene, 1)
    scene.delete()
    late = scene.pop(wait_ms=1000)
    scene.turn()
    assert late.is_answered
    scene.create()
    scene.turn()
    scene.send(*(b"new-%d" % number for number in range(4)))
    scene.turn()
    assert popped(scene).bodies == [b"new-%d" % number for number in range(4)]


def test_a_pop_in_the_turn_in_which_its_group_is_deleted_belongs_to_none(scene: Scene) -> None:
    scene.ack((handle(popped(scene, 1)), 1))
    scene.turn()
    scene.delete_group()
    late = scene.pop(2)
    scene.turn()
    assert late.is_answered
    if late.bodies:  # the group began again
        assert late.bodies == [b"0", b"1"]
    rest = popped(scene).bodies
    assert late.bodies + rest == [b"0", b"1", b"2", b"3"]


def test_a_worker_that_comes_back_after_a_reset_buries_nothing(scene: Scene) -> None:
    asked = popped(scene, 1)
    late = scene.forward(handle(asked), 0)
    scene.reset(0)
    scene.turn()
    assert isinstance(late.error, LeaseExpired)
    assert scene.leases.buried == 0
    assert popped(scene).bodies == [b"0", b"1", b"2", b"3"]


def test_a_worker_that_comes_back_when_another_broker_leads_buries_nothing(scene: Scene) -> None:
    scene.allow(0)
    scene.turn()
    scene.change(handle(popped(scene, 1)), 0, 0)
    scene.turn()
    scene.pop(1)
    scene.turn(works=False)
    assert scene.workers.jobs
    scene.leads = False
    scene.turn()
    assert scene.leases.buried == 0


def test_a_message_that_is_spent_is_buried_once(scene: Scene) -> None:
    scene.allow(0)
    scene.turn()
    scene.change(handle(popped(scene, 1)), 0, 0)
    scene.turn()
    assert scene.pop(1).bodies == []
    scene.pop(1)
    scene.turn(works=False)
    scene.pop(1)
    scene.turn()
    scene.pass_ms(300)
    assert scene.leases.buried == 1
    assert scene.state.pop_table.queue(("g", "t", 0)).first_open() >= 1  # type: ignore[union-attr]
