"""What `zenit store inspect` finds undecided is what the index of half messages holds."""

from __future__ import annotations

from pathlib import Path

from store_kit import StillClock
from transaction_kit import RULES, Scene

from zenitmq.model.handles.transaction import Resolution
from zenitmq.model.names import HALF_TOPIC, UNDECIDED_TOPIC
from zenitmq.store.offline.offline import inspect_store

KEYS = {"index_slots": 5_000, "index_entries": 20_000}
"""Of index files whose layout is known without their settings."""


def inspected(directory: Path) -> list[tuple[str, str, int]]:
    undecided = inspect_store(str(directory))["pending"]["undecided"]
    return [(found["message_id"], found["waits_in"], found["physical_offset"]) for found in undecided]


def indexed(scene: Scene) -> list[tuple[str, str, int]]:
    found = [scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 99)]
    messages = [one[0] for one in found if one is not None]
    return [(message.message_id, message.topic, message.physical_offset) for message in messages]


def test_inspect_finds_what_the_index_holds(tmp_path: Path) -> None:
    clock = StillClock()
    with Scene(tmp_path, clock, **KEYS) as scene:
        committed, rolled_back, asked, _ = (scene.send(message_id=f"A{number}") for number in range(4))
        scene.end(committed)
        scene.end(rolled_back, Resolution.ROLLBACK)
        scene.pass_ms(RULES.timeout_ms)
        scene.end(asked)
        held = indexed(scene)
    assert [(message_id, topic) for message_id, topic, _ in held] == [("A3", HALF_TOPIC)]
    assert inspected(tmp_path) == held
    with Scene(tmp_path, clock, **KEYS) as scene:
        for _ in range(RULES.checks_max):
            scene.pass_ms(RULES.interval_ms)
        parked = scene.send(message_id="A4")
        held = indexed(scene)
    assert [(message_id, topic) for message_id, topic, _ in held] == [("A3", UNDECIDED_TOPIC), ("A4", HALF_TOPIC)]
    assert sorted(inspected(tmp_path)) == sorted(held)
    with Scene(tmp_path, clock, **KEYS) as scene:
        scene.end(parked)
        scene.transactions.on_deposed()  # so RocketMQ is not told: its op record is to come
        held = indexed(scene)
    assert inspected(tmp_path) == held
