"""Many leases that end at one time: the loop sees to some of them at once, and soon to the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pop_scene import Scene
from store_kit import StillClock

from zenitmq.broker.pop import leases

SHORT_MS = 1000
COUNT = 10


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Ten leases that end together; three are seen to at once."""
    monkeypatch.setattr(leases, "DUE_AT_ONCE", 3)
    with Scene(tmp_path, StillClock()) as scene:
        scene.create()
        scene.turn()
        scene.send(*(b"%d" % number for number in range(COUNT)))
        scene.turn()
        for _ in range(COUNT):
            scene.pop(1, invisible_ms=SHORT_MS)
            scene.turn()
        scene.clock.time_ms += SHORT_MS + 50
        yield scene


def go_on(scene: Scene) -> None:
    """What the loop is to do a moment later."""
    later, scene.loop.later = scene.loop.later, []
    for callback in later:
        callback()


def test_the_rest_does_not_wait_for_the_next_tick(scene: Scene) -> None:
    scene.leases.on_tick(scene.clock.time_ms)
    returned = [scene.leases.returned]
    while scene.loop.later:
        go_on(scene)
        returned.append(scene.leases.returned)
    assert returned == [3, 6, 9, 10]


def test_ticks_meanwhile_do_not_make_it_more_at_a_time(scene: Scene) -> None:
    for _ in range(3):
        scene.leases.on_tick(scene.clock.time_ms)
    assert (scene.leases.returned, len(scene.loop.later)) == (3, 1)


def test_who_leads_no_longer_sees_to_none(scene: Scene) -> None:
    scene.leases.on_tick(scene.clock.time_ms)
    scene.leads = False
    go_on(scene)
    assert (scene.leases.returned, scene.loop.later) == (3, [])
    scene.leads = True
    scene.leases.on_tick(scene.clock.time_ms)
    assert scene.leases.returned == 6
