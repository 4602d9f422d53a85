"""What a restored store holds besides plain messages: compacted files, batch queues, light queues, RocksDB's queues, state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from backup_kit import CONFIG, GROUP, back_up, bodies_in, delete_topic, grow, grown, restored, state_of
from compaction_kit import compact, compacting, present, put_value, read_on, retain
from store_kit import StillClock, light, make_store, put
from store_kit import message as record

from zenitmq.broker.group.epoch_file import begin_epoch
from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.restore import RestoreChoice, restore
from zenitmq.deploy.backup.verify import find_damage, read_manifest_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    return target


def test_compacted_files_and_a_log_that_begins_later(tmp_path: Path, place: Path) -> None:
    """Retention has deleted what they were made of."""
    clock, store = StillClock(), tmp_path / "store"
    store.mkdir()
    state = state_of(store)
    with compacting(store, clock, dispatchers=(state,)) as opened:
        state.on_opened(opened.written, lambda: opened.flushed)
        begin_epoch(str(store), opened.begin, opened.written)
        for number in range(60):
            put_value(opened, 0, f"k{number % 7}", b"%d" % number * 60)
        compact(opened, clock)
        retain(opened, clock)
        assert opened.begin > 0
        begin, wanted = opened.begin, present(read_on(opened, 0, 0))
        state.is_closing = True
    figures = back_up(store, place, point_ms=0)
    first = {path.name for path in (place / GROUP / "compacted").iterdir()}
    assert first
    assert back_up(store, place, point_ms=0).end == figures.end
    assert {path.name for path in (place / GROUP / "compacted").iterdir()} == first  # not uploaded again
    assert restored(place, tmp_path / "made")["begin_offset"] == begin
    with compacting(tmp_path / "made", clock) as opened:
        assert present(read_on(opened, 0, 0)) == wanted


def test_a_compacted_file_that_the_target_has_lost_is_uploaded_anew(tmp_path: Path, place: Path) -> None:
    """The next state would name the lost one again."""
    clock, store, target = StillClock(), tmp_path / "store", DirectoryTarget(str(place))
    store.mkdir()
    state = state_of(store)
    with compacting(store, clock, dispatchers=(state,)) as opened:
        state.on_opened(opened.written, lambda: opened.flushed)
        begin_epoch(str(store), opened.begin, opened.written)
        for number in range(60):
            put_value(opened, 0, f"k{number % 7}", b"%d" % number * 60)
        compact(opened, clock)
        retain(opened, clock)
        wanted = present(read_on(opened, 0, 0))
        state.is_closing = True
    back_up(store, place)
    next((place / GROUP / "compacted").iterdir()).unlink()
    back_up(store, place, is_mending=True)
    assert not find_damage(target, f"{GROUP}/", read_manifest_of(target, GROUP))
    restored(place, tmp_path / "made")
    with compacting(tmp_path / "made", clock) as opened:
        assert present(read_on(opened, 0, 0)) == wanted


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_queues_are_kept_as_the_settings_say(tmp_path: Path, place: Path, engine: str) -> None:
    store, made = tmp_path / "store", tmp_path / "made"
    bodies = grow(store, 20)
    with grown(store) as opened:
        put(opened, "orders", 1, light("orders", b"to two", "%LMQ%a", "%LMQ%b"))
        lights = opened.queues()
    back_up(store, place)
    config = replace(CONFIG, store=replace(CONFIG.store, consume_queue=engine))
    restore(DirectoryTarget(str(place)), GROUP, str(made), config, RestoreChoice())
    with make_store(made, consume_queue=engine) as opened:
        assert bodies_in(opened) == bodies
        assert opened.queues() == lights


def test_a_deleted_topic_that_was_made_again(tmp_path: Path, place: Path) -> None:
    """Its queue begins anew at 0, as in the store."""
    store = tmp_path / "store"
    with grown(store, b"old", b"older") as opened:
        delete_topic(opened, "orders")
        put(opened, "orders", 0, record("orders", b"new"))
        held = bodies_in(opened)
    back_up(store, place)
    restored(place, tmp_path / "made")
    with make_store(tmp_path / "made") as opened:
        assert bodies_in(opened) == held == [b"new"]
        assert opened.max_offset("orders", 0) == 1
