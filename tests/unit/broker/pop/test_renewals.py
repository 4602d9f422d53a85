"""Who renews a lease, and until when: a change can end that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pop_scene import Scene
from store_kit import StillClock

from zenitmq.remoting.commands import ChangeInvisible


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, StillClock()) as scene:
        scene.create()
        scene.turn()
        scene.send(b"0")
        scene.turn()
        scene.registry.living.add("c")
        yield scene


@pytest.mark.parametrize("renews", [True, False])
def test_a_changed_lease_is_renewed_only_if_the_change_says_so(scene: Scene, renews: bool) -> None:
    """A client that failed hands the message back for later: it lives, and the message comes again nevertheless."""
    asked = scene.pop(1, invisible_ms=1000, renews=True, client_id="c")
    scene.turn()
    ((_, _, handle, _),) = asked.reply.parts
    changed = scene.ask(ChangeInvisible("g", "t", handle, 0, 2000, renews))
    scene.turn()
    assert changed.error is None
    scene.pass_ms(2100)
    again = scene.pop(1)
    scene.turn()
    assert again.bodies == ([] if renews else [b"0"])


def test_a_lease_is_not_renewed_for_ever(scene: Scene) -> None:
    """Its owner may live without having got the message: the answer to its request was lost. A change begins anew."""
    object.__setattr__(scene.parts.config, "pop_renew_ms_max", 8_000)
    invisible_ms = 2_000
    asked = scene.pop(1, invisible_ms=invisible_ms, renews=True, client_id="c")
    scene.turn()

    def pass_quarters(count: int) -> list[bytes]:
        for _ in range(count):
            scene.pass_ms(invisible_ms)
            scene.turn()
        again = scene.pop(1)
        scene.turn()
        return again.bodies

    assert pass_quarters(4) == []
    ((_, _, handle, _),) = asked.reply.parts
    assert scene.ask(ChangeInvisible("g", "t", handle, 0, invisible_ms, True)).error is None
    scene.turn()
    assert pass_quarters(4) == []
    assert pass_quarters(2) == [b"0"]
    assert scene.leases.returned == 1
