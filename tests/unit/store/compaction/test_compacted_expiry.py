"""A compacted topic that is kept for a time, or up to a size, and not for ever."""

from __future__ import annotations

from pathlib import Path

from compaction_kit import QUEUES, compact, compacting, put_value, read_on, retain
from store_kit import StillClock

from zenitmq.store.compaction.compacted_expiry import SLACK_MS, Keeping, expire
from zenitmq.store.compaction.compacted_manifest import Manifest
from zenitmq.store.compaction.compaction_work import Limits
from zenitmq.store.message_store import MessageStore

DAY_MS = 86_400_000
LIMITS = Limits(memory_bytes=1 << 20, file_bytes=2048)
NO_LIMIT = 1 << 40


def filled(store: MessageStore, clock: StillClock, days: int, daily: int = 4) -> None:
    """Some records a day, in compacted files alone."""
    for day in range(days):
        for number in range(daily):
            put_value(store, 0, f"{day}-{number}", b"x" * 50)
        clock.time_ms += DAY_MS
    compact(store, clock)
    put_value(store, 1, "z", b"z" * 3000)
    put_value(store, 1, "z", b"z" * 3000)
    retain(store, clock)


def offsets(store: MessageStore) -> list[int]:
    return [one.queue_offset for one in read_on(store, 0, 0)]


def test_what_is_too_old_goes_at_most_a_day_late_and_the_rest_stays(tmp_path: Path) -> None:
    clock = StillClock()
    with compacting(tmp_path / "s", clock) as store:
        store.compaction.begin(lambda: QUEUES, {"c": Keeping(5 * DAY_MS, NO_LIMIT)})
        filled(store, clock, 5)
        assert offsets(store) == list(range(20))
        clock.time_ms -= 5000
        compact(store, clock, None)
        assert offsets(store) == list(range(20))
        compact(store, clock, None)
        assert offsets(store) == list(range(8, 20))
        assert read_on(store, 0, 3)[0].queue_offset == 8
        assert put_value(store, 0, "new", b"") == 20
        for _ in range(7):
            compact(store, clock, None)
        assert not store.compacted.manifests["c", 0].files
        assert store.max_offset("c", 0) == 21


def test_a_topic_without_such_a_rule_stays_for_ever(tmp_path: Path) -> None:
    clock = StillClock()
    with compacting(tmp_path / "s", clock) as store:
        filled(store, clock, 5)
        for _ in range(50):
            compact(store, clock, None)
        assert offsets(store) == list(range(20))


def test_what_has_no_room_goes_the_oldest_first(tmp_path: Path) -> None:
    clock = StillClock()
    with compacting(tmp_path / "s", clock) as store:
        filled(store, clock, 10, 10)
        folder, manifest = store.compacted.folder(("c", 0)), store.compacted.manifests["c", 0]
        size = sum(file.size_bytes for file in manifest.files)
        for part in (1, 2, 4, 50, 10_000):
            keeping = Keeping(SLACK_MS * 1000, size // part)
            left = expire(folder, manifest, 0, keeping, clock.time_ms, LIMITS)
            kept_bytes = sum(file.size_bytes for file in left.files)
            assert kept_bytes <= keeping.bytes_max
            assert part > 50 or kept_bytes >= keeping.bytes_max * 14 // 16 - 300
            assert (left == manifest) == (part == 1)
            assert not left.files or left.files[-1].last == 99
            assert expire(folder, left, 0, keeping, clock.time_ms, LIMITS) == left
            manifest = left if part < 50 else manifest


def test_nothing_is_done_where_there_is_nothing(tmp_path: Path) -> None:
    assert expire(str(tmp_path), Manifest(), 0, Keeping(1, 1), 10, LIMITS) == Manifest()
