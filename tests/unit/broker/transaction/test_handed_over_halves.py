"""A store that is handed over to RocketMQ: of half messages it sees those that wait, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from handover_kit import CONFIG
from store_kit import StillClock, read_queue
from transaction_kit import RULES, Scene

from zenitmq.broker.group import hand_over as module
from zenitmq.broker.group.hand_over import hand_over
from zenitmq.broker.transaction.half_records import numbers_in
from zenitmq.model.handles.transaction import Resolution
from zenitmq.model.names import HALF_OP_TOPIC, HALF_TOPIC


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
