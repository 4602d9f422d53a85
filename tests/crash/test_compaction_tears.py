"""A compaction that is stopped at any call of the file system leaves the old files or the new ones, never a mix."""

import os
import random
import shutil

import pytest
from compaction_kit import QUEUES, compact, compacting, open_compacting, present, put_value, read_on, retain
from store_kit import StillClock

from zenitmq.store.compaction import compacted_files
from zenitmq.store.compaction.compacted_manifest import Manifest
from zenitmq.store.compaction.compacted_queues import CompactedQueues
from zenitmq.store.compaction.compaction_work import Limits, MergeRule, merge
from zenitmq.store.opening import small_file


class Killed(Exception):
    """The process, at a call of the file system."""


CALLS = (
    (compacted_files, "write_fully"),
    (compacted_files, "sync_directory"),
    (compacted_files.os, "fsync"),
    (compacted_files.os, "unlink"),
    (small_file.os, "replace"),
    (small_file, "sync_directory"),
)


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The `number`-th of all calls is the last one, half done where that can be; how many there were so far."""
    count = [0]
    for module, name in CALLS:
        real = getattr(module, name)

        def call(*arguments, real=real, name=name):
            count[0] += 1
            if count[0] > number:
                raise Killed(name)
            if count[0] == number and name == "write_fully":
                fd, data, at = arguments
                real(fd, data[: len(data) // 2], at)
                raise Killed(name)
            return real(*arguments)

        monkeypatch.setattr(module, name, call)
    return count


def fill(store, clock: StillClock, chosen: random.Random, before: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """{key: value} behind what is put now."""
    state = dict(before or {})
    for number in range(40):
        key, body = f"k{chosen.randrange(9)}", b"" if chosen.random() < 0.2 else b"%d" % number * 9
        put_value(store, 0, key, body)
        clock.time_ms += 10
        state[key] = body
    return {key: body for key, body in state.items() if body}


@pytest.mark.parametrize("step", ["take", "merge"])
def test_a_kill_at_any_step_leaves_the_old_files_or_the_new(tmp_path, monkeypatch, step: str) -> None:
    clock, chosen = StillClock(), random.Random(1)
    store = open_compacting(tmp_path / "s", clock, compaction_dead_ratio=1.0, compaction_tombstone_ms=1 << 50)
    state = fill(store, clock, chosen)
    compact(store, clock)
    retain(store, clock)
    state = fill(store, clock, chosen, state)
    store.flush_all(20_000)
    if step == "merge":
        compact(store, clock, None)
    store.__exit__(None, None, None)
    number, is_whole = 0, False
    while not is_whole:
        number += 1
        place = tmp_path / f"k{number}"
        shutil.copytree(tmp_path / "s", place)
        store = open_compacting(place, clock, compaction_dead_ratio=1.0, compaction_tombstone_ms=1 << 50)
        before = {one.queue_offset for one in read_on(store, 0, 0)}
        with monkeypatch.context() as patches:
            kill_at(patches, number)
            store.compaction.ask_for("c")
            store._upkeep.on_tick = lambda now_ms: []
            store.on_tick(clock.time_ms)
            error = store.compaction._future.exception(20)
        is_whole = error is None
        assert is_whole or isinstance(error, Killed)
        store.compaction._future = None
        store.__exit__(None, None, None)
        found = CompactedQueues(str(place))
        listed = {file.name for file in found.manifests["c", 0].files}
        assert listed <= set(os.listdir(found.folder(("c", 0))))
        store = open_compacting(place, clock)
        messages = read_on(store, 0, 0)
        assert present(messages) == state
        assert {one.queue_offset for one in messages} <= before
        compact(store, clock)
        assert present(read_on(store, 0, 0)) == state
        assert set(os.listdir(found.folder(("c", 0)))) == {
            "manifest",
            *(file.name for file in store.compacted.manifests["c", 0].files),
        }
        store.__exit__(None, None, None)
    assert number > 6


def test_a_full_disk_keeps_what_there_is_and_goes_on_later(tmp_path, monkeypatch) -> None:
    clock, chosen = StillClock(), random.Random(2)
    with compacting(tmp_path / "s", clock) as store:
        state = fill(store, clock, chosen)
        with monkeypatch.context() as patches:

            def full(*_):
                raise OSError(28, "No space left on device")

            patches.setattr(compacted_files, "write_fully", full)
            compact(store, clock)
            assert "disk full" in store.compaction.state().failed["c", 0]
            retain_begin = store.begin
            for _ in range(5):
                store.on_tick(clock.time_ms)
            assert store.begin == retain_begin
        compact(store, clock)
        assert store.compaction.state().failed == {}
        assert present(read_on(store, 0, 0)) == state


def test_a_compacted_record_that_rots_is_told_and_never_copied(tmp_path) -> None:
    clock, chosen = StillClock(), random.Random(3)
    with compacting(tmp_path / "s", clock) as store:
        fill(store, clock, chosen)
        compact(store, clock)
        put_value(store, 1, "z", b"z" * 3000)
        put_value(store, 1, "z", b"z" * 3000)
        retain(store, clock)
        (file,) = store.compacted.manifests["c", 0].files
        path = os.path.join(store.compacted.folder(("c", 0)), file.name)
        key = read_on(store, 0, 0)[0].keys[0]
        with open(path, "r+b") as opened:
            opened.seek(file.record_bytes - 10)
            opened.write(b"rot")
        assert store.begin > 0
        found = store.get_messages("c", 0, file.last, max_messages=9, max_bytes=9999)
        assert (found.status, found.lost_from, found.next_offset) == (9000, file.last, file.last + 1)
        first = store.get_messages("c", 0, 0, max_messages=99, max_bytes=99999)
        assert (first.count, first.next_offset) == (file.rows - 1, first.next_offset)
        put_value(store, 0, key, b"more")
        compact(store, clock)
        assert "damaged" in store.compaction.state().failed["c", 0]
        assert store.compacted.manifests["c", 0].files[0] == file


def test_rows_that_rot_are_told(tmp_path) -> None:
    clock = StillClock()
    with compacting(tmp_path / "s", clock) as store:
        fill(store, clock, random.Random(4))
        compact(store, clock)
        (file,) = store.compacted.manifests["c", 0].files
        folder = store.compacted.folder(("c", 0))
        with open(os.path.join(folder, file.name), "r+b") as opened:
            opened.seek(file.record_bytes + 60)
            opened.write(b"rot")
        rule = MergeRule(now_ms=clock.time_ms, dead_ratio=0, tombstone_ms=1)
        manifest: Manifest = store.compacted.manifests["c", 0]
        with pytest.raises(Exception, match="rows are damaged"):
            merge(folder, manifest, 0, rule, Limits(memory_bytes=1 << 20))
        assert QUEUES[0] in store.compacted.manifests
