"""A clock that was wrong for a moment, and what a store does each second once it is right again."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_kit import StillClock, make_store, message, put

from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.checkpoint import read_checkpoint

YEAR_MS = 365 * 86_400_000
INTERVAL_MS = 1_000


def tick(store: MessageStore, clock: StillClock) -> None:
    store.on_tick(clock.time_ms)
    store._upkeep.run_in_worker(lambda: None).result(20)


@pytest.mark.parametrize("wrong_by_ms", [75 * YEAR_MS, -20 * YEAR_MS], ids=["ahead", "behind"])
def test_checkpoints_and_retention_go_on_when_the_clock_is_set_right(tmp_path: Path, wrong_by_ms: int) -> None:
    clock = StillClock()
    settings = {"checkpoint_interval_ms": INTERVAL_MS, "retention_bytes": 8192}
    with make_store(tmp_path, clock, **settings) as store:
        tick(store, clock)
        clock.time_ms += wrong_by_ms
        tick(store, clock)
        clock.time_ms += 10 * INTERVAL_MS - wrong_by_ms
        tick(store, clock)
        for _ in range(100):
            put(store, "t", 0, message("t", b"x" * 200))
        store.flush_all(20_000)
        clock.time_ms += INTERVAL_MS
        tick(store, clock)
        assert read_checkpoint(str(tmp_path / "checkpoint")).dispatched_offset == store.written
        for _ in range(20):
            tick(store, clock)
        assert store.written - store.begin <= 8192 + 4096


def test_within_an_interval_there_is_one_checkpoint(tmp_path: Path) -> None:
    clock = StillClock()
    with make_store(tmp_path, clock, checkpoint_interval_ms=INTERVAL_MS) as store:
        tick(store, clock)
        put(store, "t", 0, message("t", b"x"))
        store.flush_all(20_000)
        clock.time_ms += INTERVAL_MS - 1
        tick(store, clock)
        assert read_checkpoint(str(tmp_path / "checkpoint")).dispatched_offset in (None, 0)
        clock.time_ms += 1
        tick(store, clock)
        assert read_checkpoint(str(tmp_path / "checkpoint")).dispatched_offset == store.written
