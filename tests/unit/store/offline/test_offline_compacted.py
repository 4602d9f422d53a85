"""The tools of a closed store know its compacted files: they are measured, exported, checked, and not handed over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from compaction_kit import compact, compacting, put_value, retain
from handover_kit import CONFIG, Life
from store_kit import StillClock

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.broker.state.state_log import TOPICS
from zenitmq.model.clock import SystemClock
from zenitmq.model.errors import StoreFormatError
from zenitmq.model.route import TopicConfig
from zenitmq.store.config import StoreConfig
from zenitmq.store.offline.export import Selection, export_store
from zenitmq.store.offline.offline import inspect_store, open_queues, verify_store
from zenitmq.store.offline.store_size import store_size


class Rows:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write(self, message: Any) -> None:
        self.rows.append(message)

    def end(self, counts: dict[str, int]) -> None:
        self.counts = counts


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Keys a and b are in compacted files alone."""
    clock = StillClock()
    with compacting(tmp_path / "s", clock) as store:
        for key, body in (("a", b"1"), ("b", b"2"), ("a", b"3")):
            put_value(store, 0, key, body)
        compact(store, clock)
        for _ in range(4):
            put_value(store, 1, "z", b"z" * 3000)
        retain(store, clock)
        assert store.begin > 0
    return str(tmp_path / "s")


def exported(directory: str, **selection: Any) -> tuple[list[tuple[int, bytes]], dict[str, int]]:
    rows = Rows()
    export_store(directory, rows, Selection(**selection), on_damage=lambda *_: None, report=lambda _done, _total: None)
    return [(one.queue_offset, one.body) for one in rows.rows if one.queue_id == 0], rows.counts


def damage(directory: str, at_from_end: int) -> str:
    folder = Path(directory) / "compacted" / "queues" / "c" / "0"
    (path,) = folder.glob("*.compacted")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) - at_from_end)
        file.write(b"\x55")
    return str(path)


def test_what_only_compacted_files_have_is_exported_and_measured(directory: str) -> None:
    assert exported(directory)[0] == [(1, b"2"), (2, b"3")]
    assert exported(directory, topics=frozenset({"other"}))[0] == []
    with open_queues(directory) as opened:
        size = store_size(directory, opened)["compacted"]
    assert size["messages"] >= 2
    assert inspect_store(directory)["topics"]["c"]["0"]["min_offset"] == 1
    assert verify_store(directory)["damaged_compacted"] == []


def test_damage_is_named(directory: str) -> None:
    path = damage(directory, 2 * 72 + 3)  # in the last record
    (found,) = verify_store(directory)["damaged_compacted"]
    assert found["file"] == path
    rows, counts = exported(directory)
    assert rows == [(1, b"2")]
    assert counts["damaged_ranges"] == 1
    manifest = os.path.join(os.path.dirname(path), "manifest")
    with open(manifest, "r+b") as file:
        file.write(b"00000000")
    (found,) = verify_store(directory)["damaged_compacted"]
    assert found["file"] == manifest


def test_rocketmq_is_not_handed_what_it_cannot_read(directory: str) -> None:
    with pytest.raises(
        StoreFormatError, match=r"compacted topics \(c\).*--topic T.*zenit topic delete T.*run this again"
    ):
        hand_over(directory, StoreConfig(), clock=SystemClock())


def test_a_compacted_topic_without_files_is_not_handed_over_either(tmp_path: Path) -> None:
    """RocketMQ reads such a topic from files of its own alone, which it makes of what it stores itself."""
    with Life(tmp_path, StillClock(), config=CONFIG) as life:
        config = TopicConfig("state", 1, 1, attributes={"cleanup.policy": "COMPACTION"})
        life.state.stage(life.store, TOPICS, life.state.topic_table.event_set(config))
        life.store.commit()
    with pytest.raises(StoreFormatError, match=r"compacted topics \(state\)"):
        hand_over(str(tmp_path), StoreConfig(), clock=SystemClock())
