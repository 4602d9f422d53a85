"""A store after a kill or a power cut: what was acknowledged is there, a torn tail is cut, damage is set aside, and the
queues and the index are those that the log alone would give."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from store_kit import ALL_TIME, StillClock, index_bytes, kill, make_store, message, put, read_queue, stage, tree

from zenitmq.model.errors import CorruptRecordError, MessageNotFound, StoreFormatError, StoreLocked
from zenitmq.record.kernel import decode_record
from zenitmq.store.integrity.recovery import LastStop
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import verify_store
from zenitmq.store.opening.store_files import read_abort

QUEUES = 3


def numbered(number: int, size: int = 20) -> bytes:
    return message(
        "t", b"%05d" % number * (size // 5), tags=f"tag{number % 3}", keys=f"k{number} all", unique=f"{number:032X}"
    )


def fill(store: MessageStore, begin: int, end: int, clock: StillClock | None = None) -> None:
    for number in range(begin, end):
        if clock is not None:
            clock.time_ms += 700
        put(store, "t", number % QUEUES, numbered(number))


def numbers(store: MessageStore) -> list[int]:
    """What is stored, in the order sent; each queue must be in order."""
    found = [[int(m.body[:5]) for m in read_queue(store, "t", q)] for q in range(QUEUES)]
    assert all(queue == sorted(queue) for queue in found)
    return sorted(number for queue in found for number in queue)


def assert_equals_rebuild(store: MessageStore, directory, scratch) -> None:
    """Queues and index are what they become when they are made anew from a copy of the log."""
    shutil.rmtree(scratch, ignore_errors=True)
    kill(directory, scratch)
    for folder in ("consumequeue", "index"):
        shutil.rmtree(os.path.join(scratch, folder), ignore_errors=True)
    with make_store(scratch, StillClock(1)) as rebuilt:
        assert rebuilt.written == store.written
        assert tree(scratch, "consumequeue") == tree(directory, "consumequeue")
        assert index_bytes(scratch) == index_bytes(directory)


def flush(store: MessageStore) -> None:
    store._log.request_flush(store.written)
    store._log.wait_flushed(store.written, 20_000)


def checkpoint(store: MessageStore, clock: StillClock) -> None:
    """Two ticks: the first one's mark is what the second one writes down."""
    for _ in range(2):
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        store._upkeep.run_in_worker(lambda: None).result(20)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("at", [0, 1, 15, 40, 77])
def test_killed_at_any_time_nothing_written_is_lost(tmp_path, at: int, flushed: bool) -> None:
    """The kernel keeps what a killed process wrote; with or without checkpoints and checksum entries of it."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, at, clock)
        if flushed:
            flush(store)
            checkpoint(store, clock)
        fill(store, at, at + 7, clock)
        left = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    for _ in range(2):
        with make_store(left, clock) as store:
            assert store.written == written
            assert numbers(store) == list(range(at + 7))
            assert_equals_rebuild(store, left, tmp_path / "scratch")
            for number in range(at + 7):
                (record,) = store.query("t", f"{number:032X}", max_messages=5, unique=True, **ALL_TIME)
                assert decode_record(record).keys == (f"k{number}", "all")
            assert len(store.query("t", "all", max_messages=1000, unique=False, **ALL_TIME)) == at + 7


def test_what_is_staged_and_not_committed_was_never_there(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 5)
        stage(store, "t", 0, numbered(5))
        left = kill(tmp_path / "s", tmp_path / "killed")
        store.commit()
        assert numbers(store) == list(range(6))
    with make_store(left) as store:
        assert numbers(store) == list(range(5))
        fill(store, 5, 8)
        assert numbers(store) == list(range(8))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize("other_boot", [False, True])
def test_torn_at_every_byte_of_the_last_append(tmp_path, vouched: bool, other_boot: bool) -> None:
    """The log ends at a whole record of it at most; it goes on from there, and nothing torn ever returns."""
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 9)
        begin = store.written
        # a unit is written once the whole of its append is
        queues = shutil.copytree(tmp_path / "s" / "consumequeue", tmp_path / "queues")
        put(store, "t", 0, numbered(9), numbered(10))
        end = store.written
        if vouched:
            flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    shutil.rmtree(left / "consumequeue")
    shutil.copytree(queues, left / "consumequeue")
    if other_boot:
        (left / "abort").write_text("7\nanother boot\n")
    log = left / "commitlog" / f"{0:020d}"
    whole = log.read_bytes()
    seen = set()
    for cut in range(begin, end, 1 if vouched else 3):
        work = kill(left, tmp_path / "work")
        (work / "commitlog" / log.name).write_bytes(whole[:cut] + bytes(len(whole) - cut))
        with make_store(work) as store:
            kept = numbers(store)
            assert kept in (list(range(9)), list(range(10))), cut
            seen.add(len(kept))
            assert store.statistics().quarantined_ranges == 0, cut
            if cut % 25 == 0:
                fill(store, 20, 22)
                assert numbers(store) == [*kept, 20, 21]
                assert_equals_rebuild(store, work, tmp_path / "scratch")
        assert verify_store(str(work))["damaged"] == []
        shutil.rmtree(work)
    assert seen == ({9} if vouched else {9, 10})  # what an entry does not vouch for is torn as a whole


def flip(work: Path, position: int) -> None:
    """One bit of the log, at a physical offset."""
    log = work / "commitlog" / f"{position // 4096 * 4096:020d}"
    data = bytearray(log.read_bytes())
    data[position % 4096] ^= 1 << position % 8
    log.write_bytes(data)


@pytest.mark.parametrize("other_boot", [False, True])
def test_damage_before_what_entries_vouch_for_is_quarantined(tmp_path, other_boot: bool) -> None:
    """Flipped bits cost the record they hit and no other; reads pass over it, and nothing is cut."""
    with make_store(tmp_path / "s") as store:
        places = [put(store, "t", n % QUEUES, numbered(n)) for n in range(40)]
        flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    if other_boot:
        (left / "abort").write_text("7\nanother boot\n")
    hit = places[20]
    for position in range(hit.physical_offset, hit.end, 11):
        work = kill(left, tmp_path / "work")
        flip(work, position)
        with make_store(work) as store:
            assert store.written == written, position
            assert numbers(store) == [n for n in range(40) if n != 20], position
            statistics = store.statistics()
            assert (statistics.quarantined_ranges, statistics.quarantined_bytes) == (1, hit.end - hit.physical_offset)
            with pytest.raises(CorruptRecordError):
                store.record_at(hit.physical_offset)
            assert store.query("t", f"{20:032X}", max_messages=5, unique=True, **ALL_TIME) == []
            fill(store, 40, 43)
        with make_store(work) as store:
            assert numbers(store) == [n for n in range(43) if n != 20]
            assert store.statistics().quarantined_ranges == 1
        assert [(d["begin"], d["end"]) for d in verify_store(str(work))["damaged"]] == [(hit.physical_offset, hit.end)]
        shutil.rmtree(work)


@pytest.mark.parametrize(("at", "costs"), [(1, 7), (5, 7), (9, 1), (33, 7), (87, 1), (95, 1)])
def test_damage_within_an_append_costs_one_record_where_its_header_is_whole(tmp_path, at: int, costs: int) -> None:
    """Else the rest of that append: what stands in it may be a body, and a body may look like records."""
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 3)
        batch = [numbered(n) for n in range(3, 13)]
        placed = put(store, "t", 0, *batch)
        fill(store, 13, 16)
        flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    flip(left, placed.physical_offset + sum(len(record) for record in batch[:3]) + at)
    with make_store(left) as store:
        assert numbers(store) == [n for n in range(16) if not 6 <= n < 6 + costs]
        assert store.statistics().quarantined_bytes == sum(len(record) for record in batch[3 : 3 + costs])


@pytest.mark.parametrize("other_boot", [False, True])
def test_damage_before_what_nothing_vouches_for_ends_the_log(tmp_path, other_boot: bool) -> None:
    """Before the first flush a killed process may have been in the middle of a write: what is behind may be old bytes."""
    with make_store(tmp_path / "s") as store:
        places = [put(store, "t", n % QUEUES, numbered(n)) for n in range(40)]
        left = kill(tmp_path / "s", tmp_path / "killed")
    if other_boot:
        (left / "abort").write_text("7\nanother boot\n")
    for at in (9, 87, 95):
        work = kill(left, tmp_path / "work")
        flip(work, places[20].physical_offset + at)
        if not other_boot:
            shutil.rmtree(work / "consumequeue")  # its units name what is behind
        with make_store(work) as store:
            assert store.written == places[20].physical_offset, at
            assert numbers(store) == list(range(20)), at
            assert store.statistics().quarantined_ranges == 0, at
        shutil.rmtree(work)


@pytest.mark.usefixtures("engine")
def test_damage_in_the_last_append_that_was_flushed(tmp_path) -> None:
    """The checkpoint says it was on the disk, so it is damage and not a torn tail."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 5)
        placed = put(store, "t", 0, numbered(5))
        flush(store)
        checkpoint(store, clock)
        left = kill(tmp_path / "s", tmp_path / "killed")
    for folder in ("consumequeue", "index"):
        shutil.rmtree(left / folder)
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(placed.physical_offset + 100)
        log.write(b"?")
    assert verify_store(str(left))["damaged"] == [
        {"begin": placed.physical_offset, "end": placed.end, "reason": "no valid record"}
    ]
    with make_store(left, clock) as store:
        assert store.written == placed.end
        assert numbers(store) == list(range(5))
        fill(store, 6, 9)
        assert numbers(store) == [0, 1, 2, 3, 4, 6, 7, 8]


def test_damage_at_a_segment_s_beginning_and_end(tmp_path) -> None:
    """The blank record and a segment's first record are no end either where valid records follow."""
    with make_store(tmp_path / "s") as store:
        places = [put(store, "t", 0, numbered(n)) for n in range(40)]
        flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    rolled = next(n for n, p in enumerate(places) if p.physical_offset == 4096)
    for position, lost in ((places[rolled - 1].end + 4, []), (4096 + 4, [rolled]), (4096 - 1, [])):
        work = kill(left, tmp_path / "work")
        log = work / "commitlog" / f"{position // 4096 * 4096:020d}"
        data = bytearray(log.read_bytes())
        data[position % 4096] ^= 0x10
        log.write_bytes(data)
        with make_store(work) as store:
            assert store.written == written
            assert numbers(store) == [n for n in range(40) if n not in lost]
        shutil.rmtree(work)


def test_only_what_follows_the_checkpoint_is_read(tmp_path, caplog) -> None:
    """A restart after a kill takes as long whatever the log's size."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 300, clock)
        flush(store)
        checkpoint(store, clock)
        mark = store.written
        fill(store, 300, 305, clock)
        left = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    caplog.set_level("INFO")
    with make_store(left, clock) as store:
        assert f"scanned={written - mark} replayed=5 " in caplog.text
        assert numbers(store) == list(range(305))
        assert_equals_rebuild(store, left, tmp_path / "scratch")


@pytest.mark.parametrize("lost", ["queues", "index slots", "index entries", "index header"])
def test_pages_that_a_power_cut_kept_from_the_disk_are_made_again(tmp_path, lost: str) -> None:
    """Behind the checkpoint the queues' and index's pages may be old or new, in any mix."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 20, clock)
        flush(store)
        checkpoint(store, clock)
        old = kill(tmp_path / "s", tmp_path / "old")
        fill(store, 20, 30, clock)
        flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    (left / "abort").write_text("7\nanother boot\n")
    if lost == "queues":
        for path in (left / "consumequeue").rglob(f"{0:010d}*"):
            path.write_bytes((old / path.relative_to(left)).read_bytes())
    else:
        name = min(os.listdir(left / "index"))
        data = bytearray((left / "index" / name).read_bytes())
        begin, end = {"index slots": (40, 168), "index entries": (168, len(data)), "index header": (0, 40)}[lost]
        data[begin:end] = (old / "index" / name).read_bytes()[begin:end]
        (left / "index" / name).write_bytes(data)
    with make_store(left, clock) as store:
        assert numbers(store) == list(range(30))
        assert_equals_rebuild(store, left, tmp_path / "scratch")


@pytest.mark.usefixtures("engine")
def test_queue_units_of_what_was_cut_do_not_come_back(tmp_path) -> None:
    """Units point behind the end; the log grows over that end later; then it is killed again."""
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 12)
        left = kill(tmp_path / "s", tmp_path / "killed")
        cut = store._queues.get("t", 0).unit(2)[0]
    log = left / "commitlog" / f"{0:020d}"
    data = log.read_bytes()
    log.write_bytes(data[:cut] + bytes(len(data) - cut))
    with make_store(left) as store:
        assert store.written == cut
        for number in range(50, 60):  # all to one queue: the other two are not touched
            put(store, "t", 1, numbered(number))
        again = kill(left, tmp_path / "again")
    with make_store(again) as store:
        assert numbers(store) == [*range(6), *range(50, 60)]
        assert_equals_rebuild(store, again, tmp_path / "scratch")


def test_killed_while_a_segment_was_being_made(tmp_path) -> None:
    """What is left of it neither hinders the start nor the next roll."""
    with make_store(tmp_path / "s", preallocate_segments=2) as store:
        fill(store, 0, 10)
        left = kill(tmp_path / "s", tmp_path / "killed")
    (left / "spare" / "preparing").write_bytes(bytes(1000))
    with make_store(left, preallocate_segments=2) as store:
        fill(store, 10, 200)
        assert numbers(store) == list(range(200))


def test_two_brokers_on_one_directory(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 3)
        with pytest.raises(StoreLocked), make_store(tmp_path / "s"):
            pass
        assert numbers(store) == [0, 1, 2]


def test_a_failed_start_leaves_the_directory_to_the_next(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 3)
    strange = tmp_path / "s" / "consumequeue" / "t" / "strange"
    strange.mkdir()
    for _ in range(2):
        with pytest.raises(Exception, match="strange"), make_store(tmp_path / "s"):
            pass
    strange.rmdir()
    with make_store(tmp_path / "s") as store:
        assert numbers(store) == [0, 1, 2]
        with pytest.raises(MessageNotFound):
            store.record_at(10_000)


def put_forever(directory: str) -> None:
    """A child: prints each message's number once it is on the disk."""
    with make_store(directory, flush_mode="sync", segment_bytes=65536) as store:
        number = 0
        while True:
            put(store, "t", number % QUEUES, numbered(number, 200))
            store._log.wait_flushed(store.written, 20_000)
            os.write(1, b"%d\n" % number)
            number += 1
            if number % 10 == 0:
                store.on_tick(number)


@pytest.mark.parametrize("after", [1, 30, 200])
def test_a_real_process_killed_while_it_writes(tmp_path, after: int) -> None:
    """Every message that a sync flush acknowledged is there after kill -9, and nothing that was not sent."""
    script = (
        "import importlib.util, sys\n"
        f"sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})\n"
        f"spec = importlib.util.spec_from_file_location('sender', {__file__!r})\n"
        "sender = importlib.util.module_from_spec(spec); spec.loader.exec_module(sender)\n"
        f"sender.put_forever({str(tmp_path / 's')!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        acknowledged = -1
        while acknowledged < after:
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split()
        acknowledged = max([acknowledged, *map(int, rest)])
    with make_store(tmp_path / "s", segment_bytes=65536) as store:
        found = numbers(store)
        assert found == list(range(len(found)))
        assert acknowledged < len(found) <= acknowledged + 2
        assert_equals_rebuild(store, tmp_path / "s", tmp_path / "scratch")


def test_a_power_cut_that_follows_another_before_the_first_checkpoint(tmp_path) -> None:
    """The log ends lower after the first, and grows over what queues and index held: they are made again from there."""
    clock = StillClock()
    settings = {"segment_bytes": 65536}
    with make_store(tmp_path / "s", clock, **settings) as store:
        fill(store, 0, 20, clock)
        flush(store)
        checkpoint(store, clock)
        fill(store, 20, 40, clock)
        checkpoint(store, clock)  # queues and index are on the disk, the log is not yet
        left = kill(tmp_path / "s", tmp_path / "first")
    (left / "abort").write_text("7\nanother boot\n")
    with make_store(left, clock, **settings) as store:
        assert numbers(store) == list(range(20))
        for folder in ("consumequeue", "index"):
            shutil.copytree(left / folder, tmp_path / "then" / folder)
        fill(store, 100, 120, clock)
        flush(store)
        again = kill(left, tmp_path / "second")
    (again / "abort").write_text("7\nanother boot\n")
    for folder in ("consumequeue", "index"):  # their pages of the last moments did not reach the disk
        shutil.rmtree(again / folder)
        shutil.copytree(tmp_path / "then" / folder, again / folder)
    with make_store(again, clock, **settings) as store:
        assert numbers(store) == [*range(20), *range(100, 120)]
        for number in range(100, 120):
            assert store.query("t", f"{number:032X}", max_messages=2, unique=True, **ALL_TIME)


def test_a_checkpoint_before_the_first_flush_takes_nothing_back(tmp_path, caplog) -> None:
    """A process counts nothing as flushed after a kill; killed itself, the next one reads no more than it had to."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 300, clock)
        flush(store)
        checkpoint(store, clock)
        mark = store.written
        first = kill(tmp_path / "s", tmp_path / "first")
    with make_store(first, clock) as store:
        checkpoint(store, clock)
        fill(store, 300, 303, clock)
        checkpoint(store, clock)
        assert store.flushed < mark
        left = kill(first, tmp_path / "killed")
        written = store.written
    caplog.set_level("INFO")
    with make_store(left, clock) as store:
        assert f"scanned={written - mark} replayed=3 " in caplog.text
        assert numbers(store) == list(range(303))


def test_after_a_failed_sync_the_kernel_is_not_counted_on(tmp_path) -> None:
    """It runs on, but has dropped pages: what is behind them is no log, though only the process ended."""
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 3)
        left = kill(tmp_path / "s", tmp_path / "killed")
        assert LastStop.of(read_abort(str(left))) is LastStop.KILLED
        store._log.poison("an fsync failed")
        left = kill(tmp_path / "s", tmp_path / "failed")
        assert LastStop.of(read_abort(str(left))) is LastStop.POWER_LOST
    assert LastStop.of(read_abort(str(tmp_path / "s"))) is LastStop.POWER_LOST


@pytest.mark.parametrize("clean", [True, False])
def test_a_clean_stop_without_a_terminator_keeps_its_last_message(tmp_path, clean: bool) -> None:
    """RocketMQ writes no zeros behind an append: in a segment of ours that it took over, old bytes stand there."""
    with make_store(tmp_path / "s") as store:
        fill(store, 0, 9)
        end = store.written
    shutil.rmtree(tmp_path / "s" / "checksum")
    (tmp_path / "s" / "checkpoint").write_bytes(bytes(4096))
    if not clean:
        (tmp_path / "s" / "abort").write_text("7\n")
    with open(tmp_path / "s" / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(end)
        log.write(b"what stood here before" * 40)
    with make_store(tmp_path / "s") as store:
        assert numbers(store) == list(range(9 if clean else 8))


@pytest.mark.parametrize("left", ["nothing", "directory"])
@pytest.mark.parametrize("last_stop", ["clean", "killed", "killed early"])
def test_a_log_that_was_deleted_is_told_once_and_nothing_takes_its_place(tmp_path, last_stop: str, left: str) -> None:
    """Else its messages are told as lost one by one, and new ones get the offsets of those that consumers had."""
    with make_store(tmp_path / "s") as store:
        for number in range(9):
            put(store, "t", number % 2, message("t", b"%04d" % number, keys="k"))
        if last_stop == "killed":
            store.flush_all(20_000)
            store._upkeep.run_in_worker(lambda: None).result(60)
        killed = kill(tmp_path / "s", tmp_path / "k")
    directory = tmp_path / "s" if last_stop == "clean" else killed
    (directory / "commitlog").rename(tmp_path / "log")
    if left == "directory":
        (directory / "commitlog").mkdir()
    before = tree(directory, ".")
    for _ in range(2):
        with pytest.raises(StoreFormatError, match=r"Put the files back; .* start with an empty one"):
            make_store(directory).__enter__()
    assert tree(directory, ".") == before
    shutil.rmtree(directory / "commitlog", ignore_errors=True)
    (tmp_path / "log").rename(directory / "commitlog")
    with make_store(directory) as store:
        assert len(read_queue(store, "t", 0) + read_queue(store, "t", 1)) == 9
