"""A store that was cut is one that never held more, wherever the cut was interrupted, and whatever state it was found in."""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from store_kit import (
    ALL_TIME,
    SMALL,
    StillClock,
    index_bytes,
    kill,
    light,
    make_store,
    message,
    put,
    read_queue,
    stage,
    tree,
    wait_until,
)

from zenitmq.model.errors import OffsetOutOfRange, StoreLocked
from zenitmq.model.names import STATE_TOPICS
from zenitmq.record.codes import ENTRY_BYTES, INDEX_HEADER_BYTES
from zenitmq.record.kernel import StoredMessage, decode_batch, decode_record
from zenitmq.record.new_record import NewRecord
from zenitmq.store import message_store
from zenitmq.store.config import StoreConfig
from zenitmq.store.index.index_file import SLOT_BYTES
from zenitmq.store.log.segment import segment_name
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import verify_store
from zenitmq.store.opening.checkpoint import read_checkpoint
from zenitmq.store.opening.snapshot import read_snapshot, write_snapshot
from zenitmq.store.opening.store_cut import truncate_store

LITE = "%LMQ%$t$a"


def small_config() -> StoreConfig:
    return StoreConfig(**SMALL)


class Killed(Exception):
    """The process, at a call of the file system."""


def fill(store: MessageStore, clock: StillClock, *, seed: int, turns: int, topics: str) -> None:
    chosen = random.Random(seed)
    for _ in range(turns):
        for _ in range(chosen.randrange(1, 3)):
            topic, count = chosen.choice(topics), chosen.randrange(1, 4)
            records = [
                message(
                    topic,
                    b"%04d" % chosen.randrange(10_000) * chosen.randrange(1, 40),
                    keys="k all",
                    unique=f"{chosen.getrandbits(64):032X}",
                )
                for _ in range(count)
            ]
            stage(store, topic, chosen.randrange(2), *records)
        store.commit()
        clock.time_ms += chosen.randrange(800)


def checkpoint(store: MessageStore, clock: StillClock) -> None:
    for _ in range(2):
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        store._upkeep.run_in_worker(lambda: None).result(20)


def entries_of(index_file: bytes) -> bytes:
    """An index file as far as its header counts entries; what lies behind is never looked at."""
    count = int.from_bytes(index_file[36:40], "big")
    return index_file[: INDEX_HEADER_BYTES + SLOT_BYTES * SMALL["index_slots"] + ENTRY_BYTES * count]


def contents(directory: Path, clock: StillClock) -> dict[str, object]:
    """Opens a store and tells all that can be told of it."""
    with make_store(directory, clock) as store:
        queues = {
            (topic, queue_id): [(m.body, m.physical_offset) for m in read_queue(store, topic, queue_id)]
            for topic, queue_ids in store.queues().items()
            for queue_id in queue_ids
        }
        log = b"".join(bytes(segment.map) for segment in store._log.segments())
        return {
            "positions": (store.begin, store.written),
            "log": log[: store.written],
            "behind": any(log[store.written :]),
            "queues": queues,
            "keys": [store.query(topic, "all", max_messages=999, unique=False, **ALL_TIME) for topic in "tuv"],
            "files": tree(directory, "consumequeue"),
            "index": [entries_of(data) for data in index_bytes(directory)],
            "quarantined": store.statistics().quarantined_ranges,
        }


@contextmanager
def long_store(
    tmp_path: Path, *, seed: int, before: int, after: int
) -> Iterator[tuple[MessageStore, Path, int, StillClock]]:
    """A store that went on after `offset`; beside it what a store is that did not."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, clock, seed=seed, turns=before, topics="tu")
        store.flush_all(20_000)
        checkpoint(store, clock)
        offset = store.written
        short = kill(tmp_path / "s", tmp_path / "short")
        fill(store, clock, seed=seed + 1000, turns=after, topics="tuv")
        yield store, short, offset, clock


@pytest.mark.parametrize("closed", ["clean", "killed", "killed after a checkpoint", "other boot"])
@pytest.mark.parametrize(("before", "after"), [(0, 9), (1, 1), (12, 2), (12, 30), (40, 7)])
@pytest.mark.parametrize("seed", range(2))
def test_a_cut_store_is_one_that_never_held_more(tmp_path, closed: str, before: int, after: int, seed: int) -> None:
    with long_store(tmp_path, seed=seed, before=before, after=after) as (store, short, offset, clock):
        if closed == "killed after a checkpoint":
            store.flush_all(20_000)
            checkpoint(store, clock)
        left = kill(tmp_path / "s", tmp_path / "left")
    if closed == "clean":
        left = tmp_path / "s"
    if closed == "other boot":
        (left / "abort").write_text("7\nanother boot\n")
    for _ in range(2):
        truncate_store(str(left), small_config(), offset)
    found, expected = contents(left, clock), contents(short, clock)
    assert found == expected, f"seed={seed}"
    assert found["positions"] == (0, offset)
    assert found["behind"] is False
    assert verify_store(str(left))["damaged"] == []
    for directory in (left, short):
        with make_store(directory, clock) as store:
            fill(store, StillClock(), seed=5, turns=9, topics="tuv")
    assert contents(left, clock) == contents(short, clock), f"seed={seed}"


def test_a_cut_at_the_end_or_above_it_changes_nothing(tmp_path) -> None:
    with long_store(tmp_path, seed=3, before=20, after=0) as (_, short, offset, clock):
        pass
    expected = contents(short, clock)
    for end in (offset, offset + 100, 1 << 40):
        truncate_store(str(tmp_path / "s"), small_config(), end)
        assert contents(tmp_path / "s", clock) == expected


def test_a_cut_before_a_blank_takes_the_blank(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        end = put(store, "t", 0, message("t", bytes(3000))).end
        put(store, "t", 0, message("t", bytes(2000)))
    truncate_store(str(tmp_path / "s"), small_config(), end)
    with make_store(tmp_path / "s") as store:
        assert store.written == end
        assert put(store, "t", 0, message("t", b"small")).physical_offset == end


def test_a_cut_behind_a_blank_keeps_it(tmp_path) -> None:
    for closed in ("clean", "killed"):
        directory = tmp_path / closed
        with make_store(directory) as store:
            for size in (3000, 2000):
                put(store, "t", 0, message("t", bytes(size)))
            left = kill(directory, tmp_path / f"{closed} left")
        left = directory if closed == "clean" else left
        truncate_store(str(left), small_config(), 4096)
        with make_store(left) as store:
            assert store.written == 4096, closed
            assert [len(m.body) for m in read_queue(store, "t", 0)] == [3000]


def test_what_is_open_or_begins_higher_is_left_alone(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        for _ in range(3):
            put(store, "t", 0, message("t", bytes(3000)))
        with pytest.raises(StoreLocked):
            truncate_store(str(tmp_path / "s"), small_config(), 0)
        store.flush_all(20_000)
        assert len(store._log.remove_before(4096)) == 1
        wait_until(lambda: segment_name(0) not in os.listdir(tmp_path / "s" / "commitlog"))
    before = tree(tmp_path / "s", "commitlog", "consumequeue", "index")
    with pytest.raises(OffsetOutOfRange):
        truncate_store(str(tmp_path / "s"), small_config(), 0)
    assert tree(tmp_path / "s", "commitlog", "consumequeue", "index") == before


@pytest.mark.usefixtures("engine")
def test_a_queue_whose_messages_expired_keeps_its_offsets(tmp_path) -> None:
    """Only units that point behind the cut go; queue offsets are never given twice."""
    with make_store(tmp_path / "s") as store:
        for number in range(40):
            put(store, "t", 0, message("t", b"%d" % number * 100))
        store.flush_all(20_000)
        removed = {segment_name(segment.base_offset) for segment in store._log.remove_before(store.written)}
        wait_until(lambda: removed.isdisjoint(os.listdir(tmp_path / "s" / "commitlog")))
        store._queues.begin_expiry(store.begin)
        while store._queues.expire_some(9):
            pass
        kept, begin = store.max_offset("t", 0), store.begin
        offset = store.written
        put(store, "t", 0, message("t", b"cut"))
    truncate_store(str(tmp_path / "s"), small_config(), offset)
    with make_store(tmp_path / "s") as store:
        assert (store.begin, store.max_offset("t", 0)) == (begin, kept)
        assert put(store, "t", 0, message("t", b"again")).queue_offset == kept


def test_snapshots_of_what_was_cut_are_dropped(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        offset = put(store, "t", 0, message("t", b"x")).end
        put(store, "t", 0, message("t", b"y"))
    config = tmp_path / "s" / "config"
    write_snapshot(str(config / "below.json"), {"a": 1}, offset)
    write_snapshot(str(config / "above.json"), {"a": 1}, offset + 1)
    (config / "rocketmq.json").write_text('{"a": 1}')
    truncate_store(str(tmp_path / "s"), small_config(), offset)
    assert sorted(os.listdir(config)) == ["below.json", "rocketmq.json", "zenitStore.json", "zenitStore.json.bak"]


@pytest.mark.usefixtures("engine")
def test_no_start_trusts_a_checkpoint_of_what_was_cut(tmp_path) -> None:
    with long_store(tmp_path, seed=1, before=9, after=9) as (_, _, offset, _):
        pass
    path = str(tmp_path / "s" / "checkpoint")
    assert read_checkpoint(path).flushed_offset > offset
    truncate_store(str(tmp_path / "s"), small_config(), offset)
    found = read_checkpoint(path)
    assert (found.dispatched_offset, found.flushed_offset) == (offset, offset)


CALLS = ("unlink", "rename", "pwrite", "fdatasync", "fsync", "truncate", "rmdir")


@contextmanager
def killed_at(call: int) -> Iterator[list[str]]:
    """The `call`-th change of a file (and each after it) does not happen; a write before it may be half done."""
    done: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def guarded(name: str):
        def run(*args, **options):
            if len(done) >= call:
                if name == "pwrite" and len(done) == call:
                    done.append(name)
                    real[name](args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
                raise Killed
            done.append(name)
            return real[name](*args, **options)

        return run

    try:
        for name in CALLS:
            setattr(os, name, guarded(name))
        yield done
    finally:
        for name in CALLS:
            setattr(os, name, real[name])


@pytest.mark.parametrize("closed", ["clean", "killed"])
def test_killed_at_each_step_the_cut_is_done_again(tmp_path, closed: str) -> None:
    with long_store(tmp_path, seed=8, before=14, after=16) as (_, short, offset, clock):
        left = kill(tmp_path / "s", tmp_path / "left")
    left = tmp_path / "s" if closed == "clean" else left
    expected = contents(short, clock)
    steps = 0
    while True:
        work = kill(left, tmp_path / "work")
        try:
            with killed_at(steps) as done:
                truncate_store(str(work), small_config(), offset)
        except Killed:
            truncate_store(str(work), small_config(), offset)
            assert contents(work, clock) == expected, f"killed at {steps}: {done[-3:]}"
            shutil.rmtree(work)
            steps += 1
            continue
        assert contents(work, clock) == expected
        break
    assert steps > 20
    assert {"unlink", "pwrite", "fdatasync", "fsync"} <= set(done)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_between_steps_brings_nothing_back(tmp_path, seed: int) -> None:
    """Any files may come back as they were before the cut: done again, all is cut."""
    chosen = random.Random(seed)
    with long_store(tmp_path, seed=seed, before=14, after=16) as (_, short, offset, clock):
        pass
    expected = contents(short, clock)
    cut = kill(tmp_path / "s", tmp_path / "cut")
    truncate_store(str(cut), small_config(), offset)
    for round_ in range(12):
        work = kill(cut, tmp_path / f"work{round_}")
        for path in sorted((tmp_path / "s").rglob("*")):
            if path.is_file() and path.name != "lock" and chosen.random() < 0.5:
                target = work / path.relative_to(tmp_path / "s")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        if sorted(os.listdir(work / "commitlog")) != _run_of(os.listdir(work / "commitlog")):
            continue  # newest first: no gap is ever left
        truncate_store(str(work), small_config(), offset)
        assert contents(work, clock) == expected, f"seed={seed} round={round_}"


def _run_of(names: list[str]) -> list[str]:
    """The names that a log without gaps would have."""
    return [f"{4096 * number:020d}" for number in range(len(names))]


def test_facts_of_the_store_outlive_a_cut(tmp_path) -> None:
    with long_store(tmp_path, seed=2, before=5, after=5) as (_, _, offset, _):
        pass
    path = str(tmp_path / "s" / "config" / "zenitStore.json")
    before = read_snapshot(path)
    truncate_store(str(tmp_path / "s"), small_config(), offset)
    assert read_snapshot(path) == before is not None


class Deletes:
    """A dispatcher for which each event deletes the topic it names."""

    topics = frozenset({STATE_TOPICS[0]})
    run_flags = 0

    def __init__(self) -> None:
        self.store: MessageStore | None = None

    def on_run(self, run) -> None:
        for event in decode_batch(bytes(run.records)):
            assert self.store is not None
            self.store.delete_topic(event.body.decode(), event.physical_offset + event.size_bytes)

    def advance(self, end: int) -> None:
        pass

    def reflected(self) -> int:
        return 0

    def persist(self) -> int:
        return 0


@contextmanager
def deleting_store(directory: Path, confirm: int | None) -> Iterator[MessageStore]:
    """A slave's."""
    deletes = Deletes()
    deletes.store = make_store(directory, dispatchers=[deletes])
    with deletes.store as store:
        if confirm is not None:
            store.confirm(confirm)
        yield store


def events_of(directory: Path) -> tuple[list[bytes], list[int]]:
    """A master's log in which topic t is made, deleted, made anew and deleted again: its chunks, and where each ends."""
    with make_store(directory) as master:
        ends = []
        for step in ("old", "delete", "new", "delete", "newer"):
            if step == "delete":
                master.stage_record(NewRecord(topic=STATE_TOPICS[0], queue_id=0, body=b"t"))
                master.commit()
                ends.append(master.written)
                master.delete_topic("t", master.written)
            else:
                for number in range(3):
                    put(master, "t", 0, message("t", b"%s %d" % (step.encode(), number)))
                ends.append(master.written)
        begins = [0, *ends[:-1]]
        return [
            bytes(master.chunk(begin, 1 << 20, limit=end).data) for begin, end in zip(begins, ends, strict=True)
        ], ends


def bodies_after(steps: int) -> list[bytes]:
    topic = {0: [], 1: [b"old"], 2: [], 3: [b"new"], 4: [], 5: [b"newer"]}[steps]
    return [b"%s %d" % (step, number) for step in topic for number in range(3)]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("closed", ["clean", "killed"])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("kept", range(6))
def test_a_deletion_that_is_cut_never_happened(tmp_path, kept: int, together: bool, closed: str) -> None:
    chunks, ends = events_of(tmp_path / "m")
    directory = tmp_path / "s"
    with deleting_store(directory, 0) as store:
        if together:
            store.append_chunk(b"".join(chunks), 0, ends[-1])
        else:
            for chunk, end in zip(chunks, ends, strict=True):
                store.append_chunk(chunk, store.written, end)
        assert [m.body for m in _all_of(store)] == bodies_after(5)
        left = kill(directory, tmp_path / "left")
    left = directory if closed == "clean" else left
    if closed == "killed":  # what a replay does again counts alike
        with deleting_store(left, 0) as store:
            assert [m.body for m in _all_of(store)] == bodies_after(5)
    offset = [0, *ends][kept]
    truncate_store(str(left), small_config(), offset)
    with deleting_store(left, 0) as store:
        assert store.written == offset
        assert [m.body for m in _all_of(store)] == bodies_after(kept)
        for chunk, end in zip(chunks[kept:], ends[kept:], strict=True):
            store.append_chunk(chunk, store.written, end)
        assert [m.body for m in _all_of(store)] == bodies_after(5)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("confirmed_first", [False, True])
@pytest.mark.parametrize("who", ["master", "slave", "replay"])
def test_of_two_deletions_in_one_turn_the_cut_takes_back_the_second_alone(
    tmp_path, who: str, confirmed_first: bool
) -> None:
    """They are one run of the log, which a cut may part."""
    with make_store(tmp_path / "m") as master:
        for topic in ("t", "u"):
            put(master, topic, 0, message(topic, topic.encode()))
        before = master.written
        master.confirm(before)
        ends = [
            master.stage_record(NewRecord(topic=STATE_TOPICS[0], queue_id=0, body=topic)).end for topic in (b"t", b"u")
        ]
        master.commit()
        if confirmed_first:
            master.confirm(ends[0])
        for topic, end in zip(("t", "u"), ends, strict=True):
            master.delete_topic(topic, end)
        chunk = bytes(master.chunk(0, 1 << 20, limit=ends[1]).data)
    if who != "master":
        with deleting_store(tmp_path / "s", 0) as slave:
            slave.append_chunk(chunk, 0, ends[1])
            assert slave.queues().keys() & {"t", "u"} == set()
            kill(tmp_path / "s", tmp_path / "left")
    directory = {"master": tmp_path / "m", "slave": tmp_path / "s", "replay": tmp_path / "left"}[who]
    if who == "replay":
        with deleting_store(directory, 0):
            pass
    truncate_store(str(directory), small_config(), ends[0])
    with deleting_store(directory, ends[0]) as store:
        assert store.queues().keys() & {"t", "u"} == {"u"}


def test_killed_while_a_deletion_is_taken_back(tmp_path) -> None:
    chunks, ends = events_of(tmp_path / "m")
    with deleting_store(tmp_path / "s", 0) as store:
        for chunk, end in zip(chunks, ends, strict=True):
            store.append_chunk(chunk, store.written, end)
    steps = 0
    while True:
        work = kill(tmp_path / "s", tmp_path / "work")
        killed = False
        try:
            with killed_at(steps) as done:
                truncate_store(str(work), small_config(), ends[0])
        except Killed:
            killed = True
            truncate_store(str(work), small_config(), ends[0])
        with deleting_store(work, 0) as store:
            assert [m.body for m in _all_of(store)] == bodies_after(1), f"killed at {steps}: {done[-3:]}"
        if not killed:
            break
        shutil.rmtree(work)
        steps += 1
    assert done.count("rename") >= 2
    assert "rmdir" in done


def _all_of(store: MessageStore) -> list[StoredMessage]:
    """Of the queue t/0, confirmed or not."""
    queue = store._queues.get("t", 0)
    if queue is None:
        return []
    found = [queue.unit(offset)[0] for offset in range(queue.first_offset, queue.next_offset)]
    return [
        decode_record(bytes(store._log.view(at, at + int.from_bytes(store._log.view(at, at + 4), "big"))))
        for at in found
    ]


def lite_events_of(directory: Path) -> tuple[list[bytes], list[int]]:
    """The same of messages in a lite topic of t, which is deleted once, and in a light queue of their own."""
    with make_store(directory) as master:
        ends = []
        for step in (b"old", b"", b"new"):
            if step:
                for number in range(3):
                    put(master, "t", 0, light("t", b"%s %d" % (step, number), LITE, "%LMQ%a"))
            else:
                master.stage_record(NewRecord(topic=STATE_TOPICS[0], queue_id=0, body=b"t"))
                master.commit()
            ends.append(master.written)
        begins = [0, *ends[:-1]]
        return [
            bytes(master.chunk(begin, 1 << 20, limit=end).data) for begin, end in zip(begins, ends, strict=True)
        ], ends


def lights(store: MessageStore, name: str) -> list[bytes]:
    return [bytes(m.body) for m in read_queue(store, name, 0)]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("closed", ["clean", "killed"])
@pytest.mark.parametrize("kept", range(4))
def test_the_lite_topics_of_a_parent_are_there_where_its_deletion_is_cut(tmp_path, kept: int, closed: str) -> None:
    chunks, ends = lite_events_of(tmp_path / "m")
    directory = tmp_path / "s"
    with deleting_store(directory, 0) as store:
        for chunk, end in zip(chunks, ends, strict=True):
            store.append_chunk(chunk, store.written, end)
        left = kill(directory, tmp_path / "left")
    left = directory if closed == "clean" else left
    offset = [0, *ends][kept]
    truncate_store(str(left), small_config(), offset)
    clock = StillClock()
    deletes = Deletes()
    deletes.store = make_store(left, clock, dispatchers=[deletes])
    with deletes.store as store:
        store.confirm(offset)
        expected = [b"old 0", b"old 1", b"old 2", b"new 0", b"new 1", b"new 2"]
        for _ in range(2):
            checkpoint(store, clock)
        assert lights(store, LITE) == {0: [], 1: expected[:3], 2: [], 3: expected[3:]}[kept]
        assert lights(store, "%LMQ%a") == {0: [], 1: expected[:3], 2: expected[:3], 3: expected}[kept]
        assert not (left / "deletedlight").exists() or os.listdir(left / "deletedlight") == []
        for chunk, end in zip(chunks[kept:], ends[kept:], strict=True):
            store.append_chunk(chunk, store.written, end)
        store.confirm(ends[-1])
        for _ in range(2):
            checkpoint(store, clock)
        found = read_queue(store, LITE, 0)
        assert [bytes(m.body) for m in found] == expected[3:]
        assert [m.queue_offset for m in found] == [3, 4, 5]
        assert lights(store, "%LMQ%a") == expected
    with deleting_store(left, ends[-1]) as store:
        assert lights(store, LITE) == expected[3:]


@pytest.mark.usefixtures("engine")
def test_a_deletion_of_many_lite_topics_goes_on_after_a_stop(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_store, "LIGHTS_AT_ONCE", 2)
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        store.confirm(0)
        for number in range(5):
            put(store, "t", 0, light("t", b"x", f"%LMQ%$t${number}", f"%LMQ%$tt${number}"))
        store.delete_topic("t", store.written)
        store.on_tick(clock.time_ms)
        assert (len(store.light_queues()), store.has_upkeep_left) == (10, False)
        store.confirm(store.written)
        store.on_tick(clock.time_ms)
        assert store.has_upkeep_left
    with make_store(tmp_path / "s", clock) as store:
        store.confirm(store.written)
        assert sum(map(len, (lights(store, f"%LMQ%$t${number}") for number in range(5)))) == 3
        while store.has_upkeep_left:
            store.on_tick(clock.time_ms)
        for number in range(5):
            assert (lights(store, f"%LMQ%$t${number}"), lights(store, f"%LMQ%$tt${number}")) == ([], [b"x"])


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("replicated", [False, True])
def test_a_deletion_that_is_confirmed_is_for_good(tmp_path, replicated: bool) -> None:
    chunks, ends = events_of(tmp_path / "m")
    clock, deletes = StillClock(), Deletes()
    deletes.store = make_store(tmp_path / "s", clock, dispatchers=[deletes])
    with deletes.store as store:
        if replicated:
            store.confirm(0)
        for chunk, end in zip(chunks, ends, strict=True):
            store.append_chunk(chunk, store.written, end)
        aside = tmp_path / "s" / "deletedqueue"
        assert (sorted(os.listdir(aside)) if aside.exists() else []) == (
            [f"{end:020d}.t" for end in (ends[1], ends[3])] if replicated else []
        )
        store.confirm(ends[2])
        checkpoint(store, clock)
        assert (sorted(os.listdir(aside)) if aside.exists() else []) == ([f"{ends[3]:020d}.t"] if replicated else [])
        store.confirm(ends[4])
        checkpoint(store, clock)
        assert not aside.exists() or os.listdir(aside) == []
        assert [m.body for m in read_queue(store, "t", 0)] == bodies_after(5)


def test_a_cut_inside_a_damaged_range_leaves_nothing_damaged_behind_it(tmp_path) -> None:
    """What is written there next is whole, and read."""
    with make_store(tmp_path / "s") as store:
        for number in range(12):
            put(store, "t", 0, message("t", b"%05d" % number))
        store.flush_all(20_000)
        begin, end, written = (store.position_of("t", 0, 6), store.position_of("t", 0, 8), store.written)
        store.damage.add(begin, written, "a test")
    truncate_store(str(tmp_path / "s"), StoreConfig(**SMALL), end)
    with make_store(tmp_path / "s") as store:
        assert store.written == end
        assert store.damage.quarantine.ranges == ((begin, end),)
        for number in range(3):
            put(store, "t", 0, message("t", b"new%02d" % number))
        assert [bytes(found.body) for found in read_queue(store, "t", 0)][-3:] == [b"new00", b"new01", b"new02"]
