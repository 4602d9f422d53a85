"""Staging, committing and reading one store."""

import errno
import os
import struct
from pathlib import Path

import pytest
from store_kit import ALL_TIME, StillClock, make_store, message, put, read_queue, stage, wait_until

from zenitmq.model.errors import (
    InvalidName,
    MessageIllegal,
    MessageNotFound,
    StoreNotWriteable,
    StorePoisoned,
    SystemFault,
    ZenitError,
)
from zenitmq.model.get_status import GetStatus
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.kernel import decode_record
from zenitmq.record.new_record import NewRecord
from zenitmq.store.log import unsynced_files
from zenitmq.store.queues.consume_queue import ConsumeQueue
from zenitmq.store.retention_needs import FixedNeeds

BOUNDS = {"max_messages": 100, "max_bytes": 1 << 20}


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def store(tmp_path, clock):
    with make_store(tmp_path / "s", clock) as opened:
        yield opened


def bodies(store, topic="t", queue_id=0) -> list[bytes]:
    return [m.body for m in read_queue(store, topic, queue_id)]


def test_a_turn_shares_one_write(store, monkeypatch) -> None:
    """Batches of many queues that lie side by side in the arena are one append; each queue gets one write."""
    appends, writes = [], []
    append, queue_append = store._log.append, ConsumeQueue.append
    monkeypatch.setattr(store._log, "append", lambda views: appends.append(len(views[0])) or append(views))
    monkeypatch.setattr(ConsumeQueue, "append", lambda q, at, units: writes.append(q.key) or queue_append(q, at, units))
    placed = [stage(store, "t", n % 3, message("t", b"%d" % n), message("t", b"%d'" % n)) for n in range(9)]
    assert store.arena.used == placed[-1].end
    assert (store.written, store.max_offset("t", 0)) == (0, 0)
    store.commit()
    assert (appends, sorted(writes)) == ([placed[-1].end], [("t", 0), ("t", 1), ("t", 2)])
    assert (store.arena.used, store.written) == (0, placed[-1].end)
    assert [p.queue_offset for p in placed] == [0, 0, 0, 2, 2, 2, 4, 4, 4]
    assert bodies(store, queue_id=1) == [b"1", b"1'", b"4", b"4'", b"7", b"7'"]
    assert sorted(store.take_arrivals()) == [("t", 0), ("t", 1), ("t", 2)]
    assert store.take_arrivals() == []


def test_several_appends_share_one_dispatch(tmp_path, clock, monkeypatch) -> None:
    """What is in the log already stays as it is, also if the process ends before it is dispatched."""
    writes = []
    queue_append = ConsumeQueue.append
    monkeypatch.setattr(ConsumeQueue, "append", lambda q, at, units: writes.append(q.key) or queue_append(q, at, units))
    ends = []
    with make_store(tmp_path / "s", clock) as store:
        for number in range(4):
            stage(store, "t", number % 2, message("t", b"%d" % number, keys="k"))
            store.append()
            store.append()
            ends.append(store.written)
            clock.time_ms += 5
        assert ends == sorted(set(ends))
        assert (writes, store.max_offset("t", 0)) == ([], 0)
        store.dispatch()
        assert writes == [("t", 0), ("t", 1)]
        assert (bodies(store), bodies(store, queue_id=1)) == ([b"0", b"2"], [b"1", b"3"])
        assert len(store.query("t", "k", max_messages=9, unique=False, **ALL_TIME)) == 4
        for number in range(4, 6):
            stage(store, "t", 0, message("t", b"%d" % number))
            store.append()
    with make_store(tmp_path / "s", clock) as store:
        assert store.written > ends[-1]
        assert bodies(store) == [b"0", b"2", b"4", b"5"]


def test_what_could_not_be_appended_is_not_dispatched(store, monkeypatch) -> None:
    stage(store, "t", 0, message("t", b"0"))
    store.append()
    stage(store, "t", 0, message("t", b"1"))

    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(store._log, "_pwritev", fails)
    with pytest.raises(StorePoisoned):
        store.append()
    store.dispatch()
    assert store.max_offset("t", 0) == 0


def test_records_of_the_broker_and_of_producers_mix(store, clock) -> None:
    stage(store, "t", 0, message("t", b"a", keys="k"))
    clock.time_ms += 5
    store.stage_record(NewRecord(topic="t", queue_id=0, body=b"b", properties={"KEYS": "k"}))
    stage(store, "t", 0, message("t", b"c", keys="k"))
    clock.time_ms += 5
    store.stage_record(NewRecord(topic="state", queue_id=0, body=b"d"))
    store.commit()
    assert (bodies(store), bodies(store, "state")) == ([b"a", b"b", b"c"], [b"d"])
    found = [decode_record(r) for r in store.query("t", "k", max_messages=9, unique=False, **ALL_TIME)]
    assert [(m.body, m.stored_at_ms - clock.time_ms) for m in found] == [(b"c", -5), (b"b", -5), (b"a", -10)]
    assert store.queues() == {"state": (0,), "t": (0,)}


@pytest.mark.parametrize("flags", [0x4, 0xC])
def test_half_and_rolled_back_records_are_invisible(store, flags: int) -> None:
    put(store, "t", 0, message("t", b"a"))
    store.stage_record(NewRecord(topic="t", queue_id=0, body=b"half", properties={"KEYS": "h"}, sys_flag=flags))
    store.stage_record(NewRecord(topic="t", queue_id=0, body=b"commit", sys_flag=0x8, prepared_transaction_offset=7))
    store.commit()
    assert bodies(store) == [b"a", b"commit"]
    indexed = store.query("t", "h", max_messages=9, unique=False, **ALL_TIME)
    assert len(indexed) == (flags == 0x4)


def test_a_refused_batch_leaves_no_trace(store) -> None:
    good = message("t", b"good")
    stage(store, "t", 0, good)
    used = store.arena.used
    refused = {
        "other topic": (message("u", b"x"), 1, MessageIllegal),
        "count": (good, 2, MessageIllegal),
        "cut": (good[:-1], 1, MessageIllegal),
        "garbage": (os.urandom(200), 1, MessageIllegal),
        "nothing": (b"", 0, MessageIllegal),
    }
    for name, (data, count, error) in refused.items():
        store.arena.view[used : used + len(data)] = data
        with pytest.raises(error):
            store.stage(used, used + len(data), topic="t", queue_id=0, count=count)
        assert store.arena.used == used, name
    stage(store, "t", 0, message("t", b"behind"))
    store.commit()
    assert bodies(store) == [b"good", b"behind"]


@pytest.mark.parametrize("topic", ["../x", "a/b", "", "a\0", "x" * 128, "ä"])
def test_a_name_never_becomes_a_path(tmp_path, store, topic: str) -> None:
    with pytest.raises(InvalidName):
        stage(store, topic, 0, message("t", b"x"))
    with pytest.raises(InvalidName):
        store.stage_record(NewRecord(topic=topic, queue_id=0, body=b"x"))
    assert store.get_messages(topic, 0, 0, **BOUNDS).status == GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert not (tmp_path / "s" / "consumequeue").exists()


def test_limits_are_told(tmp_path) -> None:
    with make_store(tmp_path / "s", body_bytes_max=100, record_bytes_max=1024) as store:
        with pytest.raises(MessageIllegal, match="limit 100 bytes"):
            stage(store, "t", 0, message("t", bytes(101)))
        with pytest.raises(MessageIllegal, match="limit 1024 bytes"):
            stage(store, "t", 0, message("t", bytes(1000)))
        with pytest.raises(MessageIllegal):
            store.stage_record(NewRecord(topic="t", queue_id=0, body=bytes(1000)))
        assert store.written == 0


def test_what_retention_gave_up_just_before_a_stop_stays_away(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        for number in range(30):
            put(store, "t", 0, message("t", b"%02d" % number * 200))
        store.flush_all(20_000)
        assert len(store._log.remove_before(8192)) == 2
        begin = store.begin
    with make_store(tmp_path / "s") as store:
        assert store.begin == begin == 8192


def expire_while_files_cannot_leave(store, monkeypatch, reason: int) -> None:
    """Sixty messages, of which most are over the store's size; each rename out of the log fails."""
    for number in range(60):
        put(store, "t", 0, message("t", b"%02d" % number * 200))
    store.flush_all(20_000)
    rename = os.rename

    def refuse(path, target):
        if "commitlog" in path:
            raise OSError(reason, os.strerror(reason))
        rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        for second in range(1_000_000, 1_004_000, 1000):
            assert store.on_tick(second) == []
            store._upkeep.run_in_worker(lambda: None).result(20)
    assert len(bodies(store)) == 60


def test_a_disk_that_cannot_give_up_files_poisons_and_reads_go_on(tmp_path, monkeypatch) -> None:
    errors: list[ZenitError] = []
    with make_store(tmp_path / "s", retention_bytes=8192) as store:
        store._log._on_poisoned = errors.append
        expire_while_files_cannot_leave(store, monkeypatch, errno.EROFS)
        assert [error.args[0] for error in errors] == ["store upkeep: Read-only file system"]
        with pytest.raises(StorePoisoned):
            put(store, "t", 0, message("t", b"b"))


def test_a_full_disk_that_cannot_give_up_files_does_so_later(tmp_path, monkeypatch) -> None:
    with make_store(tmp_path / "s", retention_bytes=8192) as store:
        expire_while_files_cannot_leave(store, monkeypatch, errno.ENOSPC)
        put(store, "t", 0, message("t", b"b"))
        assert "segment_deleted" in [event.kind for event in store.on_tick(1_004_000)]
        assert len(bodies(store)) < 60
        assert bodies(store)[-1] == b"b"


def test_what_is_over_its_size_goes_with_its_index_files(tmp_path) -> None:
    index = tmp_path / "s" / "index"
    with make_store(tmp_path / "s", retention_bytes=8192, index_entries=16, checkpoint_interval_ms=50) as store:
        for number in range(60):
            put(store, "t", 0, message("t", b"%02d" % number * 200, keys="k"))
        store.flush_all(20_000)
        first = min(index.iterdir())
        seconds = iter(range(1_000_000, 1_000_000_000, 1000))

        def tick() -> bool:
            store.on_tick(next(seconds))
            return store.begin > 4096

        wait_until(tick)
        wait_until(lambda: not first.exists())
        assert store.query("t", "k", max_messages=9, unique=False, **ALL_TIME)


def test_batches_roll_to_the_next_segment_whole(store) -> None:
    for number in range(30):
        placed = put(store, "t", 0, *(message("t", b"%02d-%d" % (number, part) * 30) for part in range(5)))
        assert placed.physical_offset // 4096 == (placed.end - 1) // 4096
    assert bodies(store) == [b"%02d-%d" % (number, part) * 30 for number in range(30) for part in range(5)]


@pytest.mark.parametrize("staged_before", [False, True])
def test_a_batch_larger_than_a_segment_is_split(store, staged_before: bool) -> None:
    if staged_before:
        stage(store, "t", 0, message("t", b"before"))
    parts = [message("t", b"%03d" % part * 100) for part in range(40)]
    placed = stage(store, "t", 0, *parts)
    store.commit()
    assert placed.count == 40
    assert len(placed.pieces) >= 4
    assert sum(count for count, _ in placed.pieces) == 40
    assert placed.queue_offset == staged_before
    offset = placed.queue_offset
    for count, physical in placed.pieces:
        first = decode_record(store.record_at(physical))
        assert first.queue_offset == offset
        offset += count
    assert bodies(store)[staged_before:] == [b"%03d" % part * 100 for part in range(40)]
    with pytest.raises(MessageIllegal):
        stage(store, "t", 0, message("t", bytes(5000)))
    with pytest.raises(MessageIllegal):
        stage(store, "t", 0, *parts, message("u", b"x"))
    assert len(bodies(store)) == 40 + staged_before


@pytest.mark.usefixtures("engine")
def test_every_status_and_its_next_offset(tmp_path) -> None:
    clock = StillClock()
    settings = {"retention_ms": 1000, "flush_interval_ms": 1, "retention_bytes": 0}
    with make_store(tmp_path / "s", clock, **settings) as store:
        assert read(store, 5) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, 0)
        stage(store, "t", 0, message("t", b"x", tags="a"))
        assert read(store, 0) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, 0)
        store.commit()
        put(store, "t", 0, *(message("t", b"x", tags="b") for _ in range(9)))
        assert read(store, 0) == (GetStatus.FOUND, 10, 0, 10, 10)
        assert read(store, 0, codes=(java_hash("a"),)) == (GetStatus.FOUND, 10, 0, 10, 1)
        assert read(store, 1, codes=(java_hash("a"),)) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0, 10, 0)
        assert read(store, 10) == (GetStatus.OFFSET_OVERFLOW_ONE, 10, 0, 10, 0)
        assert read(store, 11) == (GetStatus.OFFSET_OVERFLOW_BADLY, 0, 0, 10, 0)
        for _ in range(60):
            put(store, "t", 0, message("t", bytes(150)))
        store._log.wait_flushed(store.written, 20_000)
        for _ in range(6):
            clock.time_ms += 200_000_000_000  # beyond the files' own times
            store.on_tick(clock.time_ms)
            store._upkeep.run_in_worker(lambda: None).result(20)
        low = store.min_offset("t", 0)
        assert low > 20
        assert store.statistics().begin_offset > 0
        assert read(store, low - 1) == (GetStatus.OFFSET_TOO_SMALL, low, low, 70, 0)
        assert read(store, 71) == (GetStatus.OFFSET_OVERFLOW_BADLY, 70, low, 70, 0)
        assert read(store, low)[0] == GetStatus.FOUND


def read(store, offset: int, **bounds) -> tuple[int, int, int, int, int]:
    found = store.get_messages("t", 0, offset, **{**BOUNDS, **bounds})
    assert sum(map(len, found.slices)) > 0 or found.count == 0
    return found.status, found.next_offset, found.min_offset, found.max_offset, found.count


def test_reads_are_bounded(store) -> None:
    size = put(store, "t", 0, *(message("t", bytes(20)) for _ in range(20))).end // 20
    assert read(store, 0, max_messages=7)[1] == 7
    assert read(store, 0, max_bytes=5 * size)[1] == 5
    assert read(store, 0, max_bytes=5 * size - 1)[1] == 4
    assert read(store, 0, max_bytes=1)[1] == 1  # one message always
    one_slice = store.get_messages("t", 0, 0, **BOUNDS)
    assert [len(view) for view in one_slice.slices] == [16 * size]  # one queue file's worth of neighbours in one slice


@pytest.mark.usefixtures("engine")
def test_units_examined_are_bounded(tmp_path) -> None:
    with make_store(tmp_path / "s", pull_units_max=16) as store:
        put(store, "t", 0, *(message("t", b"x", tags="b") for _ in range(20)), message("t", b"x", tags="a"))
        assert read(store, 0, codes=(java_hash("a"),)) == (GetStatus.NO_MATCHED_MESSAGE, 16, 0, 21, 0)
        assert read(store, 16, codes=(java_hash("a"),)) == (GetStatus.FOUND, 21, 0, 21, 1)


@pytest.mark.parametrize("unit", [(0, 5, 0), (0, -1, 0), (-1, 100, 0), (-1, -1, -1), (1 << 62, 0, 0)])
def test_offset_by_time_passes_units_over_that_name_no_record(store, clock, unit) -> None:
    begin = clock.time_ms
    for number in range(5):
        clock.time_ms = begin + number
        put(store, "t", 0, message("t", b"x"))
    (queue_file,) = Path(store._directory, "consumequeue", "t", "0").iterdir()
    with open(queue_file, "r+b") as file:
        file.seek(20 * 2)
        file.write(struct.pack(">qiq", *unit))
    assert store.offset_by_time("t", 0, begin + 4, upper=False) == 4


@pytest.mark.usefixtures("engine")
def test_offset_by_time(store, clock) -> None:
    begin = clock.time_ms
    for ms in (0, 10, 10, 10, 20, 40):
        clock.time_ms = begin + ms
        put(store, "t", 0, message("t", b"x"))
    answers = {
        ms: tuple(store.offset_by_time("t", 0, begin + ms, upper=upper) for upper in (False, True))
        for ms in range(-1, 42)
    }
    assert answers[-1] == (0, 0)
    assert answers[0] == (0, 0)
    assert answers[5] == (1, 0)
    assert answers[10] == (1, 3)
    assert answers[11] == (4, 3)
    assert answers[40] == (5, 5)
    assert answers[41] == (6, 5)
    assert store.offset_by_time("u", 0, begin, upper=False) == 0


@pytest.mark.parametrize("moment", [1, 2, 3, 5, 8, 12])
def test_a_search_by_time_that_loses_files_to_another_queue_begins_anew(tmp_path, clock, monkeypatch, moment) -> None:
    """Between two of its looks retention takes the files it reads, and another queue writes over them."""
    begin = clock.time_ms
    settings = {"retention_bytes": 8192, "recycle_segments": 8, "index_enabled": False}

    def retire(store) -> None:
        store.flush_all(20_000)
        for _ in range(4):
            store.on_tick(clock.time_ms)
            store._upkeep.run_in_worker(lambda: None).result(20)
            clock.time_ms += 100

    with make_store(tmp_path / "s", clock, **settings) as store:
        for number in range(100):
            clock.time_ms = begin + 1000 * number
            put(store, "t", 0, message("t", b"x"))
            put(store, "t", 1, message("t", b"x"))
        reads, pread = [], os.pread

        def lose(fd: int, size: int, at: int) -> bytes:
            reads.append(fd)
            if len(reads) == moment:
                retire(store)
                for _ in range(160):
                    put(store, "t", 1, message("t", b"y"))
            return pread(fd, size, at)

        with store._queues.private("t", 0) as private:
            low = private.first_offset
        monkeypatch.setattr(os, "pread", lose)
        found = store.offset_by_time("t", 0, begin + 60_000, upper=False)
        monkeypatch.undo()
        assert store._queues.get("t", 0).first_offset > low
        assert found == store.offset_by_time("t", 0, begin + 60_000, upper=False) > 60
        monkeypatch.setattr(store._queues, "begins_at", lambda *_: False)
        with pytest.raises(SystemFault, match="t queue 0"):
            store.offset_by_time("t", 0, begin, upper=False)


def test_positions_that_hold_no_record(store) -> None:
    placed = put(store, "t", 0, message("t", b"x"))
    assert decode_record(store.record_at(0)).body == b"x"
    for offset in (1, placed.end, 1 << 40):
        with pytest.raises(MessageNotFound):
            store.record_at(offset)


def test_a_deleted_topic_begins_anew(tmp_path, store) -> None:
    put(store, "t", 0, message("t", b"old"))
    put(store, "t", 1, message("t", b"old"))
    store.delete_topic("t", store.written)
    assert store.queues() == {}
    assert not (tmp_path / "s" / "consumequeue" / "t").exists()
    assert put(store, "t", 0, message("t", b"new")).queue_offset == 0
    assert bodies(store) == [b"new"]


def test_without_an_index(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        put(store, "t", 0, message("t", b"x", keys="k"))
    with make_store(tmp_path / "s", index_enabled=False) as store:
        put(store, "t", 0, message("t", b"y", keys="k"))
        assert store.query("t", "k", max_messages=9, unique=False, **ALL_TIME) == []
        assert bodies(store) == [b"x", b"y"]
    with make_store(tmp_path / "s") as store:  # made again from the log
        assert len(store.query("t", "k", max_messages=9, unique=False, **ALL_TIME)) == 2


def test_a_full_disk_at_the_queues(store, monkeypatch) -> None:
    """The log took the message; its unit waits, sends are refused, reads go on, and all resumes with the space."""
    put(store, "t", 0, message("t", b"a"))
    real = ConsumeQueue.append
    monkeypatch.setattr(ConsumeQueue, "append", _no_space)
    put(store, "t", 0, message("t", b"b"))
    with pytest.raises(StoreNotWriteable) as refusal:
        put(store, "t", 0, message("t", b"c"))
    assert refusal.value.retriable
    assert bodies(store) == [b"a"]
    store.on_tick(1)
    with pytest.raises(StoreNotWriteable):
        put(store, "t", 0, message("t", b"c"))
    monkeypatch.setattr(ConsumeQueue, "append", real)
    store.on_tick(2)
    assert put(store, "t", 0, message("t", b"c")).queue_offset == 2
    assert bodies(store) == [b"a", b"b", b"c"]


def test_a_full_disk_costs_checkpoints_not_the_broker(tmp_path, monkeypatch) -> None:
    """What cannot be written down now is replayed at the next start."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        put(store, "t", 0, message("t", b"a", keys="k"))
        with monkeypatch.context() as full:
            full.setattr("zenitmq.store.upkeep.write_checkpoint", _no_space)
            clock.time_ms += 1000
            store.on_tick(clock.time_ms)
            store._upkeep.run_in_worker(lambda: None).result(20)
            put(store, "t", 0, message("t", b"b", keys="k"))
            assert store._log.poisoned is None
            store.__exit__(None, None, None)
    with make_store(tmp_path / "s", clock) as store:
        assert bodies(store) == [b"a", b"b"]
        assert len(store.query("t", "k", max_messages=9, unique=False, **ALL_TIME)) == 2


def test_a_failed_sync_of_a_queue_is_final(tmp_path, monkeypatch) -> None:
    """Its pages may be gone: the process must stop, and the next start goes back to the last checkpoint."""
    errors = []
    with make_store(tmp_path / "s") as store:
        store._log._on_poisoned = errors.append
        put(store, "t", 0, message("t", b"a"))
        monkeypatch.setattr("zenitmq.store.log.unsynced_files._open_file", _no_space)
        store.on_tick(1_800_000_000_000)
        store._upkeep.run_in_worker(lambda: None).result(20)
        assert len(errors) == 1
        with pytest.raises(StorePoisoned):
            put(store, "t", 0, message("t", b"b"))
        monkeypatch.undo()
    assert (tmp_path / "s" / "abort").exists()
    with make_store(tmp_path / "s") as store:
        assert bodies(store) == [b"a"]


def _no_space(*_args):
    raise OSError(errno.ENOSPC, "no space")


def test_a_disk_over_its_watermark_refuses_sends_and_says_so(tmp_path) -> None:
    settings = {"disk_clean_ratio": 0.0, "disk_force_ratio": 0.0, "disk_refuse_ratio": 0.000001}
    with make_store(tmp_path / "s", **settings) as store:
        put(store, "t", 0, message("t", b"a"))
        assert [event.kind for event in store.on_tick(1)] == ["disk_full"]
        assert store.on_tick(2) == []
        told = store.statistics().deletes_early
        assert told is not None
        assert "store.disk_force_ratio" in told
        with pytest.raises(StoreNotWriteable):
            put(store, "t", 0, message("t", b"b"))
        assert bodies(store) == [b"a"]


def test_a_disk_over_its_watermark_takes_what_may_free_room_and_nothing_behind_it(tmp_path) -> None:
    settings = {"disk_clean_ratio": 0.0, "disk_force_ratio": 0.0, "disk_refuse_ratio": 0.000001, "segment_bytes": 4096}
    with make_store(tmp_path / "s", **settings) as store:
        put(store, "t", 0, message("t", b"a"))
        store.on_tick(1)
        for number in range(60):  # over the ends of segments
            store.stage_record(NewRecord(topic="state", queue_id=0, body=b"%0100d" % number), frees_room=True)
            with pytest.raises(StoreNotWriteable):
                stage(store, "t", 0, message("t", b"b"))
        store.commit()
        with pytest.raises(StoreNotWriteable):
            store.stage_record(NewRecord(topic="state", queue_id=0, body=b"no"))
        assert bodies(store) == [b"a"]
        assert len(read_queue(store, "state", 0)) == 60


@pytest.mark.parametrize("allowed", [False, True])
def test_retention_and_what_groups_have_yet_to_consume(tmp_path, allowed: bool) -> None:
    clock = StillClock()
    settings = {"retention_ms": 1000, "flush_interval_ms": 1, "delete_unconsumed": allowed}
    with make_store(tmp_path / "s", clock, **settings) as store:
        for _ in range(80):
            put(store, "t", 0, message("t", bytes(150)))
        store.protect(FixedNeeds({("t", 0): 3, ("gone", 7): 0}))
        store._log.wait_flushed(store.written, 20_000)
        events = []
        for _ in range(6):
            clock.time_ms += 200_000_000_000  # beyond the files' own times
            events += store.on_tick(clock.time_ms)
            store._upkeep.run_in_worker(lambda: None).result(20)
        kinds = {event.kind for event in events}
        if allowed:
            assert kinds == {"segment_deleted", "unconsumed_deleted"}
            assert str(next(e for e in events if e.kind == "unconsumed_deleted")).startswith(
                "unconsumed_deleted: t queue 0: offsets 3 to "
            )
            assert store.min_offset("t", 0) > 3
        else:
            assert [event.kind for event in events] == ["unconsumed_held"]
            assert store.min_offset("t", 0) == 0
            store.protect(FixedNeeds({("t", 0): 80}))
            store.on_tick(clock.time_ms)
            assert store.min_offset("t", 0) > 3


@pytest.mark.parametrize("is_full", [False, True])
def test_retention_and_what_readers_hold(tmp_path, is_full: bool) -> None:
    clock = StillClock()
    settings = {"retention_ms": 1000, "flush_interval_ms": 1}
    if is_full:
        settings |= {"disk_clean_ratio": 0.0, "disk_force_ratio": 0.0}
    with make_store(tmp_path / "s", clock, **settings) as store:
        for _ in range(80):
            put(store, "t", 0, message("t", bytes(150)))
        store.hold(FixedNeeds({("t", 0): 3, ("gone", 7): 0}))
        store._log.wait_flushed(store.written, 20_000)
        events = []
        for _ in range(6):
            clock.time_ms += 200_000_000_000  # beyond the files' own times
            events += store.on_tick(clock.time_ms)
            store._upkeep.run_in_worker(lambda: None).result(20)
        if is_full:
            assert {event.kind for event in events} == {"segment_deleted", "held_deleted"}
            assert str(next(e for e in events if e.kind == "held_deleted")).startswith(
                "held_deleted: t queue 0: offsets 3 to "
            )
            assert store.min_offset("t", 0) > 3
        else:
            assert [event.kind for event in events] == ["held_for_readers"]
            assert store.min_offset("t", 0) == 0
            store.hold(FixedNeeds({}))
            store.on_tick(clock.time_ms)
            assert store.min_offset("t", 0) > 3


class Notes:
    """A dispatcher that wants one topic only."""

    topics = frozenset({"state"})
    run_flags = 0

    def __init__(self) -> None:
        self.told: list[tuple[str, int, bytes]] = []
        self.position = 0

    def on_run(self, run) -> None:
        self.told.append((run.topic, run.queue_offset, decode_record(bytes(run.records)).body))

    def advance(self, end: int) -> None:
        self.position = end

    def reflected(self) -> int:
        return 0

    def persist(self) -> int:
        return 0


def test_other_dispatchers_are_told_in_order_and_again_after_a_start(tmp_path) -> None:
    notes = Notes()
    with make_store(tmp_path / "s", dispatchers=(notes,)) as store:
        for number in range(5):
            put(store, "t", 0, message("t", b"x"))
            store.stage_record(NewRecord(topic="state", queue_id=0, body=b"%d" % number))
            store.commit()
        assert notes.told == [("state", n, b"%d" % n) for n in range(5)]
        assert notes.position == store.written
    again = Notes()
    with make_store(tmp_path / "s", dispatchers=(again,)) as store:
        assert [told for told in again.told if told[0] == "state"] == notes.told
        assert again.position == store.written


def test_what_is_noted_again_during_a_sync_keeps_no_other_file_from_its_own(store, monkeypatch) -> None:
    """The loop writes to the queue that is being synced, again and again: all the others are synced all the same."""
    for queue_id in range(4):
        put(store, "t", queue_id, message("t", b"a"))
    open_file, synced = unsynced_files._open_file, []

    def open_late(path: str) -> int | None:
        synced.append(path)
        put(store, "t", int(path.split("/")[-2]), message("t", b"more"))
        return open_file(path)

    monkeypatch.setattr(unsynced_files, "_open_file", open_late)
    end = store.written
    assert store._queues.persist() == end
    assert sorted(int(path.split("/")[-2]) for path in synced) == [0, 1, 2, 3]
    synced.clear()
    store._queues.persist()
    assert len(synced) == 4, "what was written during the sync is synced the next time"
